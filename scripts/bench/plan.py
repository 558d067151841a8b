"""Which model runs which loads, how often and how large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from kinetic.files.paths import default_model_path
from scripts import minilm
from scripts.bench import qwen_shape
from scripts.bench.loads import LOADS
from scripts.bench.material import Sizes
from scripts.bench.servers import ALL, DRAFTING, Server

_TEXT_LOADS: Final = tuple(
    name for name in LOADS if name not in ("drafts", "vectors", "restart")
)
_SIZES: Final = Sizes()
# The weights change nothing about the speed of these.
_RANDOM_LOADS: Final = ("cold", "streams", "long", "turns", "schema", "pause", "few")
_RANDOM_SIZES: Final = Sizes(
    answer=64, context=1000, long_answer=32, beside_answer=128, few_answers=16
)
QUICK: Final = Sizes(
    short_prompt=32,
    middle_prompt=64,
    long_prompt=128,
    answer=16,
    context=128,
    long_answer=16,
    opening=64,
    turn_answer=8,
    kept=256,
    others=5,
    other_prompt=32,
    arriving=128,
    beside_answer=48,
    brief=4,
    few_clients=4,
    few_answers=4,
    many_clients=8,
    many_answers=8,
    few_texts=4,
    many_texts=8,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a run: some servers, started for it, with one model."""

    key: str
    model: str
    """What `--models` calls it."""
    title: str
    file: Callable[[], Path]
    servers: tuple[Server, ...] = ALL
    loads: tuple[str, ...]
    rounds: int
    sizes: Sizes = _SIZES
    weight: float = 1.0
    """How much longer its loads take than with the small model, roughly."""
    for_vectors: bool = False
    with_memory: bool = True
    """Whether memory at the end means something after these loads."""


def parts() -> tuple[Part, ...]:
    """The whole run, in its order."""
    small = "SmolLM2 135M Instruct, Q4_1"
    return (
        Part(
            key="smollm2",
            model="smollm2",
            title=small,
            file=default_model_path,
            # Last, since a restarted server has measured nothing yet.
            loads=(*_TEXT_LOADS, "restart"),
            rounds=3,
        ),
        Part(
            key="drafts",
            model="smollm2",
            title=f"{small}: drafting without a second model",
            file=default_model_path,
            servers=DRAFTING,
            loads=("drafts",),
            rounds=3,
            with_memory=False,
        ),
        *(
            Part(
                key=f"qwen-{name}",
                model=f"qwen-{name}",
                title=f"Random weights in the shape of Qwen3-0.6B, {kind}",
                file=partial(qwen_shape.file_of, kind),
                loads=loads,
                rounds=2,
                sizes=_RANDOM_SIZES,
                weight=2.5,
            )
            for name, kind, loads in (
                ("q4", "Q4_K_M", _RANDOM_LOADS),
                ("q8", "Q8_0", ("cold", "streams", "schema")),
            )
        ),
        Part(
            key="minilm",
            model="minilm",
            title="all-MiniLM-L6-v2, F16",
            file=minilm.all_minilm_l6_v2,
            loads=("vectors",),
            rounds=3,
            for_vectors=True,
        ),
    )


def chosen(
    models: list[str], loads: list[str], rounds: int | None, *, quick: bool
) -> list[Part]:
    """Picks the parts of a run.

    Args:
        models: Names of models, or paths of GGUF files; all if empty.
        loads: Names of loads; all if empty.
        rounds: Instead of each part's own.
        quick: One round of small sizes.

    Raises:
        SystemExit: A name is unknown, or nothing is left.
    """
    whole = parts()
    known = {part.model for part in whole}
    files = [Path(name) for name in models if name not in known]
    if missing := [str(file) for file in files if not file.is_file()]:
        raise SystemExit(
            f"{', '.join(missing)}: neither a file nor one of"
            f" {', '.join(sorted(known))}"
        )
    if unknown := [name for name in loads if name not in LOADS]:
        raise SystemExit(f"{', '.join(unknown)}: none of {', '.join(LOADS)}")
    own = [part_of(file) for file in files]
    picked = [part for part in whole if not models or part.model in models] + own
    found = []
    for part in picked:
        kept = tuple(name for name in part.loads if not loads or name in loads)
        n = rounds or (1 if quick else part.rounds)
        sizes = QUICK if quick else part.sizes
        if kept:
            found.append(replace(part, loads=kept, rounds=n, sizes=sizes))
    if not found:
        raise SystemExit("no load of these runs on these models")
    return found


def part_of(file: Path) -> Part:
    """Makes a part of somebody's own model."""
    return Part(
        key=file.stem,
        model=str(file),
        title=file.name,
        file=file.resolve,
        loads=(*_TEXT_LOADS, "restart"),
        rounds=3,
    )
