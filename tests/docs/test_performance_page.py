"""The page, the chart and README's figures are those of docs/performance.json."""

import re

import pytest

from scripts.bench import readme, results
from scripts.bench.write import DOCS, README, page_of

LARGEST_CHART = 300_000
AGAIN = "python -m scripts.bench --render docs/performance.json writes it anew"
SPEED = re.compile(r"\d ?(?:tokens/s|tokens a second|answers/s|texts/s|times as fast)")


@pytest.fixture(scope="module")
def run():
    return results.read(DOCS / "performance.json")


def test_the_page_is_made_of_the_results(run):
    page = (DOCS / "performance.md").read_text("utf-8")
    assert page == page_of(run), AGAIN


def test_readmes_figures_are_the_results(run):
    text = README.read_text("utf-8")
    assert readme.filled(text, run) == text, AGAIN


def test_readme_has_no_other_speed():
    before, _, rest = README.read_text("utf-8").partition(readme.FIRST)
    after = rest.partition(readme.LAST)[2]
    assert SPEED.findall(before + after) == []


def test_the_chart_is_a_small_png():
    chart = (DOCS / "performance.png").read_bytes()
    assert chart.startswith(b"\x89PNG\r\n")
    assert len(chart) < LARGEST_CHART
