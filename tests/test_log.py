"""A log that nobody reads holds nobody up, and says what is missing once it is read."""

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import time

import httpx
import pytest

from kinetic import log
from tests.support import tiny_models

LIMIT_S = 50
PIPE_BYTES = 4096


@contextlib.contextmanager
def child(*command):
    """A process whose standard error is a pipe of one page, and the end to read."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    with (
        os.fdopen(reading, encoding="utf-8") as lines,
        subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=writing,
            text=True,
        ) as process,
    ):
        os.close(writing)
        try:
            yield process, lines
        finally:
            process.kill()


LOGGING = """
import logging
from kinetic import log
say = logging.getLogger("kinetic.test")
log.set_up()
"""

ALL_KINDS = """
say.info("before")
with log.without_waiting():
    for i in range(500):
        say.info("line %d", i)
    try:
        raise ValueError("a bug")
    except ValueError:
        say.exception("failed")
say.critical("after")
"""


def test_lines_are_written_in_their_order_and_all_before_the_end():
    with child("-c", LOGGING + ALL_KINDS) as (process, lines):
        texts = lines.read().splitlines()
        assert process.wait(LIMIT_S) == 0
    assert texts[0].endswith("INFO    before")
    numbers = [text.rpartition(" ")[2] for text in texts if "INFO    line " in text]
    assert numbers == [str(i) for i in range(500)]
    assert "ValueError: a bug" in texts
    assert texts[-1].endswith("CRITICAL after")


DROPPING = """
with log.without_waiting():
    for i in range(5000):
        say.info("line %d", i)
    print("not held up", flush=True)
    input()
    say.info("once more")
"""


def test_what_nobody_reads_is_dropped_and_counted_where_it_is_missing():
    with child("-c", LOGGING + DROPPING) as (process, lines):
        assert process.stdout.readline() == "not held up\n"
        texts = [lines.readline().rstrip("\n") for _ in range(log.LINES_WAITING)]
        process.stdin.write("\n")
        process.stdin.flush()
        texts += lines.read().splitlines()
        assert process.wait(LIMIT_S) == 0
    n_told, n_dropped = 0, 0
    for text in texts[:-1]:
        if missing := re.search(r"WARNING (\d+) lines of the log are missing", text):
            n_dropped += int(missing[1])
        else:
            assert text.endswith(f"INFO    line {n_told + n_dropped}")
            n_told += 1
    assert n_told + n_dropped == 5000
    assert n_told >= log.LINES_WAITING
    assert n_dropped > 0
    assert texts[-1].endswith("INFO    once more")


ENDING = """
with log.without_waiting():
    for i in range(5000):
        say.info("line %d", i)
"""


def test_the_end_waits_no_longer_than_it_says():
    with child("-c", LOGGING + ENDING) as (process, _):
        began = time.monotonic()
        assert process.wait(LIMIT_S) == 0
    assert time.monotonic() - began < log.LAST_WORDS_S + 10


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_server_whose_log_nobody_reads_serves_on_and_stops(is_closed, tmp_path):
    flags = ["--port", "0", "-c", "64", "-np", "1", "-t", "1", "--cache-dir", tmp_path]
    command = ["-m", "kinetic", "serve", str(tiny_models.qwen3()), *flags]
    with child(*command) as (process, lines):
        line = ""
        while "serving" not in line:
            line = lines.readline()
            assert line, "the server ended"
        url = line.rpartition(" at ")[2].strip()
        if is_closed:
            lines.close()
        with httpx.Client(timeout=LIMIT_S) as client:
            for _ in range(100):
                body = {"prompt": "a", "max_tokens": 1}
                answer = client.post(f"{url}/completions", json=body)
                assert answer.status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
