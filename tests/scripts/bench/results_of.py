"""A small made-up run."""

from __future__ import annotations

from dataclasses import asdict

from scripts.bench.actors import Cost
from scripts.bench.material import Sizes
from scripts.bench.results import Failure, Results, Section
from scripts.bench.servers import ALL


def small_run():
    """Three servers, two models; Kinetic behind in some figures and ahead in others."""
    ours, peer, binding = (server.name for server in ALL)
    section = Section(
        key="smollm2",
        title="SmolLM2, Q4_1",
        file="small.gguf",
        n_bytes=98 << 20,
        rounds=2,
        sizes=asdict(Sizes()),
        commands={server.name: f"run {server.name}" for server in ALL},
        said={"plan": "uniform", "plan_reason": "7 ways agree", "drafting": ""},
        lacks={server.name: dict(server.lacks) for server in ALL},
        figures={
            "cold_middle_s": {ours: [2.0, 2.2], peer: [1.0, 1.2], binding: [4.0, 4.4]},
            "cold_middle_tokens": {ours: [530.0], peer: [530.0]},
            "one_tps": {ours: [100.0, 110.0], peer: [101.0, 109.0], binding: [50.0]},
            "two_tps": {ours: [100.0, 104.0], peer: [103.0, 111.0]},
            "schema_ok": {ours: [1.0, 1.0], peer: [1.0, 0.0]},
            "pause_s": {ours: [0.2], peer: [3.4]},
            "tool_tps": {ours: [80.0]},
            "tool_ok": {ours: [1.0], peer: [0.0]},
            "memory_mib": {ours: [1234.0], peer: [617.0]},
        },
        failures=[Failure(load="many", server=peer, round=2, error="503: no room")],
    )
    return Results(
        made="2026-01-02",
        command="python -m scripts.bench",
        machine={"processor": "Some", "processors": "2"},
        versions={"Kinetic": "0.1.0"},
        n_threads=2,
        minutes=12.0,
        is_finished=True,
        sections=[section],
        actors=[Cost(n_streams=1, loop_tps=[100.0], actors_tps=[80.0])],
    )
