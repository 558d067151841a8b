"""Results in, Markdown out."""

from __future__ import annotations

import re

import pytest

from scripts.bench import page, readme, results
from scripts.bench.figures import BY_KEY, CATALOGUE, advantage, is_slower, ratio
from scripts.bench.reasons import BY_TOPIC
from scripts.bench.write import page_of
from tests.scripts.bench.results_of import small_run

LESS, MORE = BY_KEY["cold_middle_s"], BY_KEY["one_tps"]


def test_a_ratio_is_kinetic_by_its_peer():
    assert ratio([2.0, 4.0], [1.0]) == 3.0
    assert ratio([], [1.0]) is None
    assert ratio([1.0], None) is None
    assert ratio([1.0], [0.0]) is None


@pytest.mark.parametrize(
    ("figure", "ours", "theirs", "times", "slower"),
    [
        (LESS, 2.0, 1.0, 0.5, True),
        (LESS, 1.0, 2.0, 2.0, False),
        (MORE, 2.0, 1.0, 2.0, False),
        (MORE, 1.0, 2.0, 0.5, True),
        (MORE, 0.98, 1.0, 0.98, False),
        (BY_KEY["cold_middle_tokens"], 1.0, 2.0, None, False),
    ],
)
def test_ahead_is_above_one_whatever_the_direction(figure, ours, theirs, times, slower):
    assert advantage(figure, [ours], [theirs]) == times
    assert is_slower(figure, [ours], [theirs]) is slower


def row(text, start):
    (line,) = [one for one in text.splitlines() if one.startswith(f"| {start}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_row_has_medians_spreads_ratios_and_the_direction():
    text = page_of(small_run())
    assert row(text, "first token of a new prompt of 512 tokens, s")[1:] == [
        "2.1 (2 to 2.2)",
        "1.1 (1 to 1.2)",
        "4.2 (4 to 4.4)",
        "1.91",
        "**0.50**",
        "less",
    ]
    assert row(text, "one answer of 128 tokens, tokens/s")[4:] == [
        "1.00",
        "**2.10**",
        "more",
    ]


def test_counts_have_no_ratio_and_right_answers_are_counted():
    text = page_of(small_run())
    assert row(text, "tokens of that prompt of 512")[4:] == ["", "", ""]
    assert row(text, "such answers that fit the schema")[1:3] == ["2 of 2", "1 of 2"]


def test_a_missing_figure_leads_to_its_reason():
    text = page_of(small_run())
    cell = row(text, "longest pause")[3]
    mark = re.fullmatch(r"- (\(\w\))", cell)
    assert mark
    assert f"* {mark[1]} llama-cpp-python: it answers one request at a time" in text
    held = row(text, "a tool call")[2]
    assert held == row(text, "such calls")[2].replace("0 of 1", "-")


def test_failures_stand_on_the_page():
    assert "* many, llama-server, round 2: 503: no room" in page_of(small_run())


def test_the_plan_that_kinetic_took_stands_above_the_table():
    text = page_of(small_run())
    assert "98 MiB, 2 rounds. Kinetic's plan: uniform (7 ways agree)." in text


def test_an_ended_run_says_so():
    run = small_run()
    assert "ended early" not in page_of(run)
    run.is_finished = False
    assert "ended early" in page_of(run)


def test_what_is_slower_is_listed_with_its_reason_and_nothing_else():
    text = page.slower_text(small_run())
    assert f"**New prompts.** {BY_TOPIC['New prompts']}" in text
    assert "512 tokens, s: 1.91 of llama-server's\n" in text
    assert "two at once, together, tokens/s: 0.95 of llama-server's" in text
    assert "(their rounds overlap)" in text
    assert "resident memory behind these loads, MiB: 2.00 of llama-server's" in text
    assert "one answer of" not in text
    assert "longest pause" not in text


def test_nothing_slower_is_said_too():
    run = small_run()
    run.sections[0].figures = {"one_tps": {"Kinetic": [2.0], "llama-server": [1.0]}}
    assert "Nothing is behind" in page.slower_text(run)


def test_every_figure_has_a_reason_to_be_behind_and_a_label():
    sizes = small_run().sections[0].sizes
    for figure in CATALOGUE:
        assert figure.topic in BY_TOPIC
        assert "{" not in figure.named(sizes)


def test_many_servers_stand_below_each_other():
    run = small_run()
    (section,) = run.sections
    section.figures = {"copy_tps": {"Kinetic": [60.0], "Kinetic, --no-draft": [50.0]}}
    section.commands = dict.fromkeys(["Kinetic", "Kinetic, --no-draft", "a", "b"], "")
    text = page_of(run)
    assert row(text, "Kinetic, --no-draft")[1] == "50"
    assert row(text, "Kinetic ÷ Kinetic, --no-draft")[1] == "**1.20**"


@pytest.mark.parametrize(
    ("value", "text"), [(0.08194, "0.0819"), (99.94, "99.9"), (1234.5, "1,234")]
)
def test_numbers_have_three_digits_that_count(value, text):
    assert page.number(value) == text


def test_results_are_read_as_they_were_written(tmp_path):
    run, file = small_run(), tmp_path / "deep" / "run.json"
    results.write(run, file)
    assert results.read(file) == run
    assert list(file.parent.iterdir()) == [file]


def test_results_of_another_format_are_refused(tmp_path):
    file = tmp_path / "old.json"
    file.write_text('{"kinetic": {}}')
    with pytest.raises(SystemExit, match="format"):
        results.read(file)


def test_readmes_part_is_replaced_and_the_rest_left():
    text = f"above\n{readme.FIRST}\nold\n{readme.LAST}\nbelow\n"
    filled = readme.filled(text, small_run())
    assert filled.startswith(
        f"above\n{readme.FIRST}\nMedians with SmolLM2, Q4_1, 2 threads"
    )
    assert filled.endswith(f"{readme.LAST}\nbelow\n")
    assert "old" not in filled
    assert row(filled, "one answer of 128 tokens")[1:] == ["105", "105", "50"]
    assert readme.filled(filled, small_run()) == filled


def test_a_readme_without_the_marks_is_left_alone():
    with pytest.raises(SystemExit, match="no part"):
        readme.filled("text", small_run())
