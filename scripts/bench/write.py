"""Writes what a run leaves: results, page, chart and README's part."""

from __future__ import annotations

from pathlib import Path

from scripts.bench import chart, page, readme, results as kept
from scripts.bench.servers import N_CTX, N_SLOTS
from scripts.console import say

ROOT = Path(__file__).resolve().parent.parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"


def page_of(found: kept.Results) -> str:
    """Writes the page of some results."""
    return page.render(found, n_slots=N_SLOTS, n_ctx=N_CTX)


def everything(found: kept.Results, folder: Path) -> None:
    """Writes the three files into a folder, and README's part if that is docs."""
    folder.mkdir(parents=True, exist_ok=True)
    kept.write(found, folder / "performance.json")
    (folder / "performance.md").write_text(page_of(found), encoding="utf-8")
    prepared = chart.prepare(found)
    if prepared.labels:
        chart.draw(prepared, folder / "performance.png")
    if folder.resolve() == DOCS:
        text = readme.filled(README.read_text("utf-8"), found)
        README.write_text(text, encoding="utf-8")
    say(f"wrote {folder / 'performance.md'}")
