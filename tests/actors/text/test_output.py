"""Text of a generation: UTF-8, stop strings, log-probabilities."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings, strategies as st

from kinetic.actors.text.output import OutputText, StopMatcher
from kinetic.types import ContentPiece, ReasoningPiece, TokenLogprob

TEXTS = st.text(max_size=8) | st.text("\0\u2028\ufeff e🦊\n", max_size=6)


def texts(pieces):
    """The text of pieces that are no calls."""
    return [p.text for p in pieces if isinstance(p, ContentPiece | ReasoningPiece)]


def run(pieces, stops=(), **named):
    """All text of a generation fed `pieces`, and how it ended."""
    text = OutputText(stops=stops, **named)
    out, finish = [], None
    for piece in pieces:
        output = text.feed(piece)
        out += texts(output.pieces)
        finish = output.finish
        if finish:
            break
    rest = text.end(truncated=finish is None)
    out += texts(rest.pieces)
    return "".join(out), finish or text.stopped


def cuts(data):
    return [data[i : i + 1] for i in range(len(data))]


@pytest.mark.parametrize("text", ["🦊🧵 ёж 漢字", "e\u0301", "a\u200db", "👩‍👩‍👧"])
def test_characters_of_several_tokens_come_out_whole(text):
    text_out = OutputText()
    for piece in cuts(text.encode()):
        for part in texts(text_out.feed(piece).pieces):
            assert "\ufffd" not in part
    assert run(cuts(text.encode()))[0] == text


def test_a_character_that_never_ends_is_replaced_at_the_end():
    assert run([b"a\xf0\x9f"])[0] == "a\ufffd"


@pytest.mark.parametrize(
    ("text", "stops", "expected", "found"),
    [
        ("a b c d e f g h", ["e f g"], "a b c d ", "e f g"),
        ("the brown fox", ["wn fo"], "the bro", "wn fo"),
        ("x漢字y", ["漢字"], "x", "漢字"),
        ("one two", ["two", "two three"], "one ", "two"),
        ("aab", ["ab"], "a", "ab"),
        ("aaab", ["aab"], "a", "aab"),
        ("no stop here", ["zz"], "no stop here", None),
        ("ends with a star", ["star!"], "ends with a star", None),
    ],
)
def test_stop_strings_over_any_cut(text, stops, expected, found):
    data = text.encode()
    whole = run([data], stops)
    single = run(cuts(data), stops)
    for i in range(len(data) + 1):
        assert run([data[:i], data[i:]], stops) == whole
    assert single == whole
    assert whole[0] == expected
    assert (whole[1].stop_string if whole[1] else None) == found


@given(
    st.text(alphabet="ab", max_size=30),
    st.lists(st.text(alphabet="ab", min_size=1, max_size=4), max_size=3),
    st.lists(st.integers(0, 30), max_size=5),
)
def test_stop_strings_agree_with_a_plain_search(text, stops, at):
    matcher = StopMatcher(stops)
    points = sorted({0, len(text), *(min(i, len(text)) for i in at)})
    out = ""
    for first, end in pairwise(points):
        if matcher.found is None:
            out += matcher.feed(text[first:end])
            assert text.startswith(out)
    if matcher.found is None:
        out += matcher.flush()
    starts = [(text.find(stop), stop) for stop in stops if stop in text]
    hits = sorted((at + len(stop), at) for at, stop in starts)
    assert out == (text[: hits[0][1]] if hits else text)
    assert (matcher.found is not None) == bool(hits)


def test_only_what_may_become_a_stop_string_is_held_back():
    matcher = StopMatcher(["###"])
    assert matcher.feed("abc") == "abc"
    assert matcher.feed("d#") == "d"
    assert matcher.feed("e") == "#e"


def entry(token_id, piece):
    return TokenLogprob(token_id=token_id, piece=piece, logprob=-1.0)


def test_log_probabilities_come_with_their_text_and_join_to_it():
    text = OutputText(stops=["STOP"])
    pieces = [b"a", b"\xf0\x9f", b"\xa6\x8a", b" S", b"o ST", b"OP!"]
    out, logged = "", b""
    for i, piece in enumerate(pieces):
        output = text.feed(piece, entry(i, piece))
        out += "".join(texts(output.pieces))
        logged += b"".join(e.piece for e in output.logprobs)
        assert out.encode().startswith(logged)
    end = text.end(truncated=False)
    logged += b"".join(e.piece for e in end.logprobs)
    assert out == "a🦊 So "
    assert logged == out.encode()


def test_log_probabilities_of_held_back_text_come_at_the_end():
    text = OutputText(stops=["STOP"])
    assert text.feed(b"ST", entry(0, b"ST")).logprobs == ()
    end = text.end(truncated=True)
    assert end.pieces == (ContentPiece("ST"),)
    assert [e.token_id for e in end.logprobs] == [0]


class Script:
    """A parser that gives out what it is told to, piece by piece."""

    complete = False

    def __init__(self, *steps):
        self._steps = list(steps)

    def feed(self, text):
        return self._steps.pop(0)

    def finish(self, *, truncated):
        return self._steps.pop(0) if self._steps else []


def logged(tokens, parser, stops=()):
    """The tokens whose entries come with each step, and with the end."""
    text = OutputText(stops=stops, parser=parser)
    steps = [text.feed(t, entry(i, t)) for i, t in enumerate(tokens)]
    steps.append(text.end(truncated=False))
    return [[e.piece for e in step.logprobs] for step in steps]


def test_a_stop_string_cuts_the_entries_of_parsed_content_too():
    parser = Script(*([ContentPiece(t)] for t in ("1.", " The", " River")))
    steps = logged([b"1.", b" The", b" River"], parser, ["Riv"])
    assert steps == [[b"1."], [b" The"], [], [b" "]]


def test_entries_of_markers_go_with_the_next_piece():
    parser = Script([], [ReasoningPiece("hm")], [], [ContentPiece("Yes")])
    steps = logged([b"<think>", b"hm", b"</think>", b"Yes"], parser)
    assert steps == [[], [b"<think>", b"hm"], [], [b"</think>", b"Yes"], []]


def test_a_stop_string_behind_reasoning_cuts_at_its_place():
    parser = Script([], [ReasoningPiece("a b")], [], [ContentPiece("a b")])
    steps = logged([b"<think>", b"a b", b"</think>", b"a b"], parser, ["b"])
    assert steps == [[], [b"<think>", b"a b"], [], [b"</think>"], [b"a "]]


def test_entries_of_a_call_come_at_the_end():
    parser = Script([ContentPiece("So")], [], [])
    assert logged([b"So", b"<tool_call>", b"{}"], parser) == [
        [b"So"],
        [],
        [],
        [b"<tool_call>", b"{}"],
    ]


def test_an_indent_rule_ends_the_text_at_a_line_that_leaves_the_block():
    text = "\n    a = 1\n\n    b = 2\nc = 3\n"
    expected = "\n    a = 1\n\n    b = 2\n"
    assert run(cuts(text.encode()), min_indent=4)[0] == expected
    assert run([text.encode()], min_indent=4)[0] == expected


@settings(max_examples=60)
@given(TEXTS, TEXTS.filter(bool), st.integers(1, 7))
@example("a" * 30_000, "a" * 1_024, 5)
@example("e", "e\0b", 1)
def test_a_stop_string_of_any_characters_is_met_whole(before, stop, size):
    raw = f"{before}{stop}after".encode()
    pieces = [raw[i : i + size] for i in range(0, len(raw), size)]
    text, finish = run(pieces, stops=[stop])
    expected = raw.decode()
    assert text == expected[: expected.index(stop)]
    assert getattr(finish, "stop_string", finish) == stop
    # What is cut of it is another text, which stops nothing.
    alone = [raw[: len(before.encode())]]
    if stop not in before:
        assert run(alone, stops=[stop]) == (before, None)
