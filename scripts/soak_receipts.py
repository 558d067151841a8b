"""Ask a server for many random answers with receipts, and prove every one.

    python -m scripts.soak_receipts [MODEL] [--count N] [--seed S] [--threads N]

A server is started on a free port of the loopback address, asked by several clients at
once, and stopped; then every receipt is run again in this process, with other slots and
another context. Ends with code 1, and the receipts in a file, if one is not proven.
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import httpx

from kinetic.config import BenchOptions
from kinetic.files import paths
from kinetic.proof.bench import ModelBench
from kinetic.receipts import reading, schema, signing
from kinetic.receipts.verify import Outcome, Pin, verify
from scripts.console import Ticker, end_on_signals, say

START_LIMIT_S: Final = 300.0
STOP_LIMIT_S: Final = 60.0
ANSWER_LIMIT_S: Final = 300.0
COUNT_MAX: Final = 5000
TOKENS_MAX: Final = 40
CLIENTS: Final = 6
CONTEXT: Final = 1024
SLOTS: Final = 4

_SERVING = re.compile(r"serving .* at (http://\S+:\d+)/v1")
_TEXTS = (
    "Name three rivers.",
    "Once upon a time there was a small town by the river, and in it lived",
    "one two one two one two",
    "def fibonacci(n):\n    ",
    "Schreibe ein Gedicht über 🦊 und 漢字.",
    "List of capitals:\n- France: Paris\n- Japan: Tokyo\n- Peru:",
    "x",
)
_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "kind": {"enum": ["cat", "dog"]},
    },
    "required": ["name", "age", "kind"],
}
_GRAMMAR = 'root ::= item+\nitem ::= "- " [a-z]+ "\\n"\n'
_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}},
            "required": ["city"],
        },
    },
}


# --- Random requests ----------------------------------------------------------------


def random_request(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A path and a body that asks for a receipt."""
    body: dict[str, Any] = {
        "receipt": True,
        "max_tokens": rng.choice((0, 1, 7, 20, TOKENS_MAX)),
        **_sampling(rng),
    }
    if rng.random() < 0.3:  # noqa: PLR2004 - some of them
        body["stop"] = rng.sample(["\n", ".", " the", "e", "zzz", "\n\n", "2"], 2)
    if rng.random() < 0.2:  # noqa: PLR2004
        body["stream"] = True
    route = rng.choice((_chat, _chat, _completion, _native, _held, _call))
    return route(rng, body)


def _sampling(rng: random.Random) -> dict[str, Any]:
    """Some of the samplers, at values that change something."""
    ranges: dict[str, Any] = {
        "temperature": rng.choice((0, 0.5, 0.8, 1.0, 1.7)),
        "top_k": rng.choice((0, 1, 10, 40, 200)),
        "top_p": rng.uniform(0.5, 1),
        "min_p": rng.uniform(0, 0.2),
        "typical_p": rng.uniform(0.5, 1),
        "top_n_sigma": rng.uniform(0.5, 3),
        "repeat_penalty": rng.uniform(0.8, 1.6),
        "presence_penalty": rng.uniform(-1, 1.5),
        "frequency_penalty": rng.uniform(-0.5, 1),
        "repeat_last_n": rng.choice((-1, 0, 8, 64)),
        "dry_multiplier": rng.uniform(0, 1.5),
        "dry_allowed_length": rng.choice((1, 2, 4)),
        "xtc_probability": rng.uniform(0, 1),
        "xtc_threshold": rng.uniform(0, 0.3),
        "mirostat": rng.choice((0, 1, 2)),
        "dynatemp_range": rng.uniform(0, 1),
        "logit_bias": {str(rng.randrange(3, 40000)): rng.choice((-100, -5.5, 3))},
        "seed": rng.randrange(2**32 - 1),
    }
    return {name: ranges[name] for name in rng.sample(sorted(ranges), rng.randrange(9))}


def _messages(rng: random.Random) -> list[dict[str, Any]]:
    """One to three turns; the same beginnings come again, so that states are reused."""
    n = rng.choice((1, 1, 3))
    roles = ("user", "assistant", "user")
    return [{"role": role, "content": rng.choice(_TEXTS)} for role in roles[:n]]


def _chat(rng: random.Random, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", {
        "messages": _messages(rng),
        "n": rng.choice((1, 1, 1, 2)),
        **body,
    }


def _completion(rng: random.Random, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "/v1/completions", {"prompt": rng.choice(_TEXTS), **body}


def _native(rng: random.Random, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    prompt = [rng.choice(_TEXTS), rng.randrange(3, 40000)]
    return "/completion", {"prompt": prompt, "n_indent": rng.choice((0, 0, 2)), **body}


def _held(rng: random.Random, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Held to a schema, to a grammar or to any JSON."""
    shape: dict[str, Any] = rng.choice(
        (
            {"json_schema": _SCHEMA},
            {"grammar": _GRAMMAR},
            {"response_format": {"type": "json_object"}},
        )
    )
    return "/v1/chat/completions", {"messages": _messages(rng), **body, **shape}


def _call(rng: random.Random, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    choice = rng.choice(("auto", "required"))
    return "/v1/chat/completions", {
        "messages": _messages(rng),
        "tools": [_TOOL],
        "tool_choice": choice,
        **body,
    }


# --- The server ---------------------------------------------------------------------


class Server:
    """`kinetic serve` as a child."""

    def __init__(self, model: Path, threads: int, key: Path, states: Path) -> None:
        command = [sys.executable, "-m", "kinetic", "serve", str(model), "--port", "0"]
        command += ["-c", str(CONTEXT), "-np", str(SLOTS), "-t", str(threads)]
        command += ["--sign-key", str(key), "--cache-dir", str(states)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self._log: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stderr or ():
            self._log.put(line)
        self._log.put(None)

    def url(self) -> str:
        """Wait until it serves; its address."""
        deadline = time.monotonic() + START_LIMIT_S
        last = ""
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self._log.get(timeout=left)
            except queue.Empty:
                break
            if line is None:
                break
            last = line
            if found := _SERVING.search(line):
                return found[1]
        raise SystemExit(f"the server did not start: {last}")

    def stop(self) -> None:
        """End it as an operator would."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_LIMIT_S)


def collect(url: str, count: int, rng: random.Random, ticker: Ticker) -> list[Any]:
    """At least `count` receipts, made side by side."""
    asked = [random_request(rng) for _ in range(count)]
    found: list[Any] = []
    lock = threading.Lock()

    def ask(request: tuple[str, dict[str, Any]]) -> None:
        path, body = request
        response = httpx.post(url + path, json=body, timeout=ANSWER_LIMIT_S)
        if response.status_code != httpx.codes.OK:
            raise SystemExit(f"{path} answers {response.text}\n{json.dumps(body)}")
        receipts = reading.receipts_in(response.content)
        with lock:
            found.extend(receipts)
            ticker.step = f"{len(found)} receipts"

    with ThreadPoolExecutor(CLIENTS) as pool:
        for _ in pool.map(ask, asked):
            pass
    return found


def prove(
    receipts: list[Any], bench: ModelBench, pin: Pin, ticker: Ticker
) -> list[tuple[Any, list[str]]]:
    """Those that are not proven, with what was found."""
    bench.reserve(schema.read(receipt).receipt for receipt in receipts)
    failed: list[tuple[Any, list[str]]] = []
    for i, receipt in enumerate(receipts, 1):
        report = verify(receipt, bench, pin=pin)
        ticker.step = f"{i} of {len(receipts)}, {len(failed)} not proven"
        if report.outcome is not Outcome.PROVEN:
            failed.append((receipt, [step.text for step in report.steps]))
    return failed


def main() -> int:
    """Run the soak; the exit code."""
    end_on_signals()
    arguments = _parser().parse_args()
    count = min(max(arguments.count, 1), COUNT_MAX)
    rng = random.Random(arguments.seed)
    say(f"{count} random requests, seed {arguments.seed}")
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "key"
        pin = Pin(public_key=signing.generate(key).public_key)
        states = Path(folder) / "states"
        server = Server(arguments.model, arguments.threads, key, states)
        try:
            with Ticker("asking") as ticker:
                receipts = collect(server.url(), count, rng, ticker)
        finally:
            server.stop()
    ends = Counter(r["output"]["finish"]["reason"] for r in receipts)
    say(f"{len(receipts)} receipts, ends: {dict(ends)}")
    options = BenchOptions(
        model=arguments.model, n_threads=arguments.threads, show_progress=False
    )
    with Ticker("proving") as ticker, ModelBench(options) as bench:
        failed = prove(receipts, bench, pin, ticker)
    if not failed:
        say(f"all {len(receipts)} receipts are proven")
        return 0
    arguments.keep.write_text("\n".join(json.dumps(r) for r, _ in failed), "utf-8")
    for _, steps in failed[:10]:
        say(steps[-1])
    say(f"{len(failed)} of {len(receipts)} are not proven: {arguments.keep} has them")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "model", nargs="?", type=Path, default=paths.default_model_path()
    )
    parser.add_argument(
        "--count", type=int, default=200, help="requests [default: 200]"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the requests [1]")
    parser.add_argument("--threads", type=int, default=1, help="of the engine [1]")
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path("not-proven.jsonl"),
        help="where receipts go that are not proven [not-proven.jsonl]",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
