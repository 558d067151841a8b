"""Says what a script is doing, and shows that a long command is alive.

A terminal gets one line that is rewritten each second; a log gets a line whenever the
command has moved on, at most every `LOG_INTERVAL_S` seconds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

LOG_INTERVAL_S = 15.0
TERMINAL_INTERVAL_S = 1.0
TAIL_LINES = 40


def say(text: str) -> None:
    """Prints one line at once, also into a pipe."""
    print(f"[kinetic] {text}", flush=True)


class Ticker:
    """Prints how long something takes and its latest step, until closed.

    Runs a daemon thread of its own; `step` may be set from any thread.
    """

    def __init__(self, label: str) -> None:
        self.step = ""
        self._label = label
        self._start = time.monotonic()
        self._closed = threading.Event()
        self._is_terminal = sys.stdout.isatty()
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()
        if self._is_terminal:
            print("\r\x1b[K", end="", flush=True)

    def elapsed(self) -> str:
        """Returns the time since the start as minutes and seconds."""
        minutes, seconds = divmod(int(time.monotonic() - self._start), 60)
        return f"{minutes}:{seconds:02d}"

    def _run(self) -> None:
        interval_s = TERMINAL_INTERVAL_S if self._is_terminal else LOG_INTERVAL_S
        while not self._closed.wait(interval_s):
            line = f"{self._label} {self.elapsed()} {self.step}".rstrip()
            if self._is_terminal:
                width = os.get_terminal_size(sys.stdout.fileno()).columns
                print(f"\r\x1b[K{line[: max(width - 1, 0)]}", end="", flush=True)
            else:
                say(line)


def run_logged(
    command: Sequence[str],
    *,
    label: str,
    log: Path,
    env: Mapping[str, str] | None = None,
    read_step: Callable[[str], str | None] = lambda line: line.strip() or None,
) -> None:
    """Runs a long command, its output in a file and its progress on the terminal.

    The command gets a process group of its own, which is ended with this script, so
    that an interrupted compile leaves no compiler running.

    Args:
        command: Program and arguments.
        label: What the command does, as shown before the elapsed time.
        log: Where the whole output goes; overwritten.
        env: The command's environment; ours if None.
        read_step: Turns a line of output into the step to show, or None to keep
            showing the one before.

    Raises:
        SystemExit: The command failed; its last lines and the log's place are shown.
    """
    say(f"{label} ...")
    with (
        log.open("w", encoding="utf-8") as copy,
        Ticker(label) as ticker,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        try:
            for line in process.stdout or ():
                copy.write(line)
                ticker.step = read_step(line) or ticker.step
            code = process.wait()
        except BaseException:
            say(f"{label}: stopping after {ticker.elapsed()}")
            _end_group(process)
            raise
        elapsed = ticker.elapsed()
    if code != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(lines[-TAIL_LINES:]), flush=True)
        say(f"{label} failed after {elapsed}; the whole output is in {log}")
        raise SystemExit(1)
    say(f"{label} took {elapsed}")


def end_on_signals() -> None:
    """Makes Ctrl-C and SIGTERM unwind the script, so that clean-up runs, in silence."""

    def leave(signum: int, _frame: object) -> None:
        raise SystemExit(128 + signum)

    signal.signal(signal.SIGINT, leave)
    signal.signal(signal.SIGTERM, leave)


def _end_group(process: subprocess.Popen[str]) -> None:
    """Ends a command and everything it started: politely, then for good."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=5)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
