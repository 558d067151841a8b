"""Sends the same requests to Kinetic and to llama-server, and lists what differs.

    python -m scripts.llama_server_compat [--peer PROGRAM] [--model FILE] [--all]

Both servers run on one GGUF file, on free ports of this computer, and are stopped
afterwards. Differences that are meant to be stand in llama_server_differences.toml,
each with its reason. The exit code is 1 when one is left unexplained.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from prometheus_client.parser import text_string_to_metric_families

from kinetic.files.paths import default_model_path
from scripts.build_llama_server import find_or_build
from scripts.compat_cases import Case, cases
from scripts.compat_compare import (
    Difference,
    Reply,
    Verdict,
    compare,
    judge,
    read_explained,
)
from scripts.console import end_on_signals, say

DIFFERENCES = Path(__file__).with_name("llama_server_differences.toml")
START_S = 180.0
ANSWER_S = 180.0
STOP_S = 30.0
N_CTX = "2048"
# One thread each: on a machine that has other work, several wait for one another.
BOTH_FLAGS = ("-np", "1", "-c", N_CTX, "-t", "1", "--host", "127.0.0.1")
# The peer without what changes its sums from pass to pass, so that the same tokens are
# the likeliest ones in both.
PEER_FLAGS = (
    *BOTH_FLAGS,
    *("-b", "512", "-ub", "512", "-fa", "off", "--no-repack", "--metrics", "--no-ui"),
)
# Nor does the peer draft by itself.
OUR_FLAGS = (*BOTH_FLAGS, "--no-draft")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(command: Sequence[str], port: int) -> Iterator[None]:
    """Runs a server until it is not needed any more; raises SystemExit with its log."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            _wait_until_healthy(process, port, log)
            yield
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_S)


def _wait_until_healthy(
    process: subprocess.Popen[bytes], port: int, log: IO[bytes]
) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if send(port, Case(name="", method="GET", path="/health")).status == 200:  # noqa: PLR2004
                return
        except OSError:
            pass
        time.sleep(0.1)
    log.seek(0)
    tail = log.read().decode("utf-8", "replace")[-4000:]
    raise SystemExit(f"{process.args!r} did not start:\n{tail}")


def send(port: int, case: Case) -> Reply:
    """Sends one request and reads the answer to its end."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    try:
        body = case.body if isinstance(case.body, str) else json.dumps(case.body)
        headers = {"Content-Type": "application/json"}
        if case.method == "GET":
            connection.request("GET", case.path)
        else:
            connection.request(case.method, case.path, body.encode(), headers)
        answer = connection.getresponse()
        content_type = answer.headers.get("Content-Type", "").partition(";")[0]
        read = read_body(content_type, answer.read().decode("utf-8", "replace"))
        return Reply(status=answer.status, content_type=content_type, body=read)
    finally:
        connection.close()


def read_body(content_type: str, text: str) -> Any:
    """An answer as something to compare: JSON, a stream's events, metrics' kinds."""
    if content_type == "text/event-stream":
        events = re.findall(r"^data: (.*)$", text, re.MULTILINE)
        read = [event if event == "[DONE]" else json.loads(event) for event in events]
        # llama-server says null where a further prompt begins.
        return [event for event in read if event is not None]
    if content_type == "text/plain":
        # Values depend on the time it took; names and kinds do not.
        families = text_string_to_metric_families(text)
        return {
            sample.name: family.type for family in families for sample in family.samples
        }
    return json.loads(text)


def answers_of(command: Sequence[str]) -> list[Reply]:
    """Starts a server, sends it every request and stops it."""
    port = free_port()
    with serving([*command, "--port", str(port)], port):
        return [send(port, case) for case in cases()]


def run(peer: Path, model: Path) -> Verdict:
    """Has both servers answer every request, one behind the other, and compares."""
    kinetic = str(Path(sys.executable).with_name("kinetic"))
    ours = answers_of([kinetic, "serve", str(model), *OUR_FLAGS])
    # The name that we give the model: the file's without its extension.
    named = ["--alias", model.stem]
    theirs = answers_of([str(peer), "-m", str(model), *PEER_FLAGS, *named])
    found: list[Difference] = []
    for case, one, other in zip(cases(), ours, theirs, strict=True):
        found += compare(f"{case.method} {case.route}", case.name, one, other)
    say(f"{len(ours)} requests sent to both servers")
    return judge(found, read_explained(DIFFERENCES))


def report(verdict: Verdict, *, everything: bool) -> Iterator[str]:
    """The result line by line."""
    if everything:
        for difference, reason in verdict.explained:
            yield f"{line(difference)}\n    explained: {reason.reason}"
    for difference in verdict.unexplained:
        yield line(difference)
    for reason in verdict.unused:
        yield f"explained, but not there: {reason.route} {reason.case} {reason.path}"
    yield (
        f"{len(verdict.explained)} differences are explained,"
        f" {len(verdict.unexplained)} are not"
    )


def line(difference: Difference) -> str:
    """One difference."""
    d = difference
    values = f"{_short(d.ours)} here, {_short(d.theirs)} there"
    return f"{d.route} ({d.case}) {d.path}: {d.kind}: {values}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:99] + "…"  # noqa: PLR2004 - a line


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path, metavar="PROGRAM", help="a llama-server")
    parser.add_argument("--model", type=Path, metavar="FILE", help="a GGUF file")
    parser.add_argument(
        "--all", action="store_true", help="list explained differences too"
    )
    arguments = parser.parse_args(argv)
    end_on_signals()
    peer = arguments.peer or find_or_build()
    verdict = run(peer, arguments.model or default_model_path())
    for text in report(verdict, everything=arguments.all):
        print(text)
    return 1 if verdict.unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
