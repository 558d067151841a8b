"""Measure what the actors cost: the same tokens from a plain loop and through them.

    python -m scripts.bench.actors [MODEL] [--tokens N] [--rounds N]

Both run in this process on one engine each, in turns; figures are medians over the
rounds. Nothing is served, no socket is opened.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kinetic.actors.messages import Delta, Failed, Finished, SinkEvent
from kinetic.actors.policy.plan import uniform_plan
from kinetic.actors.system import ActorSystem, SystemOptions
from kinetic.app import SWITCH_S
from kinetic.files import paths
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.job import Job
from kinetic.model.rows import Rows
from kinetic.model.sampler_chain import TokenSampler
from kinetic.types import SamplingParams

PROMPT = "The river ran past the old mill, and every morning"
SAMPLING = SamplingParams(seed=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Tokens a second of some streams in each round, without actors and with them."""

    n_streams: int
    loop_tps: Sequence[float]
    actors_tps: Sequence[float]


class Counting:
    """A sink that waits for the end."""

    def __init__(self, system: ActorSystem, request_id: str) -> None:
        self._system = system
        self._request_id = request_id
        self.ended = threading.Event()
        self.first_s = 0.0

    def put(self, event: SinkEvent) -> None:
        """Take an event; slot threads."""
        if isinstance(event, Delta) and not self.first_s:
            self.first_s = time.perf_counter()
        if isinstance(event, Failed):
            sys.exit(str(event.error))
        if isinstance(event, Finished):
            self._system.forget(self._request_id, event.index)
            self.ended.set()


def plain_loop(engine: LlamaEngine, n_streams: int, n_tokens: int) -> float:
    """Tokens a second of a loop without actors: sample all, decode all."""
    prompt = np.array(engine.vocab.tokenize(PROMPT), np.int32)
    samplers = [
        TokenSampler(engine.model, SAMPLING, list(prompt), engine.n_ctx)
        for _ in range(n_streams)
    ]
    rows = []
    for sequence in range(n_streams):
        engine.cut(sequence, 0)
        rows.append(engine.decode([Rows(sequence, 0, prompt, 1)])[0])
    began = time.perf_counter()
    for i in range(n_tokens):
        drawn = [s.draw(row[-1]) for s, row in zip(samplers, rows, strict=True)]
        # The text is made too, as the slots do.
        for token in drawn:
            engine.vocab.piece(token).decode("utf-8", "replace")
        rows = engine.decode(
            [
                Rows(sequence, len(prompt) + i, np.array([token], np.int32), 1)
                for sequence, token in enumerate(drawn)
            ]
        )
    seconds = time.perf_counter() - began
    for sampler in samplers:
        sampler.close()
    return n_streams * n_tokens / seconds


def through_actors(
    system: ActorSystem, engine: LlamaEngine, n_streams: int, n_tokens: int
) -> float:
    """Tokens a second of the same work through Scheduler, Slots and Decoder."""
    prompt = tuple(engine.vocab.tokenize(PROMPT))
    sinks = []
    for i in range(n_streams):
        job = Job(
            request_id=f"{time.perf_counter_ns()}-{i}",
            index=0,
            prompt=prompt,
            sampling=SAMPLING,
            max_tokens=n_tokens,
            ignore_eos=True,
        )
        sink = Counting(system, job.request_id)
        sinks.append(sink)
        system.submit((job,), sink)
    for sink in sinks:
        sink.ended.wait(600)
    seconds = time.perf_counter() - min(sink.first_s for sink in sinks)
    return n_streams * n_tokens / seconds


def died(name: str, error: BaseException) -> None:
    """An actor died: nothing more can be measured."""
    sys.exit(f"{name}: {error}")


def measure(model: Path, *, n_tokens: int, rounds: int) -> list[Cost]:
    """Measures one and four streams."""
    options = EngineOptions(n_ctx=1024, n_parallel=4)
    bare = LlamaEngine(model, options)
    acted = LlamaEngine(model, options)
    system = ActorSystem(
        acted,
        acted.model,
        acted.vocab,
        SystemOptions(
            plan=uniform_plan(n_sequences=4),
            can_cut=acted.can_cut,
            line_limit=16,
            on_death=died,
        ),
    )
    system.start()
    sys.setswitchinterval(SWITCH_S)
    costs = []
    for n_streams in (1, 4):
        loops, actors = [], []
        for _ in range(rounds):
            loops.append(plain_loop(bare, n_streams, n_tokens))
            actors.append(through_actors(system, acted, n_streams, n_tokens))
        costs.append(Cost(n_streams=n_streams, loop_tps=loops, actors_tps=actors))
    system.stop()
    acted.close()
    bare.close()
    return costs


def table(costs: Sequence[Cost]) -> list[str]:
    """Writes rows of a Markdown table."""
    rows = [
        "| streams | plain loop | actors | ratio | added per step |",
        "|---|---|---|---|---|",
    ]
    for cost in costs:
        loop = statistics.median(cost.loop_tps)
        actor = statistics.median(cost.actors_tps)
        added_ms = 1000 * cost.n_streams * (1 / actor - 1 / loop)
        rows.append(
            f"| {cost.n_streams} | {loop:.1f} tokens/s | {actor:.1f} tokens/s |"
            f" {actor / loop:.3f} | {added_ms:+.2f} ms |"
        )
    return rows


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "model", nargs="?", type=Path, default=paths.default_model_path()
    )
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    costs = measure(arguments.model, n_tokens=arguments.tokens, rounds=arguments.rounds)
    print("\n".join(table(costs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
