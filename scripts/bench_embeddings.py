"""Measure texts a second of an embedding model, side by side with llama-server.

    python -m scripts.bench_embeddings MODEL [--peer PATH | --no-peer] [--rounds N]

Both servers run at the same time and take turns request by request, so that a machine
whose speed drifts shows the same drift to both; figures are medians, and what counts is
the ratio. Only loopback is talked to. `python -m tests.support.minilm` writes the model
that the documented figures are of.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import httpx

from scripts import build_llama_server
from scripts.bench import Process, free_port

LIST_SIZES = (32, 256)
N_TOKENS = 100
LIMIT_S = 600.0
_WORDS = (
    "time",
    "people",
    "water",
    "house",
    "river",
    "stone",
    "night",
    "music",
    "paper",
    "glass",
)


def text(number: int) -> str:
    """A text of about N_TOKENS tokens of common words, another one for each number."""
    step = number % 7 + 1
    words = (_WORDS[(number + i * step) % len(_WORDS)] for i in range(N_TOKENS - 2))
    return " ".join(words)


def servers(model: Path, peer: Path | None, threads: int | None) -> list[Process]:
    """Kinetic, and llama-server where there is one, each as it is by default."""
    flags = [] if threads is None else ["-t", str(threads)]
    commands = {"kinetic": [sys.executable, "-m", "kinetic", "serve", str(model)]}
    if peer is not None:
        commands["llama-server"] = [str(peer), "-m", str(model), "--embeddings"]
    found = []
    for name, command in commands.items():
        port = free_port()
        whole = [*command, "--port", str(port), *flags]
        found.append(Process(name, whole, f"http://127.0.0.1:{port}"))
    return found


def seconds(server: Process, texts: list[str]) -> float:
    """How long one list takes, from the request to its last byte."""
    began = time.perf_counter()
    answer = httpx.post(
        f"{server.base_url}/v1/embeddings", json={"input": texts}, timeout=LIMIT_S
    )
    took = time.perf_counter() - began
    answer.raise_for_status()
    if len(answer.json()["data"]) != len(texts):
        sys.exit(f"{server.name} left vectors out")
    return took


def measure(running: list[Process], rounds: int) -> None:
    """Print texts a second for each size of list, and the ratio."""
    for n_texts in LIST_SIZES:
        texts = [text(number) for number in range(n_texts)]
        rates: dict[str, list[float]] = {server.name: [] for server in running}
        for server in running:
            seconds(server, texts[:2])
        for _ in range(rounds):
            for server in running:
                rates[server.name].append(n_texts / seconds(server, texts))
        medians = {name: statistics.median(found) for name, found in rates.items()}
        shown = ", ".join(f"{name} {rate:.1f}" for name, rate in medians.items())
        peer = medians.get("llama-server")
        ratio = f", ratio {medians['kinetic'] / peer:.2f}" if peer else ""
        print(f"{n_texts} texts of {N_TOKENS} tokens: {shown} a second{ratio}")


def main() -> None:
    """Read the flags, start the servers, measure, stop them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--peer", type=Path, help="llama-server's binary")
    parser.add_argument("--no-peer", action="store_true", help="measure Kinetic alone")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, help="threads of each [default: theirs]")
    asked = parser.parse_args()
    peer = None if asked.no_peer else asked.peer or build_llama_server.built_server()
    running = servers(asked.model, peer, asked.threads)
    try:
        for server in running:
            server.start()
        measure(running, asked.rounds)
    finally:
        for server in running:
            server.stop()


if __name__ == "__main__":
    main()
