"""The servers under test: their commands, how they start and stop, what they hold."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

START_LIMIT_S = 300.0
STOP_LIMIT_S = 60.0
N_SLOTS: Final = 4
N_CTX: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a command line is made of."""

    model: str
    n_threads: int
    states: str
    """A folder for the states that Kinetic keeps; empty at the start."""
    llama_server: str
    python: str = sys.executable
    for_vectors: bool = False


PLACEHOLDERS: Final = {
    "model": "MODEL",
    "states": "FOLDER",
    "llama_server": "llama-server",
    "python": "python",
}
"""What stands in a shown command line for paths that differ from machine to machine."""

Command = Callable[[Setup, int], list[str]]


def kinetic(*more: str) -> Command:
    """Kinetic's command line, with further flags."""

    def command(setup: Setup, port: int) -> list[str]:
        slots = ["-c", f"{N_CTX}", "-np", f"{N_SLOTS}", "--cache-dir", setup.states]
        return [
            *(setup.python, "-m", "kinetic", "serve", setup.model),
            *("-t", f"{setup.n_threads}", "--port", f"{port}"),
            *([] if setup.for_vectors else slots),
            *more,
        ]

    return command


def llama_server(*more: str) -> Command:
    """llama-server's command line, with further flags."""

    def command(setup: Setup, port: int) -> list[str]:
        # Its -c is for all slots together.
        slots = ["-c", f"{N_CTX * N_SLOTS}", "-np", f"{N_SLOTS}"]
        return [
            *(setup.llama_server, "-m", setup.model),
            *("-t", f"{setup.n_threads}", "--port", f"{port}"),
            *(["--embeddings"] if setup.for_vectors else slots),
            *more,
        ]

    return command


def binding(*more: str) -> Command:
    """The command line of llama-cpp-python's own server, with further flags."""

    def command(setup: Setup, port: int) -> list[str]:
        kind = ["--embedding", "true"] if setup.for_vectors else ["--n_ctx", f"{N_CTX}"]
        return [
            *(setup.python, "-m", "llama_cpp.server", "--model", setup.model),
            *("--n_threads", f"{setup.n_threads}"),
            *("--n_threads_batch", f"{setup.n_threads}", "--port", f"{port}"),
            # By default a new request ends the one that is running.
            *("--interrupt_requests", "false"),
            *kind,
            *more,
        ]

    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server as the benchmark knows it."""

    name: str
    command: Command
    health: str = "/health"
    is_binding: bool = False
    """It speaks as llama-cpp-python's server does: see `client.spoken`."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Figures that it cannot give, each with the reason."""

    def shown(self, *, for_vectors: bool, n_threads: int) -> str:
        """The command line as the page tells it, without this machine's paths."""
        setup = Setup(**PLACEHOLDERS, n_threads=n_threads, for_vectors=for_vectors)
        return " ".join(self.command(setup, 0)).replace("--port 0", "--port N")


_ONE_AT_A_TIME = "it answers one request at a time"
_ONE_CONTEXT = "it answers one at a time and would read every context again"
_NO_PREFILL = "it has no such route"
_NO_PROBE = "it remembers nothing from earlier starts"
_UNCOUNTED = "its streams do not tell token counts"

KINETIC = Server(name="Kinetic", command=kinetic())
LLAMA_SERVER = Server(
    name="llama-server",
    command=llama_server(),
    lacks={
        "prefilled_s": _NO_PREFILL,
        "one_word_s": _NO_PREFILL,
        "first_start_s": _NO_PROBE,
    },
)
BINDING = Server(
    name="llama-cpp-python",
    command=binding(),
    health="/v1/models",
    is_binding=True,
    lacks={
        "prefilled_s": _NO_PREFILL,
        "one_word_s": _NO_PREFILL,
        "first_start_s": _NO_PROBE,
        "long_two_tps": _ONE_CONTEXT,
        "long_four_tps": _ONE_CONTEXT,
        "pause_s": _ONE_AT_A_TIME,
        "gap_s": _ONE_AT_A_TIME,
        "beside_s": _ONE_AT_A_TIME,
        "cold_short_tokens": _UNCOUNTED,
        "cold_middle_tokens": _UNCOUNTED,
        "cold_long_tokens": _UNCOUNTED,
    },
)
ALL = (KINETIC, LLAMA_SERVER, BINDING)

DRAFTING = (
    KINETIC,
    Server(name="Kinetic, --no-draft", command=kinetic("--no-draft")),
    LLAMA_SERVER,
    Server(
        name="llama-server, --spec-default",
        command=llama_server("--spec-default"),
    ),
    Server(
        name="llama-server, ngram-simple",
        command=llama_server("--spec-type", "ngram-simple"),
    ),
    BINDING,
    Server(
        name="llama-cpp-python, prompt lookup",
        command=binding("--draft_model", "prompt-lookup-decoding"),
        health="/v1/models",
        is_binding=True,
    ),
)
"""As they are, and with the drafting that each has without a second model."""


class StartError(Exception):
    """A server ended, or did not answer in time, before it was up."""


class Process:
    """One server that runs on a free port of the loopback interface."""

    def __init__(self, server: Server, setup: Setup) -> None:
        self.server = server
        self.base_url = ""
        self.start_s = 0.0
        """From running the program to the first answer that it is well."""
        self.setup = setup
        self._log: list[str] = []
        self._popen: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def start(self, extra_environment: Mapping[str, str] | None = None) -> None:
        """Starts it and waits until it says that it is well.

        Raises:
            StartError: It ended, or did not answer in time.
        """
        self.stop()
        self._log.clear()
        port = free_port()
        self.base_url = f"http://127.0.0.1:{port}"
        command = self.server.command(self.setup, port)
        began = time.perf_counter()
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, **(extra_environment or {})},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        pause = threading.Event()
        while time.perf_counter() - began < START_LIMIT_S:
            if self._popen.poll() is not None:
                raise StartError(f"ended at its start: {' / '.join(self._log[-5:])}")
            if self._is_well():
                self.start_s = time.perf_counter() - began
                return
            pause.wait(0.02)
        self.stop()
        raise StartError(f"did not answer within {START_LIMIT_S:.0f} s")

    def _is_well(self) -> bool:
        # The plain client: a richer one takes the processor from who is asked.
        asked = HTTPConnection(self.base_url.partition("//")[2], timeout=5)
        try:
            asked.request("GET", self.server.health)
            return asked.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False
        finally:
            asked.close()

    def _read(self) -> None:
        """Reads what it logs, so that its pipe never fills; keeps the end."""
        stderr = self._popen.stderr if self._popen is not None else None
        for line in stderr or ():
            self._log.append(line.rstrip())
            del self._log[:-50]

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._popen is not None and self._popen.poll() is None

    def stop(self) -> None:
        """Ends it by its id, politely and then by force."""
        if self._popen is None:
            return
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGTERM)
            try:
                self._popen.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._popen.kill()
                self._popen.wait(STOP_LIMIT_S)
        if self._reader is not None:
            self._reader.join(STOP_LIMIT_S)
        if self._popen.stderr is not None:
            self._popen.stderr.close()

    def memory_mib(self) -> float:
        """Resident memory now; 0 where it does not run or the system does not tell."""
        found = re.search(r"VmRSS:\s+(\d+)", self._told("status"))
        return int(found[1]) / 1024 if found else 0.0

    def cpu_s(self) -> float:
        """Processor time so far; 0 where it does not run or nobody tells."""
        text = self._told("stat")
        if not text:
            return 0.0
        # Behind the name, which may hold anything: user and system time in ticks.
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _told(self, name: str) -> str:
        """What the system tells of the process in a file; "" if nothing."""
        if self._popen is None:
            return ""
        try:
            return Path(f"/proc/{self._popen.pid}/{name}").read_text("ascii")
        except OSError:
            return ""


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
