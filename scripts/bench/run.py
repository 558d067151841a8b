"""Runs the parts: servers take turns load by load, and what was found is kept."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from scripts.bench.client import RequestError
from scripts.bench.loads import LOADS, Load, Visit, streams
from scripts.bench.material import Sizes
from scripts.bench.plan import Part
from scripts.bench.prompts import Prompts, token_counter
from scripts.bench.results import Failure, Results, Section
from scripts.bench.servers import KINETIC, Process, Server, Setup, StartError
from scripts.console import say

_WARM_UP = Sizes(answer=16)
_START_COST = 3.0
_LOOK_S = 0.25
_SETTLE_LOOKS = 40
_QUIET = 0.1
"""Of a processor: what servers may use that are said to be quiet."""


class Worker(Protocol):
    """What tells how much it works."""

    def cpu_s(self) -> float:
        """Processor time so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One load at one server in one round."""

    round: int
    load: str
    server: Server


def steps(part: Part) -> Iterator[Step]:
    """Puts a part's steps in order: each round starts with the next server.

    A load that a server has no figure for is left out.
    """
    servers = part.servers
    for number in range(part.rounds):
        turned = servers[number % len(servers) :] + servers[: number % len(servers)]
        for name in part.loads:
            load = LOADS[name]
            if load.once and number:
                continue
            for server in turned:
                if any(figure not in server.lacks for figure in load.figures):
                    yield Step(round=number + 1, load=name, server=server)


@dataclass(slots=True)
class Progress:
    """Says what runs, and how long the rest will take at the speed so far.

    Args:
        total: What all steps cost together.
    """

    total: float
    done: float = 0.0
    _began: float = field(default_factory=time.monotonic)

    def minutes(self) -> float:
        """How long it has run."""
        return (time.monotonic() - self._began) / 60

    def say(self, text: str, cost: float) -> None:
        """Tells of a step that begins now."""
        left = ""
        if self.done:
            rest = self.minutes() * max(self.total / self.done - 1, 0)
            left = f", about {rest:.0f} to go"
        say(f"{self.minutes():.0f} min{left}: {text}")
        self.done += cost


def cost(part: Part, step: Step) -> float:
    """What a step costs, roughly, in seconds with the small model."""
    return part.weight * LOADS[step.load].cost


def total_cost(parts: Sequence[Part]) -> float:
    """What all of it costs together, in the same measure."""
    return sum(
        sum(cost(part, step) for step in steps(part))
        + len(part.servers) * _START_COST * part.weight
        for part in parts
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What running needs beside the parts."""

    llama_server: Path
    n_threads: int
    progress: Progress
    keep: Callable[[], None]
    """Called behind each load, to write what is known."""


def run_part(part: Part, results: Results, bench: Bench) -> None:
    """Starts a part's servers, runs its loads and stops the servers."""
    model = part.file()
    section = Section(
        key=part.key,
        title=part.title,
        file=model.name,
        n_bytes=model.stat().st_size,
        rounds=part.rounds,
        sizes=asdict(part.sizes),
        commands={
            server.name: server.shown(
                for_vectors=part.for_vectors, n_threads=bench.n_threads
            )
            for server in part.servers
        },
        lacks={server.name: dict(server.lacks) for server in part.servers},
    )
    results.sections.append(section)
    count = token_counter(model)
    with TemporaryDirectory() as folder:
        running = {
            server.name: Process(
                server,
                Setup(
                    model=str(model),
                    n_threads=bench.n_threads,
                    # Two Kinetics keep their states apart.
                    states=str(Path(folder) / f"states-{number}"),
                    llama_server=str(bench.llama_server),
                    for_vectors=part.for_vectors,
                ),
            )
            for number, server in enumerate(part.servers)
        }
        try:
            _start(part, section, running, bench)
            for step in steps(part):
                shown = f"{part.key}, round {step.round} of {part.rounds}"
                bench.progress.say(
                    f"{shown}: {step.load}, {step.server.name}", cost(part, step)
                )
                settle(running.values())
                seed = f"{part.key} {step.load} {step.round}"
                _take(step, section, running[step.server.name], Prompts(count, seed))
                bench.keep()
            if part.with_memory and "memory_mib" not in section.figures:
                for name, process in running.items():
                    if process.is_alive:
                        section.add(name, {"memory_mib": process.memory_mib()})
        finally:
            for process in running.values():
                process.stop()


def settle(processes: Iterable[Worker]) -> None:
    """Waits until no server works any more, though not for ever.

    Threads that look out for the next pass, and states that are written once a server
    is idle, would take the processor from whoever is measured next.
    """
    pause = threading.Event()
    processes = tuple(processes)
    before = sum(process.cpu_s() for process in processes)
    for _ in range(_SETTLE_LOOKS):
        pause.wait(_LOOK_S)
        now = sum(process.cpu_s() for process in processes)
        if now - before <= _QUIET * _LOOK_S:
            return
        before = now


def _start(
    part: Part, section: Section, running: dict[str, Process], bench: Bench
) -> None:
    """Starts the servers; what their first requests set up is not measured."""
    for name, process in running.items():
        bench.progress.say(f"{part.key}: starting {name}", _START_COST * part.weight)
        step = Step(round=0, load="start", server=process.server)
        prompts = Prompts(lambda text: len(text.split()), f"{part.key} first")

        async def warm_up(visit: Visit) -> dict[str, float]:
            if not part.for_vectors:
                await streams(visit)
            if visit.process.server is KINETIC:
                section.said = await _said_by(visit)
            return {}

        load = Load(run=warm_up, figures=(), cost=0)
        _take(step, section, process, prompts, load)


async def _said_by(visit: Visit) -> dict[str, str]:
    """What Kinetic tells of its plan for the model."""
    async with visit.client() as client:
        props = await client.get("/props")
    told = ("plan", "plan_reason", "drafting")
    return {key: str(props.get("kinetic", {}).get(key, "")) for key in told}


def _take(
    step: Step,
    section: Section,
    process: Process,
    prompts: Prompts,
    load: Load | None = None,
) -> None:
    """Takes one step; what goes wrong is written down, and the run goes on."""
    sizes = _WARM_UP if load else Sizes(**section.sizes)
    load = load or LOADS[step.load]
    visit = Visit(process=process, setup=process.setup, prompts=prompts, sizes=sizes)
    try:
        if not process.is_alive:
            process.start()
        section.add(step.server.name, asyncio.run(_run(load, visit)))
    except (RequestError, StartError, KeyError, ValueError) as error:
        said = f"{type(error).__name__}: {error}"
        say(f"{step.load}, {step.server.name} failed: {said}")
        section.failures.append(
            Failure(
                load=step.load,
                server=step.server.name,
                round=step.round,
                error=said,
            )
        )


async def _run(load: Load, visit: Visit) -> dict[str, float]:
    """Runs a load; of several failures at once the first is told."""
    try:
        return await load.run(visit)
    except ExceptionGroup as group:
        first: Exception = group
        while isinstance(first, ExceptionGroup):
            first = first.exceptions[0]
        raise first from group
