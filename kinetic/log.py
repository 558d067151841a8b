"""Logging as operators read it: one line a record, on standard error."""

from __future__ import annotations

import contextlib
import io
import logging
import queue
import sys
from logging.handlers import QueueHandler, QueueListener
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES_WAITING = 1000
"""Lines that may wait for whoever reads standard error; more are dropped."""

LAST_WORDS_S = 2.0
"""How long the end of the process waits for them."""

_FORMAT = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")


def set_up(*, verbose: bool = False) -> None:
    """Send records to standard error; `verbose` shows the engine's own words too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_FORMAT)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("kinetic").setLevel(logging.DEBUG if verbose else logging.INFO)
    # Tornado's line per request says less than ours does, and a rush has many.
    logging.getLogger("tornado.access").setLevel(logging.CRITICAL)
    logging.getLogger("pykka").setLevel(logging.CRITICAL)


@contextlib.contextmanager
def without_waiting() -> Iterator[None]:
    """Meanwhile records are written by a thread of its own, and nobody waits for it.

    A pipe that nobody reads is full after some hundred requests, and a write to it
    never returns. What does not fit into the queue is dropped and counted, and the log
    tells how many lines are missing, where they are missing. At the end, what waits is
    written for LAST_WORDS_S at most.
    """
    root = logging.getLogger()
    before = root.handlers[:]
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(LINES_WAITING)
    handler = _DroppingHandler(waiting)
    listener = QueueListener(waiting, _Writer(_unbuffered(sys.stderr)))
    listener.start()
    root.handlers[:] = [handler]
    try:
        yield
    finally:
        if handler.is_written(LAST_WORDS_S):
            listener.stop()
            root.handlers[:] = before


class _DroppingHandler(QueueHandler):
    """Queues records while there is room. Its lock is held in `enqueue`."""

    def __init__(self, waiting: queue.Queue[logging.LogRecord]) -> None:
        super().__init__(waiting)
        self._waiting = waiting
        self._n_dropped = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a record, and before it how many were dropped, or drop it."""
        try:
            self._tell_dropped()
            self._waiting.put_nowait(record)
        except queue.Full:
            self._n_dropped += 1

    def _tell_dropped(self) -> None:
        if self._n_dropped:
            text = f"{self._n_dropped} lines of the log are missing: nobody read them"
            self._waiting.put_nowait(
                logging.LogRecord(__name__, logging.WARNING, "", 0, text, None, None)
            )
            self._n_dropped = 0

    def is_written(self, within_s: float) -> bool:
        """Wait until nothing is queued any more; False when time runs out."""
        with contextlib.suppress(queue.Full):
            self._tell_dropped()
        done = self._waiting.all_tasks_done
        with done:
            return done.wait_for(lambda: not self._waiting.unfinished_tasks, within_s)


class _Writer(logging.StreamHandler[TextIO]):
    """Writes lines in the listener's thread alone, where a write may never return.

    So it has no lock: `logging.shutdown` would wait for it at the end of the process.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.setFormatter(_FORMAT)

    def createLock(self) -> None:  # noqa: N802 - logging's name
        """Have none."""
        self.lock = None

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Tell nobody: what failed is standard error itself."""


def _unbuffered(stream: TextIO) -> TextIO:
    """The same file without the lock of Python's buffer.

    Python takes that lock when it ends, and aborts where a thread holds it.
    """
    try:
        number = stream.fileno()
    except (OSError, ValueError):  # no file, as where a test listens
        return stream
    raw = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(
        raw, "utf-8", "backslashreplace", newline="", write_through=True
    )
