"""The files of kept states, at the disk's own pace."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kinetic.actors.messages import StateRead, StateWritten

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinetic.model.engine.snapshot import StateFolder, StateHead

_log = logging.getLogger(__name__)


class StateFiles:
    """Writes, reads and removes the files; nobody here waits for the disk.

    Thread: the Cache's. One thread of its own writes and removes, another reads, and
    what became of it is told by `tell_me`: a disk that stands still holds up nobody
    else. One state is written at a time; those that wait can be given up, so that the
    Cache can bound the memory they hold. An error concerns its file alone.
    """

    def __init__(
        self, folder: StateFolder, tell_me: Callable[[StateWritten | StateRead], None]
    ) -> None:
        self._folder = folder
        self._tell_me = tell_me
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="cache-writer")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="cache-reader")
        self._names: dict[int, str] = {}  # of files that are whole, by state
        self._waiting: dict[int, tuple[StateHead, bytes]] = {}  # in their order
        self._writing: tuple[int, int] | None = None  # which state, how many bytes
        self._is_failing = False

    @property
    def writing(self) -> int | None:
        """The state that is being written: its bytes cannot be freed now."""
        return None if self._writing is None else self._writing[0]

    @property
    def n_writing_bytes(self) -> int:
        """How large it is."""
        return 0 if self._writing is None else self._writing[1]

    def found(self, state_id: int, name: str) -> None:
        """An earlier process left this file."""
        self._names[state_id] = name

    def write(self, state_id: int, head: StateHead, state: bytes) -> None:
        """Have a state written when its turn comes; answered by StateWritten."""
        self._waiting[state_id] = (head, state)
        self._next()

    def is_waiting(self, state_id: int) -> bool:
        """Whether a state waits to be written."""
        return state_id in self._waiting

    def give_up(self, state_id: int) -> None:
        """Do not write a state that still waits."""
        self._waiting.pop(state_id, None)

    def written(self, message: StateWritten) -> bool:
        """Take the writer's answer and give it the next state; whether there is a file.

        A disk that is full or gone may come back: each state is tried, and the log
        tells when that begins and ends to fail.
        """
        self._writing = None
        if message.name is not None:
            self._names[message.state_id] = message.name
        failed = message.name is None
        if failed and not self._is_failing:
            _log.warning(
                "kept states cannot be written to %s: %s; each is tried again",
                self._folder.path,
                message.reason,
            )
        elif self._is_failing and not failed:
            _log.info("kept states are written to %s again", self._folder.path)
        self._is_failing = failed
        self._next()
        return not failed

    def read(self, state_id: int) -> None:
        """Have a state's file read and checked; answered by StateRead."""
        name = self._names[state_id]

        def work() -> None:
            started = time.perf_counter()
            state = self._folder.read(name)
            seconds = time.perf_counter() - started
            self._tell_me(StateRead(state_id=state_id, state=state, seconds=seconds))

        self._reader.submit(work)

    def remove(self, state_id: int) -> None:
        """Remove a state's file, if it has one."""
        name = self._names.pop(state_id, None)
        if name is not None:
            self._writer.submit(self._folder.remove, name)

    def close(self) -> None:
        """Write what waits, and wait until all of it is whole."""
        self._reader.shutdown(wait=True, cancel_futures=True)
        for head, state in self._waiting.values():
            self._writer.submit(self._write, -1, head, state)
        self._waiting.clear()
        self._writer.shutdown(wait=True)

    def _next(self) -> None:
        if self._writing is not None or not self._waiting:
            return
        state_id = next(iter(self._waiting))
        head, state = self._waiting.pop(state_id)
        self._writing = (state_id, len(state))
        self._writer.submit(self._write, state_id, head, state)

    def _write(self, state_id: int, head: StateHead, state: bytes) -> None:
        name, reason = None, ""
        try:
            name = self._folder.write(head, state)
        except OSError as error:
            reason = error.strerror or str(error)
        self._tell_me(StateWritten(state_id=state_id, name=name, reason=reason))
