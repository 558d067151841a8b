"""Hundreds of connections at once where few files may be open: all are answered."""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import tiny_models
from tests.support.raw_http import RawClient, exchange, request
from tests.support.server import ServerProcess

N_FILES = 256
N_CLIENTS = 600
LIMIT_S = 45
FLAGS = ("-c", "64", "-np", "1", "-t", "1", "--cache-disk", "0")
MODELS = request("GET", "/v1/models")
HEALTH = request("GET", "/health")


@pytest.fixture(scope="module")
def server():
    """A server that may open few files."""
    with ServerProcess(tiny_models.qwen3(), *FLAGS, n_files=N_FILES) as process:
        process.wait_until_serving()
        yield process
        assert process.stop() == 0


def busy_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_the_limits_are_said_at_start(server):
    line = server.wait_for_log("connections:")
    assert "144 are answered at once, 48 more may send; 256 files may be open" in line


@pytest.mark.parametrize("keeps_open", [False, True])
def test_a_rush_is_answered_and_little_is_logged(server, keeps_open):
    n_lines, busy_s = len(server.log), busy_seconds(server.pid)

    async def rush():
        done = asyncio.Event()
        n_done = 0

        async def one():
            nonlocal n_done
            async with RawClient(server.root) as raw:
                await raw.send(MODELS)
                status = (await raw.answer()).status
                n_done += 1
                if n_done == N_CLIENTS:
                    done.set()
                if keeps_open:
                    await done.wait()
                return status

        async with asyncio.timeout(LIMIT_S):
            return await asyncio.gather(*(one() for _ in range(N_CLIENTS)))

    assert asyncio.run(rush()) == [200] * N_CLIENTS
    assert len(server.log) - n_lines < 10
    assert busy_seconds(server.pid) - busy_s < 10


def test_silent_connections_keep_nobody_out(server):
    async def story():
        async with contextlib.AsyncExitStack() as stack, asyncio.timeout(LIMIT_S):
            # As many as fit, and some that wait in the kernel's line.
            silent = [RawClient(server.root) for _ in range(100)]
            for client in silent:
                await stack.enter_async_context(client)
            began = time.monotonic()
            for _ in range(5):
                assert (await exchange(server.root, HEALTH)).status == 200
            assert time.monotonic() - began < 15

    asyncio.run(story())


def test_streams_that_run_go_on(server):
    body = {"prompt": "a", "max_tokens": 40, "stream": True, "temperature": 0}
    data = request("POST", "/v1/completions", json.dumps(body).encode())

    async def story():
        async with asyncio.timeout(LIMIT_S):
            alone = (await exchange(server.root, data)).body
            found = await asyncio.gather(
                *(exchange(server.root, data) for _ in range(8)),
                *(exchange(server.root, MODELS) for _ in range(300)),
            )
        for answer in found[:8]:
            assert answer.body.count(b"data: ") == alone.count(b"data: ")
            assert answer.body.endswith(b"data: [DONE]\n\n")
        assert {answer.status for answer in found} == {200}

    asyncio.run(story())


def test_more_connections_than_files_are_refused_at_start():
    model = str(tiny_models.qwen3())
    command = f"ulimit -n {N_FILES}; exec {sys.executable} -m kinetic serve"
    done = subprocess.run(
        ["sh", "-c", f"{command} {model} --port 0 --max-connections 145"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(
        "kinetic: --max-connections 145 is more than fits: 256 files"
    )
