"""Measures Kinetic's speed beside llama-server and llama-cpp-python's own server.

    python -m scripts.bench [--models NAMES] [--loads NAMES] [--rounds N] [--quick]
    python -m scripts.bench --render FILE

All servers run the same file at the same time and take turns load by load, so that a
machine whose speed drifts shows the same drift to all; figures are medians, and what
counts are the ratios. Only loopback is talked to.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from kinetic.files.paths import cache_dir, default_model_path
from scripts import build_llama_server
from scripts.bench import actors, machine, results as kept, run, write
from scripts.bench.loads import LOADS
from scripts.bench.plan import Part, chosen, parts
from scripts.console import end_on_signals, say


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m scripts.bench", description=(__doc__ or "").split("\n", 1)[0]
    )
    models = ", ".join(dict.fromkeys(part.model for part in parts()))
    made.add_argument(
        "--models",
        type=_names,
        default=[],
        metavar="NAMES",
        help=f"of {models}, or GGUF files, comma-separated [default: those named]",
    )
    made.add_argument(
        "--loads",
        type=_names,
        default=[],
        metavar="NAMES",
        help=f"of {', '.join(LOADS)}, actors, comma-separated [default: all]",
    )
    made.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help="how often each load runs [default: 2 to 5, by model]",
    )
    made.add_argument(
        "--threads",
        type=int,
        default=machine.n_processors(),
        metavar="N",
        help="threads of each server [default: all processors]",
    )
    made.add_argument(
        "--quick",
        action="store_true",
        help="one round of small sizes: shows that everything runs, measures nothing",
    )
    made.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="where performance.md, .json and .png go [default: docs, and README.md"
        " gets its part; build/bench for a run of less than everything]",
    )
    made.add_argument(
        "--render",
        type=Path,
        metavar="FILE",
        help="measure nothing; write page and chart of these results anew",
    )
    return made


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def main() -> int:
    """Measures what was asked for and writes it down."""
    asked = parser().parse_args()
    end_on_signals()
    if asked.render:
        write.everything(kept.read(asked.render), asked.out or write.DOCS)
        return 0
    is_part = asked.quick or asked.models or asked.loads
    out = asked.out or (Path("build", "bench") if is_part else write.DOCS)
    loads = [name for name in asked.loads if name != "actors"]
    has_small = not asked.models or "smollm2" in asked.models
    with_actors = "actors" in asked.loads or (not asked.loads and has_small)
    picked = []
    if loads or not asked.loads:
        picked = chosen(asked.models, loads, asked.rounds, quick=asked.quick)
    found = measure(picked, asked, with_actors=with_actors)
    write.everything(found, out)
    return 0


def measure(
    picked: list[Part], asked: argparse.Namespace, *, with_actors: bool
) -> kept.Results:
    """Runs everything, keeping what is known in the cache folder as it goes."""
    llama_server = build_llama_server.find_or_build()
    given = ["python -m scripts.bench", *sys.argv[1:]]
    found = kept.Results(
        made=datetime.now(UTC).date().isoformat(),
        command=" ".join(given) if len(given) > 1 else "make bench",
        machine=machine.machine(),
        versions=machine.versions(llama_server),
        n_threads=asked.threads,
    )
    file = cache_dir("bench") / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    say(f"results so far are kept in {file}")
    for part in picked:
        # Written before the clock starts.
        part.file()
    progress = run.Progress(run.total_cost(picked))

    def keep() -> None:
        found.minutes = round(progress.minutes(), 1)
        kept.write(found, file)

    bench = run.Bench(
        llama_server=llama_server,
        n_threads=asked.threads,
        progress=progress,
        keep=keep,
    )
    for part in picked:
        run.run_part(part, found, bench)
        keep()
    if with_actors:
        say("what the actors cost")
        sizes = {"n_tokens": 16, "rounds": 1} if asked.quick else {}
        found.actors = actors.measure(
            default_model_path(), **{"n_tokens": 128, "rounds": 5, **sizes}
        )
    found.is_finished = True
    keep()
    return found


if __name__ == "__main__":
    sys.exit(main())
