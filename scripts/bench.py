"""Measure Kinetic's speed, side by side with llama-server on the same file.

    python -m scripts.bench [MODEL] [--peer PATH | --no-peer] [--rounds N] [--json FILE]

Both servers run at the same time and take turns load by load, so that a machine whose
speed drifts shows the same drift to both; figures are medians, and what counts are the
ratios. Only loopback is talked to.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from kinetic import paths
from scripts import bench_actors, bench_page, build_llama_server

N_CTX = 2048
N_SLOTS = 4
START_LIMIT_S = 300.0
REQUEST_LIMIT_S = 600.0

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


@dataclass
class Process:
    """A server under test."""

    name: str
    command: list[str]
    base_url: str = ""
    start_s: float = 0.0
    log: list[str] = field(default_factory=list)
    popen: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it and wait until it answers /health."""
        began = time.perf_counter()
        self.popen = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        threading.Thread(target=self._read, daemon=True).start()
        pause = threading.Event()
        while time.perf_counter() - began < START_LIMIT_S:
            if self.popen.poll() is not None:
                sys.exit(f"{self.name} ended: {' / '.join(self.log[-5:])}")
            try:
                if httpx.get(f"{self.base_url}/health").status_code == httpx.codes.OK:
                    self.start_s = time.perf_counter() - began
                    return
            except httpx.HTTPError:
                pass
            pause.wait(0.02)
        sys.exit(f"{self.name} does not answer")

    def _read(self) -> None:
        stderr = self.popen.stderr if self.popen is not None else None
        for line in stderr or ():
            self.log.append(line.rstrip())
            del self.log[:-50]

    def stop(self) -> None:
        """End it by its id."""
        if self.popen is not None and self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            self.popen.wait(60)

    def memory_mib(self) -> float:
        """Resident memory now."""
        pid = self.popen.pid if self.popen is not None else 0
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        found = re.search(r"VmRSS:\s+(\d+)", status)
        return int(found[1]) / 1024 if found else 0.0


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def servers(model: Path, peer: Path | None, states: Path) -> list[Process]:
    """Kinetic, and llama-server where there is one, each as it is by default."""
    shape = ["-c", str(N_CTX), "-np", str(N_SLOTS)]
    port = free_port()
    kinetic = Process(
        "kinetic",
        [
            sys.executable,
            "-m",
            "kinetic",
            "serve",
            str(model),
            *shape,
            "--port",
            str(port),
            "--cache-dir",
            str(states),
        ],
        f"http://127.0.0.1:{port}",
    )
    if peer is None:
        return [kinetic]
    port = free_port()
    # llama-server's -c is for all slots together.
    shape = ["-c", str(N_CTX * N_SLOTS), "-np", str(N_SLOTS)]
    other = Process(
        "llama-server",
        [str(peer), "-m", str(model), *shape, "--port", str(port)],
        f"http://127.0.0.1:{port}",
    )
    return [kinetic, other]


# --- Loads ---------------------------------------------------------------------------

_counter = iter(range(10**9))


def text_of(n_tokens: int) -> str:
    """A text of about that length; no two start alike, so none is in a cache."""
    seed = next(_counter)
    words = (f"w{(seed * 7919 + i * 104729) % 9973}" for i in range(n_tokens // 5))
    return f"Text {seed}. " + " ".join(words)


def chat(content: str, n: int, **more: Any) -> dict[str, Any]:
    """A greedy chat request of `n` tokens at most."""
    return {
        "messages": [{"role": "user", "content": content}],
        "max_tokens": n,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **more,
    }


@dataclass(frozen=True)
class Answer:
    """What one streamed request took."""

    first_s: float
    total_s: float
    n_tokens: int
    gaps_s: tuple[float, ...]
    text: str
    n_prompt: int

    @property
    def rate(self) -> float:
        """Tokens a second behind the first."""
        return (self.n_tokens - 1) / max(self.total_s - self.first_s, 1e-9)


async def ask(
    client: httpx.AsyncClient,
    url: str,
    body: dict[str, Any],
    path: str = "/v1/chat/completions",
) -> Answer:
    """Stream one request."""
    began = time.perf_counter()
    times: list[float] = []
    text = ""
    usage: dict[str, Any] = {}
    async with client.stream("POST", url + path, json=body) as response:
        if response.status_code != httpx.codes.OK:
            sys.exit(f"{url}: {response.status_code} {await response.aread()!r}")
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            for choice in event.get("choices", []):
                piece = choice.get("delta", {}).get("content")
                if piece:
                    times.append(time.perf_counter())
                    text += piece
    total = time.perf_counter() - began
    if not times:
        times = [began + total]
    gaps = tuple(b - a for a, b in pairwise(times))
    return Answer(
        first_s=times[0] - began,
        total_s=total,
        n_tokens=int(usage.get("completion_tokens", len(times))),
        gaps_s=gaps,
        text=text,
        n_prompt=int(usage.get("prompt_tokens", 0)),
    )


LONG = "Tell a long story about a river and the people who live beside it."

Load = Callable[[httpx.AsyncClient, str], Awaitable[dict[str, float]]]


async def cold_prompt(client: httpx.AsyncClient, url: str) -> dict[str, float]:
    """Time to the first token of a new prompt of about 500 tokens."""
    found = await ask(client, url, chat(text_of(500), 1))
    return {"cold_first_s": found.first_s, "cold_prompt_tokens": found.n_prompt}


async def one_stream(client: httpx.AsyncClient, url: str) -> dict[str, float]:
    """One answer of 128 tokens."""
    body = chat(LONG, 128, logit_bias={}, ignore_eos=True)
    return {"one_stream_tps": (await ask(client, url, body)).rate}


async def four_streams(client: httpx.AsyncClient, url: str) -> dict[str, float]:
    """Four answers of 128 tokens at once: tokens a second of all together."""
    bodies = [chat(f"{i}: {LONG}", 128, ignore_eos=True) for i in range(4)]
    began = time.perf_counter()
    found = await asyncio.gather(*(ask(client, url, body) for body in bodies))
    total = time.perf_counter() - began
    return {"four_streams_tps": sum(a.n_tokens for a in found) / total}


async def second_turn(client: httpx.AsyncClient, url: str) -> dict[str, float]:
    """Time to the first token of a conversation's second turn, 500 tokens behind it."""
    opening = text_of(500)
    first = await ask(client, url, chat(opening, 32))
    body = chat(opening, 1)
    body["messages"] += [
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": "Go on."},
    ]
    return {"second_turn_first_s": (await ask(client, url, body)).first_s}


async def displaced(client: httpx.AsyncClient, url: str) -> dict[str, float]:
    """A conversation of 1,500 tokens that eight others displaced from the slots."""
    opening = text_of(1500)
    own = await ask(client, url, chat(opening, 1))
    for _ in range(8):
        await ask(client, url, chat(text_of(150), 1))
    again = await ask(client, url, chat(opening + " Go on.", 1))
    return {
        "displaced_first_s": again.first_s,
        "displaced_share_of_cold": again.first_s / own.first_s,
    }


async def new_prompt_beside_streams(
    client: httpx.AsyncClient, url: str
) -> dict[str, float]:
    """The longest pause of three running streams while a long prompt comes in."""
    bodies = [chat(f"{i}: {LONG}", 160, ignore_eos=True) for i in range(3)]
    tasks = [asyncio.create_task(ask(client, url, body)) for body in bodies]
    await asyncio.sleep(0.5)
    await ask(client, url, chat(text_of(1000), 1))
    found = await asyncio.gather(*tasks)
    pauses = [max(a.gaps_s, default=0.0) for a in found]
    usual = statistics.median(g for a in found for g in a.gaps_s)
    return {"longest_pause_s": max(pauses), "usual_gap_s": usual}


async def constrained(client: httpx.AsyncClient, url: str) -> dict[str, float]:
    """One answer held to a JSON Schema, against one that is free."""
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    body = chat("Describe a person as JSON.", 96, response_format=shape)
    held = await ask(client, url, body)
    return {"constrained_tps": held.rate if held.n_tokens > 1 else 0.0}


LOADS: dict[str, Load] = {
    "cold": cold_prompt,
    "one": one_stream,
    "four": four_streams,
    "turn": second_turn,
    "displaced": displaced,
    "pause": new_prompt_beside_streams,
    "constrained": constrained,
}


async def measure(
    processes: list[Process], rounds: int, names: list[str]
) -> dict[str, dict[str, list[float]]]:
    """Run every load `rounds` times, the servers taking turns; all figures by name."""
    found: dict[str, dict[str, list[float]]] = {p.name: {} for p in processes}
    limits = httpx.Timeout(REQUEST_LIMIT_S)
    # llama-server closes connections after some requests: none is used again.
    once = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(timeout=limits, limits=once) as client:
        for process in processes:
            # Not counted: caches, page tables, the first allocation of every size.
            await one_stream(client, process.base_url)
        for number in range(rounds):
            for name in names:
                for process in processes:
                    print(
                        f"round {number + 1}: {name}, {process.name}", file=sys.stderr
                    )
                    figures = await LOADS[name](client, process.base_url)
                    for key, value in figures.items():
                        found[process.name].setdefault(key, []).append(value)
    return found


async def after_restart(process: Process) -> dict[str, float]:
    """A prompt of 1,500 tokens before and after the server was started again."""
    limits = httpx.Timeout(REQUEST_LIMIT_S)
    opening = text_of(1500)
    async with httpx.AsyncClient(timeout=limits) as client:
        own = await ask(client, process.base_url, chat(opening, 1))
    process.stop()
    process.start()
    async with httpx.AsyncClient(timeout=limits) as client:
        await ask(client, process.base_url, chat("Hi", 1))
        again = await ask(client, process.base_url, chat(opening + " Go on.", 1))
    return {
        "restarted_first_s": again.first_s,
        "restarted_share_of_cold": again.first_s / own.first_s,
    }


async def prefilled(process: Process) -> dict[str, float]:
    """The last message was prefilled while it was typed: what is left to wait."""
    limits = httpx.Timeout(REQUEST_LIMIT_S)
    async with httpx.AsyncClient(timeout=limits) as client:
        url = process.base_url
        short = await ask(client, url, chat("word", 1))
        opening = text_of(1500)
        body = {"messages": [{"role": "user", "content": opening + " What"}]}
        (await client.post(url + "/v1/prefill", json=body)).raise_for_status()
        found = await ask(client, url, chat(opening + " What?", 1))
    return {
        "prefilled_first_s": found.first_s,
        "prefilled_share_of_one_word": found.first_s / short.first_s,
    }


def main() -> int:
    """Run the loads that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "model", nargs="?", type=Path, default=paths.default_model_path()
    )
    parser.add_argument("--peer", type=Path, help="llama-server's binary")
    parser.add_argument("--no-peer", action="store_true", help="measure Kinetic alone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--loads", default=",".join(LOADS), help="names, comma-separated"
    )
    parser.add_argument("--page", type=Path, help="write the page about it here")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    arguments = parser.parse_args()
    peer = arguments.peer or build_llama_server.built_server()
    if arguments.no_peer:
        peer = None
    names = [name for name in arguments.loads.split(",") if name]
    with TemporaryDirectory() as states:
        processes = servers(arguments.model, peer, Path(states))
        try:
            for process in processes:
                process.start()
            results = asyncio.run(measure(processes, arguments.rounds, names))
            for process in processes:
                results[process.name]["start_s"] = [process.start_s]
                results[process.name]["memory_mib"] = [process.memory_mib()]
            ours = processes[0]
            results[ours.name] |= {
                key: [value]
                for key, value in {
                    **asyncio.run(prefilled(ours)),
                    **asyncio.run(after_restart(ours)),
                }.items()
            }
        finally:
            for process in processes:
                process.stop()
    print(bench_page.table(results))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    if arguments.page:
        rows = bench_actors.measure(arguments.model, n_tokens=128, rounds=5)
        bench_page.write(arguments.page, arguments.model, results, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
