"""What is drawn, and that a picture comes out."""

from __future__ import annotations

import copy

import pytest

from scripts.bench import chart
from tests.scripts.bench.results_of import small_run


def test_bars_are_advantages_and_rows_are_figures():
    prepared = chart.prepare(small_run())
    assert prepared.labels[0] == "first token, middle prompt"
    assert "longest pause" in prepared.labels
    (panel,) = prepared.panels
    first = {bar.peer: round(bar.times, 2) for bar in panel.bars if bar.row == 0}
    assert first == {0: 0.52, 1: 2.0}
    pause = prepared.labels.index("longest pause")
    assert [bar.peer for bar in panel.bars if bar.row == pause] == [0]


def test_counts_and_right_answers_are_not_drawn():
    assert "" not in chart.prepare(small_run()).labels


def test_the_encoders_rows_join_the_first_model():
    run = small_run()
    vectors = copy.deepcopy(run.sections[0])
    vectors.figures = {
        "vectors_few_tps": {"Kinetic": [9.0], "llama-server": [3.0]},
        "memory_mib": {"Kinetic": [9.0], "llama-server": [3.0]},
    }
    run.sections.append(vectors)
    prepared = chart.prepare(run)
    (panel,) = prepared.panels
    assert prepared.labels[-1] == "vectors, 32 texts"
    memory = prepared.labels.index("memory")
    assert [bar.times for bar in panel.bars if bar.row == memory] == [0.5]
    assert panel.bars[-1].times == 3.0


def test_a_png_file_comes_out(tmp_path):
    pytest.importorskip("matplotlib", reason="make bench installs it")
    file = tmp_path / "chart.png"
    chart.draw(chart.prepare(small_run()), file)
    assert file.read_bytes().startswith(b"\x89PNG\r\n")


def test_without_matplotlib_the_way_to_it_is_told(tmp_path, monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(chart, "import_module", refuse)
    with pytest.raises(SystemExit, match="make bench"):
        chart.draw(chart.prepare(small_run()), tmp_path / "chart.png")
