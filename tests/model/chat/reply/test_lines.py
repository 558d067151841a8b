import pytest
from hypothesis import given, strategies as st

from kinetic.model.chat.reply.lines import Lines


def after(*pieces: str) -> Lines:
    lines = Lines()
    for piece in pieces:
        lines.add(piece)
    return lines


@pytest.mark.parametrize(
    ("text", "is_start"),
    [("", True), ("a", False), ("a\n", True), ("a\n  \t", True), ("\n`", False)],
)
def test_a_line_starts_behind_indentation(text: str, is_start: bool):
    assert after(text).at_start is is_start


@pytest.mark.parametrize(
    ("text", "is_fenced"),
    [
        ("```", True),
        ("  ```py\nx", True),
        ("```\nx\n```", False),
        ("a ```", False),
        ("``\n`", False),
        ("````", True),
        ("```\n```\n```", True),
    ],
)
def test_lines_that_begin_with_ticks_are_fences(text: str, is_fenced: bool):
    assert after(text).fenced is is_fenced
    assert after(*text).fenced is is_fenced


def test_whitespace_leaves_a_text_fresh():
    assert after(" ", "\n\n").fresh
    assert not after(" ", "a", " ").fresh


def test_the_last_character_is_known():
    assert (after("").last, after("ab", "").last) == ("", "b")


@given(st.text("a `\n", max_size=30), st.integers(1, 4))
def test_any_cut_tells_the_same(text, size):
    whole = after(text)
    cut = after(*(text[i : i + size] for i in range(0, len(text), size)))
    assert (cut.at_start, cut.fenced, cut.fresh, cut.last) == (
        whole.at_start,
        whole.fenced,
        whole.fresh,
        whole.last,
    )
    is_fence = [line.lstrip(" ").startswith("```") for line in text.split("\n")]
    assert whole.fenced is (sum(is_fence) % 2 == 1)
