"""The real process: `kinetic serve` on a free port, stopped by its id."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

START_S = 120.0
"""Loading, probing and listening; a slow machine with a cold disk has time."""
STOP_S = 60.0

_SERVING = re.compile(r"serving .* at (http://\S+):(\d+)/v1")


class ServerProcess:
    """A server of one model, from its start to its end.

    Args:
        model: The GGUF file.
        flags: Further flags of `kinetic serve`.
        n_files: How many files it may open; None is what we may.
    """

    def __init__(self, model: Path, *flags: str, n_files: int | None = None) -> None:
        limited = ["sh", "-c", f'ulimit -n {n_files}; exec "$0" "$@"']
        command = [
            *(limited if n_files is not None else ()),
            sys.executable,
            "-m",
            "kinetic",
            "serve",
            str(model),
            "--port",
            "0",
            *flags,
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.log: list[str] = []
        """Lines of standard error so far."""
        self._told = threading.Event()
        self.port = 0
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self.log.append(line.rstrip("\n"))
                if found := _SERVING.search(line):
                    self.port = int(found[2])
                    self._told.set()
        self._told.set()

    def wait_until_serving(self) -> None:
        """Wait for the line that tells the port; fails when the process ends first."""
        is_told = self._told.wait(START_S)
        if not is_told or not self.port:
            self.kill()
            raise AssertionError("the server did not start:\n" + "\n".join(self.log))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def root(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """What an OpenAI client is pointed at."""
        return f"{self.root}/v1"

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_for_log(self, text: str, limit_s: float = 10.0) -> str:
        """The first log line that holds a text, waited for."""
        pause = threading.Event()
        for _ in range(int(limit_s / 0.02)):
            for line in list(self.log):
                if text in line:
                    return line
            pause.wait(0.02)
        raise AssertionError(f"{text!r} is not in the log:\n" + "\n".join(self.log))

    def health(self) -> dict[str, object]:
        """What /health says now."""
        answer = httpx.get(f"{self.root}/health", timeout=5)
        assert answer.status_code == 200
        found: dict[str, object] = answer.json()
        return found

    def wait_until_idle(self, limit_s: float = 10.0) -> None:
        """Wait until no slot serves anyone."""
        pause = threading.Event()
        for _ in range(int(limit_s / 0.02)):
            if self.health()["slots_processing"] == 0:
                return
            pause.wait(0.02)
        raise AssertionError(f"slots are still busy: {self.health()}")

    def stop(self) -> int:
        """End it as an operator would; the exit code."""
        if self.is_alive:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                "the server did not stop:\n" + "\n".join(self.log)
            ) from None
        self._reader.join(STOP_S)
        return code

    def kill(self) -> None:
        """End it by force."""
        self._process.kill()
        self._process.wait(STOP_S)
        self._reader.join(STOP_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.is_alive:
            self.kill()


@contextmanager
def running_server(model: Path, *flags: str) -> Iterator[ServerProcess]:
    """Serve a model; afterwards it must end well when asked to."""
    with ServerProcess(model, *flags) as process:
        process.wait_until_serving()
        yield process
        assert process.is_alive, "the server died:\n" + "\n".join(process.log)
        code = process.stop()
        assert code == 0, f"exit code {code}:\n" + "\n".join(process.log)
