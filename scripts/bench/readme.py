"""README's few figures: taken from a run, between two marks."""

from __future__ import annotations

import statistics
from typing import Final

from scripts.bench.figures import BY_KEY
from scripts.bench.page import counted, number
from scripts.bench.results import Results

FIRST: Final = "<!-- speed: written by make bench -->"
LAST: Final = "<!-- end -->"
_SECTION: Final = "smollm2"
_SHOWN: Final = (
    "one_tps",
    "four_tps",
    "cold_middle_s",
    "turn_two_s",
    "restarted_s",
    "pause_s",
)


def block(results: Results) -> str:
    """Writes the marked part, marks included.

    Raises:
        SystemExit: The run did not measure the model that README tells of.
    """
    section = results.section(_SECTION)
    if section is None:
        raise SystemExit(f"README's figures need a run with {_SECTION}")
    machine = results.machine
    where = f"{machine['processors']} processors ({machine['processor']})"
    threads = counted(results.n_threads, "thread")
    lines = [
        FIRST,
        f"Medians with {section.title}, {threads} on {where}:",
        "",
        "| | " + " | ".join(section.servers) + " |",
        "|---|" + "---|" * len(section.servers),
    ]
    for key in _SHOWN:
        figure = BY_KEY[key]
        found = section.figures.get(key, {})
        cells = [
            number(statistics.median(found[name])) if found.get(name) else "-"
            for name in section.servers
        ]
        label = f"{figure.named(section.sizes)}, {figure.unit}"
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, LAST])


def filled(text: str, results: Results) -> str:
    """Gives README with its marked part written anew.

    Raises:
        SystemExit: The marks are missing.
    """
    before, first, rest = text.partition(FIRST)
    _, last, after = rest.partition(LAST)
    if not first or not last:
        raise SystemExit(f"README.md has no part between {FIRST} and {LAST}")
    return before + block(results) + after
