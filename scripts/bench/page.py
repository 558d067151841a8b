"""The page about speed: figures in, Markdown out."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from scripts.bench import actors
from scripts.bench.figures import (
    CATALOGUE,
    NOISE,
    Figure,
    Values,
    advantage,
    is_slower,
    ratio,
    spreads_overlap,
)
from scripts.bench.reasons import BY_TOPIC, NOT_HELD
from scripts.bench.results import Results, Section

_MOST_COLUMNS: Final = 3
"""Servers beside each other; more of them stand below each other."""

_HEAD = """# Performance

Made by `{command}` on {made}, in {minutes:.0f} minutes; every figure is from that run,
also those of the chart; [performance.json](performance.json) has each round.
`make bench` measures your own machine.{unfinished}

![How many times as good Kinetic is as each peer](performance.png)

## How it was measured

* All servers of a table run the same file at the same time and take turns load by load;
  each round starts with another one. Machines differ and drift, so what counts are the
  ratios.
* Figures are medians of the rounds; smallest and largest stand in brackets. A ratio is
  bold where Kinetic is ahead by more than {noise:.0%}.
* Every prompt is made up, new and the same for all servers, except where a load is
  about what a server keeps.
* Each server is as it is by default, but for {n_slots} slots of {n_ctx:,} tokens each
  and {threads}. llama-server is built from the engine's own source with
  llama.cpp's default flags. llama-cpp-python's server runs on the engine that Kinetic
  was installed with; it has one context, no slots, and by default makes logits for
  every token of a prompt.
* Answers are greedy and streamed, each request on a connection of its own. Tokens are
  those that the servers count.

| machine | |
|---|---|
{machine}

| version | |
|---|---|
{versions}
"""


def render(results: Results, *, n_slots: int, n_ctx: int) -> str:
    """Writes the page."""
    unfinished = "" if results.is_finished else " **The run was ended early.**"
    parts = [
        _HEAD.format(
            command=results.command,
            made=results.made,
            minutes=results.minutes,
            unfinished=unfinished,
            n_slots=n_slots,
            n_ctx=n_ctx,
            threads=counted(results.n_threads, "thread"),
            noise=NOISE,
            machine=_pairs(results.machine),
            versions=_pairs(results.versions),
        ),
        *(section_text(section) for section in results.sections),
    ]
    if results.actors:
        parts.append(_actors_text(results))
    parts.append(slower_text(results))
    return "\n".join(parts)


def _pairs(facts: dict[str, str]) -> str:
    return "\n".join(f"| {name} | {value} |" for name, value in facts.items())


# --- One model -----------------------------------------------------------------------


@dataclass(slots=True)
class _Notes:
    """Footnotes of one table, lettered as they come up."""

    said: list[str] = field(default_factory=list)

    def mark(self, text: str) -> str:
        """Gives the mark of a footnote, the same one for the same words."""
        if text not in self.said:
            self.said.append(text)
        return f"({chr(ord('a') + self.said.index(text))})"

    def lines(self) -> list[str]:
        """The notes, to stand below the table."""
        return [f"* {self.mark(text)} {text}" for text in self.said]


def section_text(section: Section) -> str:
    """Writes one model's table, with its notes, failures and command lines."""
    notes = _Notes()
    beside = len(section.servers) <= _MOST_COLUMNS
    table = _wide(section, notes) if beside else _tall(section)
    mib = section.n_bytes / 2**20
    plan, reason = (section.said.get(key, "") for key in ("plan", "plan_reason"))
    said = f" Kinetic's plan: {plan} ({reason})." if plan and reason else ""
    lines = [
        f"## {section.title}",
        "",
        f"`{section.file}`, {mib:,.0f} MiB, {counted(section.rounds, 'round')}.{said}",
        "",
        *table,
    ]
    if notes.said:
        lines += ["", *notes.lines()]
    if section.failures:
        lines += ["", "Failed, and left out of the medians:", ""]
        lines += [
            f"* {one.load}, {one.server}, round {one.round}: {one.error}"
            for one in section.failures
        ]
    lines += ["", "```", *section.commands.values(), "```", ""]
    return "\n".join(lines)


def counted(n: int, word: str) -> str:
    """A number with its noun."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def shown_figures(section: Section) -> list[Figure]:
    """Lists the figures that a section has, in the catalogue's order."""
    return [figure for figure in CATALOGUE if section.figures.get(figure.key)]


def _wide(section: Section, notes: _Notes) -> Iterator[str]:
    """A row for each figure, a column for each server, and the ratios."""
    ours, *peers = section.servers
    head = ["", *section.servers, *(f"{ours} ÷ {peer}" for peer in peers), "better"]
    yield _row(head)
    yield "|" + "---|" * len(head)
    for topic, figures in groupby(shown_figures(section), lambda f: f.topic):
        yield _row([f"**{topic}**", *[""] * (len(head) - 1)])
        for figure in figures:
            found = section.figures[figure.key]
            label = figure.named(section.sizes)
            unit = f", {figure.unit}" if figure.unit not in ("", "tokens") else ""
            yield _row(
                [
                    label + unit,
                    *(_noted(section, figure, name, notes) for name in section.servers),
                    *(_ratio(figure, found.get(ours), found.get(p)) for p in peers),
                    "" if figure.better == "neither" else figure.better,
                ]
            )


def _noted(section: Section, figure: Figure, server: str, notes: _Notes) -> str:
    """One server's cell; where there is nothing to show, a mark leads to the reason."""
    values = section.figures[figure.key].get(server)
    if not values:
        # A speed is left out where no answer was the one that was asked for.
        reason = section.lacks.get(server, {}).get(figure.key) or NOT_HELD.get(
            (server, figure.key.replace("_tps", "_ok"))
        )
        return f"- {notes.mark(f'{server}: {reason}')}" if reason else "-"
    reason = NOT_HELD.get((server, figure.key))
    mark = f" {notes.mark(f'{server}: {reason}')}" if reason and not all(values) else ""
    return cell(figure, values) + mark


def _tall(section: Section) -> Iterator[str]:
    """A row for each server, a column for each figure."""
    figures = shown_figures(section)
    yield _row(["", *(f"{f.named(section.sizes)}, {f.unit}" for f in figures)])
    yield "|" + "---|" * (len(figures) + 1)
    for server in section.servers:
        cells = [cell(f, section.figures[f.key].get(server)) for f in figures]
        yield _row([server, *cells])
    ours, *peers = section.servers
    for peer in peers:
        found = [section.figures[f.key] for f in figures]
        cells = [
            _ratio(f, by.get(ours), by.get(peer))
            for f, by in zip(figures, found, strict=True)
        ]
        yield _row([f"{ours} ÷ {peer}", *cells])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def number(value: float) -> str:
    """Writes a number with three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004


def cell(figure: Figure, values: Values | None) -> str:
    """A median with its spread, or how many answers were right."""
    if not values:
        return "-"
    if figure.key.endswith("_ok"):
        return f"{sum(values):.0f} of {len(values)}"
    median = number(statistics.median(values))
    if len(values) == 1 or figure.better == "neither":
        return median
    return f"{median} ({number(min(values))} to {number(max(values))})"


def _ratio(figure: Figure, ours: Values | None, theirs: Values | None) -> str:
    """Kinetic's median by a peer's, bold where Kinetic is ahead by more than noise."""
    found = ratio(ours, theirs)
    if found is None or figure.better == "neither" or figure.key.endswith("_ok"):
        return ""
    ahead = advantage(figure, ours, theirs) or 0.0
    return f"**{found:.2f}**" if ahead > 1 + NOISE else f"{found:.2f}"


# --- What is slower ------------------------------------------------------------------


_ACTORS = """## What the actors cost

The same tokens from a plain loop over the same engine and through Scheduler, Slots and
Decoder, in one process, without HTTP (`python -m scripts.bench.actors`); SmolLM2,
medians of {rounds}:

{table}
"""


def _actors_text(results: Results) -> str:
    rounds = counted(len(results.actors[0].loop_tps), "round")
    table = "\n".join(actors.table(results.actors))
    return _ACTORS.format(rounds=rounds, table=table)


def slower_text(results: Results) -> str:
    """Lists by topic where Kinetic is behind a peer, with what is known of why."""
    lines = [
        "## What is slower, and why",
        "",
        f"Every figure where Kinetic is behind by more than {NOISE:.0%}:",
        "",
    ]
    nothing = len(lines)
    for topic, reason in BY_TOPIC.items():
        rows = [
            row
            for figure in CATALOGUE
            if figure.topic == topic
            for section in results.sections
            for row in _behind(figure, section)
        ]
        if rows:
            lines += [f"* **{topic}.** {reason}", *rows]
    if len(lines) == nothing:
        lines[-2] = f"Nothing is behind by more than {NOISE:.0%} in this run."
    return "\n".join(lines).rstrip() + "\n"


def _behind(figure: Figure, section: Section) -> Iterator[str]:
    """One line for a figure of a section, if Kinetic is behind any peer there."""
    found = section.figures.get(figure.key, {})
    ours, *peers = section.servers
    mine = found.get(ours)
    said = []
    for peer in peers:
        theirs = found.get(peer)
        if mine and theirs and is_slower(figure, mine, theirs):
            times = f"{ratio(mine, theirs):.2f} of {peer}'s"
            many = len(mine) > 1
            overlap = many and spreads_overlap(mine, theirs)
            said.append(times + (" (their rounds overlap)" if overlap else ""))
    if said:
        unit = f", {figure.unit}" if figure.unit else ""
        label = f"{figure.named(section.sizes)}{unit}"
        yield f"  * {section.title}: {label}: {', '.join(said)}"
