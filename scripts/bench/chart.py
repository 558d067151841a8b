"""The chart: how many times as good Kinetic is as each peer, figure by figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from scripts.bench.figures import CATALOGUE, Figure, advantage
from scripts.bench.results import Results, Section

PEERS: Final = ("llama-server", "llama-cpp-python")
# Okabe and Ito's blue and orange: told apart by every kind of eye, and in grey.
_COLOURS: Final = ("#0072B2", "#E69F00")
_GREY: Final = "#555555"
_LEAST: Final = 0.25
_MOST: Final = 100.0
_TICKS: Final = {
    0.25: "¼",
    0.5: "½",
    1: "1",
    2: "2",
    4: "4",
    8: "8",
    16: "16",
    32: "32",
    64: "64",
}
# Inches.
_LEFT: Final = 1.85
_WIDE: Final = 3.4
_TOP: Final = 1.15
_TALL: Final = 0.32
_FOOT: Final = 0.8
_BAR: Final = 0.38


@dataclass(frozen=True, slots=True)
class Bar:
    """How one figure of one model compares with one peer."""

    row: int
    peer: int
    times: float


@dataclass(frozen=True, slots=True)
class Panel:
    """One model."""

    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that is drawn."""

    labels: tuple[str, ...]
    topics: tuple[str, ...]
    """Each row's, to part them by."""
    panels: tuple[Panel, ...]
    foot: str


def prepare(results: Results) -> Prepared:
    """Picks what is drawn: a panel for each model, all with the same rows.

    The encoder has few figures: its rows stand in the first panel.
    """
    alike = [one for one in results.sections if tuple(one.servers[1:]) == PEERS]
    vectors = [one for one in alike if _is_vectors(one)]
    models = [one for one in alike if not _is_vectors(one)] or alike
    figures = [
        figure
        for figure in CATALOGUE
        if figure.short and any(_times(figure, one) for one in alike)
    ]
    panels = [
        Panel(
            one.title.replace(", ", "\n", 1),
            tuple(_bars(figures, [one, *(vectors if one is models[0] else ())])),
        )
        for one in models
    ]
    machine = results.machine
    return Prepared(
        labels=tuple(figure.short for figure in figures),
        topics=tuple(figure.topic for figure in figures),
        panels=tuple(panels),
        foot=f"{machine['processors']} processors ({machine['processor']}),"
        f" {results.made}, medians."
        + (f" Vectors: {vectors[0].title}." if vectors else ""),
    )


def _is_vectors(section: Section) -> bool:
    return "vectors_few_tps" in section.figures


def _bars(figures: list[Figure], sections: list[Section]) -> Iterator[Bar]:
    """A row's bars are of the first section that has its figure."""
    for row, figure in enumerate(figures):
        found = (_times(figure, section) for section in sections)
        for peer, times in next(filter(None, found), {}).items():
            yield Bar(row, PEERS.index(peer), times)


def _times(figure: Figure, section: Section) -> dict[str, float]:
    found = section.figures.get(figure.key, {})
    ours = found.get(section.servers[0])
    compared = {peer: advantage(figure, ours, found.get(peer)) for peer in PEERS}
    return {peer: times for peer, times in compared.items() if times}


def draw(prepared: Prepared, path: Path) -> None:
    """Writes the chart as a PNG file.

    Raises:
        SystemExit: matplotlib is not installed.
    """
    try:
        matplotlib: Any = import_module("matplotlib")
        figure_module: Any = import_module("matplotlib.figure")
    except ImportError:
        raise SystemExit("the chart needs matplotlib: make bench installs it") from None
    n_rows, n_panels = len(prepared.labels), len(prepared.panels)
    width, height = _LEFT + _WIDE * n_panels + 0.2, _TOP + _TALL * n_rows + _FOOT
    with matplotlib.rc_context({"font.size": 9, "font.family": "DejaVu Sans"}):
        figure = figure_module.Figure(figsize=(width, height))
        axes = figure.subplots(1, n_panels, sharey=True, squeeze=False)[0]
        figure.subplots_adjust(
            left=_LEFT / width,
            right=1 - 0.2 / width,
            top=1 - _TOP / height,
            bottom=_FOOT / height,
            wspace=0.06,
        )
        for axis, panel in zip(axes, prepared.panels, strict=True):
            _panel(axis, panel, prepared)
        axes[0].set_yticks(range(n_rows), prepared.labels)
        figure.text(
            0.15 / width,
            1 - 0.3 / height,
            "How many times as good Kinetic is as each peer",
            fontsize=13,
            weight="bold",
        )
        figure.legend(
            *axes[0].get_legend_handles_labels(),
            loc="upper left",
            bbox_to_anchor=(0.05 / width, 1 - 0.35 / height),
            frameon=False,
            ncols=len(PEERS),
        )
        figure.text(
            0.15 / width,
            0.12 / height,
            "Left of 1 Kinetic is behind, right of 1 it is ahead; logarithmic scale.\n"
            + prepared.foot,
            fontsize=8,
            color=_GREY,
        )
        figure.savefig(path, format="png", dpi=100)


def _panel(axis: Any, panel: Panel, prepared: Prepared) -> None:
    """Draws one model's bars, each from 1 to its value."""
    for peer, colour in enumerate(_COLOURS):
        bars = [bar for bar in panel.bars if bar.peer == peer]
        shown = [min(max(bar.times, _LEAST), _MOST) for bar in bars]
        places = [bar.row + (peer - 0.5) * _BAR for bar in bars]
        axis.barh(
            places,
            [times - 1 for times in shown],
            left=1,
            height=_BAR,
            color=colour,
            label=f"against {PEERS[peer]}",
        )
        for bar, place, end in zip(bars, places, shown, strict=True):
            ahead = bar.times >= 1
            axis.annotate(
                f"{bar.times:.1f}" if bar.times >= 10 else f"{bar.times:.2f}",  # noqa: PLR2004
                (end, place),
                xytext=(2 if ahead else -2, 0),
                textcoords="offset points",
                ha="left" if ahead else "right",
                va="center",
                fontsize=6.5,
                color=_GREY,
            )
    topics = prepared.topics
    for row in range(1, len(topics)):
        if topics[row] != topics[row - 1]:
            axis.axhline(row - 0.5, color="#CCCCCC", linewidth=0.6)
    axis.set_xscale("log", base=2)
    axis.set_xlim(_LEAST * 0.6, _MOST * 1.6)
    axis.set_xticks(list(_TICKS), list(_TICKS.values()))
    axis.set_xticks([], minor=True)
    axis.set_ylim(len(topics) - 0.5, -0.5)
    axis.axvline(1, color="black", linewidth=0.9)
    axis.grid(axis="x", color="#E5E5E5", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(length=0)
    axis.set_title(panel.title, fontsize=9.5)
    for side in ("top", "right", "left", "bottom"):
        axis.spines[side].set_visible(False)
