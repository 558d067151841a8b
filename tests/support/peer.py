"""llama-server on a loopback port, stopped by its id: the peer to compare with."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from scripts.build_llama_server import built_server

START_S = 60.0
STOP_S = 20.0


def peer_program() -> Path:
    """The peer's program; without one, the test is skipped."""
    program = built_server()
    if program is None:
        pytest.skip("no llama-server is built: make peer builds it")
    return program


@contextmanager
def running_peer(model: Path, *flags: str) -> Iterator[str]:
    """Serve a model with one thread; gives the address."""
    port = free_port()
    command = [str(peer_program()), "-m", str(model), "--port", str(port), "-t", "1"]
    process = subprocess.Popen(
        [*command, *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        root = f"http://127.0.0.1:{port}"
        _wait(process, root)
        yield root
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _wait(process: subprocess.Popen[bytes], root: str) -> None:
    pause = threading.Event()
    for _ in range(int(START_S / 0.05)):
        assert process.poll() is None, "llama-server ended"
        try:
            if httpx.get(f"{root}/health", timeout=5).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        pause.wait(0.05)
    raise AssertionError("llama-server does not answer")
