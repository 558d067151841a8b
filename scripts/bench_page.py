"""The page about speed: figures in, Markdown out."""

from __future__ import annotations

import os
import re
import statistics
from datetime import UTC, datetime
from pathlib import Path

from kinetic import __version__
from kinetic.model import ffi
from kinetic.model.probe import processor_name

Results = dict[str, dict[str, list[float]]]

LESS_IS_BETTER = re.compile(r"_s$|_mib$|share")

MEANINGS = {
    "cold_first_s": "first token of a new prompt (see `cold_prompt_tokens`), seconds",
    "cold_prompt_tokens": "tokens of that prompt",
    "one_stream_tps": "one answer of 128 tokens, tokens a second behind the first",
    "four_streams_tps": "four such answers at once, tokens a second together",
    "second_turn_first_s": "first token of a conversation's second turn, seconds",
    "displaced_first_s": "first token of a 1,500-token conversation that eight others"
    " displaced, seconds",
    "displaced_share_of_cold": "the same as a share of computing it",
    "longest_pause_s": "longest pause of three streams while a 1,000-token prompt"
    " comes in, seconds",
    "usual_gap_s": "their usual time between two tokens, seconds",
    "constrained_tps": "one answer held to a JSON Schema, tokens a second",
    "start_s": "from the start to the first answered /health, seconds",
    "memory_mib": "resident memory at the end, MiB",
    "prefilled_first_s": "first token after a prefill, seconds",
    "prefilled_share_of_one_word": "the same as a share of a one-word prompt",
    "restarted_first_s": "first token of a 1,500-token prompt after a restart, seconds",
    "restarted_share_of_cold": "the same as a share of computing it",
}

_PAGE = """# Performance

Made by `make bench ARGS="--page docs/performance.md"` on {date}; every figure is
from that run. Both servers run the same file at the same time and take turns, load by
load, so what counts are the ratios; machines differ and drift.

* Kinetic {version}, engine llama-cpp-python {binding}, plan uniform
* {processor}, {n_cpus} processors
* model: {model}
* llama-server: built from the same llama.cpp source, its own defaults (flash attention
  automatic, repacked weights, prompt cache), the same slots and context
* medians of {rounds} rounds, spread in brackets

{table}

## What the actors cost

The same tokens from a plain loop over the same engine and through Scheduler, Slots and
Decoder, in one process, without HTTP (`python -m scripts.bench_actors`):

{actors}

## What is slower, and why

* **Cold prompts.** The settings that make every row independent of its neighbours
  (docs/exactness.md) leave llama.cpp's fast prompt kernels unused.
* **One and four streams.** The same settings cost a little in a step; the rest is
  Python between two passes, and HTTP.
* **Memory.** Python and its libraries take some 100 MiB more than llama-server does.
"""


def table(results: Results) -> str:
    """Medians, spread and ratios as a Markdown table."""
    names = list(results)
    head = ["figure", *names] + (["ratio"] if len(names) > 1 else [])
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for key in results[names[0]]:
        cells = [_cell(results[name].get(key)) for name in names]
        if len(names) > 1:
            cells.append(_ratio(key, *(results[name].get(key) for name in names)))
        lines.append(f"| {MEANINGS.get(key, key)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(values: list[float] | None) -> str:
    if not values:
        return "-"
    median = f"{statistics.median(values):.3g}"
    if len(values) == 1:
        return median
    return f"{median} ({min(values):.3g} to {max(values):.3g})"


def _ratio(key: str, ours: list[float] | None, theirs: list[float] | None) -> str:
    if not ours or not theirs or key == "cold_prompt_tokens":
        return "-"
    other = statistics.median(theirs)
    if other == 0:
        return "-"
    better = "less" if LESS_IS_BETTER.search(key) else "more"
    return f"{statistics.median(ours) / other:.2f} ({better} is better)"


def write(page: Path, model: Path, results: Results, actors: list[str]) -> None:
    """Write the page."""
    first = next(iter(results.values()))
    text = _PAGE.format(
        date=datetime.now(UTC).date().isoformat(),
        version=__version__,
        binding=ffi.library_versions()["llama_cpp_python"],
        processor=processor_name(),
        n_cpus=len(os.sched_getaffinity(0)),
        model=model.name,
        rounds=max(len(values) for values in first.values()),
        table=table(results),
        actors="\n".join(actors),
    )
    page.write_text(text, encoding="utf-8")
