import json
import pickle
import random
import re
import time

import pytest
from hypothesis import given, settings, strategies as st

from kinetic.model.chat.reply.calls import FAMILIES, OutputFormat, markers, parser_for
from kinetic.model.chat.reply.source import Source
from kinetic.types import CallPiece, ContentPiece, ReasoningPiece
from tests.model.chat.output_cases import (
    Case,
    Result,
    chunked,
    load,
    parser,
    read,
    tools,
)

CASES = load()
all_cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
NO_CALLS = [case for case in CASES.values() if not case.calls and not case.truncated]

PING = {
    "qwen3.5": "<tool_call>\n<function=ping>\n</function>\n</tool_call>",
    "lfm3": "<tool_call><function=ping></function></tool_call>",
    "hermes": '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>',
    "lfm2": "<|tool_call_start|>[ping()]<|tool_call_end|>",
    "llama3": '<|python_tag|>{"name": "ping", "parameters": {}}',
    "mistral": "[TOOL_CALLS]ping[ARGS]{}",
    "gpt-oss": "<|channel|>commentary to=functions.ping<|message|>{}<|call|>",
    "generic": '<tool_call>{"name": "ping", "arguments": {}}</tool_call>',
}


@all_cases
def test_a_text_is_read_as_it_is_meant(case: Case):
    result = read(case.format, case.text, truncated=case.truncated)
    calls = [[call.name, json.loads(call.arguments)] for call in result.calls]
    assert (result.content, result.reasoning, calls) == (
        case.content,
        case.reasoning,
        case.calls,
    )
    for call, expected in zip(result.calls, case.ids or [], strict=False):
        assert call.id == expected or (expected is None and call.id.startswith("made"))


@all_cases
def test_no_cut_changes_the_reading(case: Case):
    whole = read(case.format, case.text, truncated=case.truncated)
    assert read(case.format, *case.text, truncated=case.truncated) == whole
    for i in range(1, len(case.text)):
        two = read(case.format, case.text[:i], case.text[i:], truncated=case.truncated)
        assert two == whole, case.text[:i]


@all_cases
def test_what_is_out_is_never_taken_back(case: Case):
    """Also not by an end that comes early: then there may only be more text."""
    whole = read(case.format, case.text, truncated=case.truncated)
    reader = parser(case.format)
    pieces = []
    for char in case.text:
        pieces += reader.feed(char)
        assert Result.of(pieces).starts(whole)


@pytest.mark.parametrize(
    "case", NO_CALLS, ids=lambda case: f"{case.family}-{case.name}"
)
def test_little_is_held_back(case: Case):
    """Of text that is no call; a beginning that was one for long is the exception."""
    long_starts = re.compile(
        r"""<tool_call>|<function=|\[TOOL|<\|tool|<\|python
        |<\|(channel|start)|```json|^\s*[\[{]|</?think|<reflect""",
        re.VERBOSE | re.MULTILINE,
    )
    if long_starts.search(case.text):
        return
    reader = parser(case.format)
    shown = 0
    for i, char in enumerate(case.text):
        shown += sum(
            len(piece.text)
            for piece in reader.feed(char)
            if isinstance(piece, ContentPiece | ReasoningPiece)
        )
        assert i + 1 - shown < 32, case.text[: i + 1]


def test_content_comes_out_character_by_character():
    for family in FAMILIES:
        reader = parser(OutputFormat(family=family, tools=tools("ping")))
        for char in "A=b;c":
            assert reader.feed(char) == [ContentPiece(char)], family


def test_a_marker_that_cannot_be_one_any_more_is_released_at_once():
    reader = parser(OutputFormat(family="hermes", tools=tools("ping")))
    assert reader.feed("a <tool_ca") == [ContentPiece("a")]
    assert reader.feed("b") == [ContentPiece(" <tool_cab")]
    assert reader.feed("<tool_call>") == []
    assert reader.feed("x") == [ContentPiece("<tool_call>x")]


def test_a_call_comes_as_soon_as_its_payload_is_whole():
    reader = parser(OutputFormat(family="hermes", tools=tools("ping"), parallel=True))
    assert reader.feed('<tool_call>{"name": "ping", "arguments": {}') == []
    (piece,) = reader.feed("}")
    assert isinstance(piece, CallPiece)
    assert (piece.index, piece.call.name, piece.call.arguments) == (0, "ping", "{}")


@pytest.mark.parametrize("family", PING)
def test_each_call_has_its_index_and_id(family: str):
    fmt = OutputFormat(family=family, tools=tools("ping"), parallel=True)
    text = PING[family] * 2
    if family == "gpt-oss":
        text = f"{PING[family]}<|start|>assistant{PING[family]}"
    ids = iter(["aaaaaaaa1", "aaaaaaaa1", "aaaaaaaa2"])
    reader = parser_for(fmt, lambda: next(ids))
    pieces = [*reader.feed(text), *reader.finish(truncated=False)]
    calls = [piece for piece in pieces if isinstance(piece, CallPiece)]
    assert [(call.index, call.call.id) for call in calls] == [
        (0, "aaaaaaaa1"),
        (1, "aaaaaaaa2"),
    ]
    assert len(calls) == len(pieces)


@pytest.mark.parametrize("family", PING)
def test_one_call_completes_a_reply_that_may_hold_one(family: str):
    fmt = OutputFormat(family=family, tools=tools("ping"))
    reader = parser(fmt)
    states = [reader.complete]
    pieces = reader.feed(f"{PING[family]} and more {PING[family]}")
    assert [*states, reader.complete, reader.visible] == [False, True, False]
    assert len(pieces) == 1
    assert reader.feed("more") == []
    assert reader.finish(truncated=False) == []


@pytest.mark.parametrize("family", PING)
def test_several_calls_complete_nothing(family: str):
    reader = parser(OutputFormat(family=family, tools=tools("ping"), parallel=True))
    reader.feed(PING[family])
    assert not reader.complete


@pytest.mark.parametrize("family", PING)
def test_without_tools_nothing_is_a_call(family: str):
    result = read(OutputFormat(family=family), PING[family])
    assert result.calls == ()
    assert result.content


@pytest.mark.parametrize("family", sorted(PING.keys() - {"gpt-oss"}))
def test_in_the_plain_family_nothing_is_a_call(family: str):
    fmt = OutputFormat(family="plain", tools=tools("ping"))
    assert read(fmt, PING[family]).content == PING[family]


def test_what_comes_is_visible_outside_thoughts_and_calls():
    fmt = OutputFormat(
        family="hermes", tools=tools("ping"), think_open="<think>", parallel=True
    )
    reader = parser(fmt)
    seen = []
    for chunk in (
        "Hm",
        "</thi",
        "nk>",
        "Yes",
        "<tool_call>",
        '{"name": "ping"',
        "}",
        "x",
    ):
        reader.feed(chunk)
        seen.append(reader.visible)
    # Behind a call a closing tag may come, which is not visible either.
    assert seen == [False, False, True, True, False, False, False, True]


def test_an_unknown_family_is_an_error():
    with pytest.raises(ValueError, match="'nobody'"):
        parser(OutputFormat(family="nobody"))
    with pytest.raises(ValueError, match="'nobody'"):
        markers("nobody")


def test_text_behind_the_end_is_an_error():
    reader = parser(OutputFormat(family="plain"))
    assert reader.feed("a ") == [ContentPiece("a")]
    assert reader.finish(truncated=False) == [ContentPiece(" ")]
    assert reader.finish(truncated=False) == []
    with pytest.raises(ValueError, match="after the end"):
        reader.feed("b")


def test_a_format_can_be_sent_between_processes():
    for case in CASES.values():
        assert pickle.loads(pickle.dumps(case.format)) == case.format


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_markers_are_the_texts_a_reply_is_read_by(family: str):
    found = markers(family)
    assert len(found) == len(set(found))
    if family == "gpt-oss":
        assert {"<|channel|>", "<|message|>", "<|end|>"} <= set(found)
    else:
        assert {"<think>", "</think>", "[THINK]"} <= set(found)
    for marker in re.findall(
        r"<\|\w+\|>|\[[A-Z_]+\]|</?tool_call>", PING.get(family, "")
    ):
        assert marker in found


# ---- any text -------------------------------------------------------------------

FRAGMENTS = st.sampled_from(
    [
        *PING.values(),
        *(text[: len(text) // 2] for text in PING.values()),
        *(marker for family in sorted(FAMILIES) for marker in markers(family)),
        '{"name": "ping", "arguments": {}}',
        '[{"name": "pong"}]',
        "[ping()]",
        "```json\n",
        "```\n",
        "\n",
        "  ",
        "{",
        "[",
        "'",
        '"',
        "\\",
        "<function=get_weather>\n<parameter=town>\nOslo\n</parameter>\n</function>",
        "<|tool_call_start|>[get_weather(town='it's', days=1)]",
        "Łódź 🌧 ",
    ]
)
TEXTS = st.lists(FRAGMENTS | st.text(max_size=6), max_size=12).map("".join)
FORMATS = st.builds(
    OutputFormat,
    family=st.sampled_from(sorted(FAMILIES)),
    tools=st.sampled_from([(), tools("ping", "get_weather")]),
    think_open=st.sampled_from([None, "<think>"]),
    think_tags=st.sampled_from([None, ("<think>", "</think>")]),
    parallel=st.booleans(),
    split_reasoning=st.booleans(),
    forced=st.booleans(),
)


@given(FORMATS, TEXTS, st.integers(1, 7), st.booleans())
@settings(max_examples=400)
def test_any_text_is_read_alike_whole_and_in_pieces(fmt, text, size, truncated):
    whole = read(fmt, text, truncated=truncated)
    assert read(fmt, *chunked(text, size), truncated=truncated) == whole


@given(
    st.sampled_from(sorted(PING)),
    st.text(alphabet="ab .,;:!?\n\t<>{}[]()'\"`=/|\\é漢🌧", max_size=40),
    st.text(alphabet="ab .,;:!?\n\t<>{}[]()'\"`=/|\\é漢🌧", max_size=40),
    st.integers(1, 9),
)
@settings(max_examples=300)
def test_text_round_a_call_is_kept(family, before, after, size):
    """All of it but whitespace that touches a call, or a header."""
    before, after = before.replace("```", ""), after.replace("```", "")
    fmt = OutputFormat(family=family, tools=tools("ping"), parallel=True)
    opening, closing = before, after
    if family == "gpt-oss":
        opening = f"<|channel|>final<|message|>{before}<|end|><|start|>assistant"
        closing = f"<|start|>assistant<|channel|>final<|message|>{after}"
    result = read(fmt, *chunked(f"{opening}{PING[family]}{closing}", size))
    assert len(result.calls) == 1
    assert _dense(result.content) == _dense(before + after)
    if family != "gpt-oss":
        assert result.content.startswith(before.rstrip())


def _dense(text: str) -> str:
    return "".join(text.split())


@given(
    st.sampled_from(sorted(FAMILIES - {"gpt-oss"})),
    st.lists(FRAGMENTS | st.text(max_size=5), max_size=10).map("".join),
)
@settings(max_examples=300)
def test_text_that_calls_no_tool_comes_out_whole(family, text):
    """The only tool is one that no text here calls."""
    fmt = OutputFormat(family=family, tools=tools("find_part"), parallel=True)
    text = f".{text}"  # no think tag at the start
    assert read(fmt, *text) == Result(text, "", ())


# ---- hostile text ---------------------------------------------------------------

N_CHARS = 20_000
LIMIT_S = 10.0
HOSTILE = {
    "openers": "<tool_call>",
    "objects that never end": '<tool_call>{"a":',
    "strings that never end": '<tool_call>{"name": "',
    "values that never end": "<function=get_weather><parameter=town>",
    "closers that do not count": "<function=get_weather><parameter=town></parameter> x",
    "lists": "<|tool_call_start|>[",
    "lists in lists": "[",
    "quotes that do not count": "<|tool_call_start|>[get_weather(town='a', b ",
    "objects in objects": '{"name":{"name":',
    "named calls": '[TOOL_CALLS]get_weather[ARGS]{"a":"',
    "bare calls": '{"name":"ping","parameters":{}}\n',
    "fences": '```json\n{"name":"ping","parameters":{"a":"\n',
    "thoughts": "x<think>",
    "calls in thoughts": '<think><tool_call>{"name":"ping"}',
    "channels": "<|channel|>",
    "calls in channels": '<|channel|>to=functions.ping<|message|>{"a":"',
    "backslashes": "\\",
    "brackets": "<",
    "ticks": "`",
    "indented braces": "\n  {",
    "blanks": "a" + " " * 500,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_takes_long(name: str, monkeypatch: pytest.MonkeyPatch):
    """What is read twice stays within a multiple of the text, whatever it is."""
    n_reread = 0
    rewind = Source.rewind

    def counting(source: Source, offset: int) -> None:
        nonlocal n_reread
        n_reread += source.offset - offset
        rewind(source, offset)

    monkeypatch.setattr(Source, "rewind", counting)
    unit = HOSTILE[name]
    text = (unit * (N_CHARS // len(unit) + 1))[:N_CHARS]
    prefixes = ("", "<tool_call>", "<|tool_call_start|>[get_weather(town='", "<think>")
    start = time.thread_time()
    for family, prefix in zip(sorted(PING), prefixes * 2, strict=True):
        fmt = OutputFormat(
            family=family, tools=tools("ping", "get_weather"), parallel=True
        )
        n_reread = 0
        whole = read(fmt, prefix + text)
        assert n_reread < 8 * N_CHARS + (1 << 17)
        assert read(fmt, *chunked(prefix + text, 50)) == whole
        assert whole.content or whole.reasoning or whole.calls
    assert time.thread_time() - start < LIMIT_S


def test_long_answers_and_arguments_are_read_in_small_pieces():
    value = "if (a < b) { print('x', [1]); }\n" * 3_000
    fmt = OutputFormat(family="qwen3.5", tools=tools("run"), parallel=True)
    call = f"<tool_call>\n<function=run>\n<parameter=code>\n{value}\n</parameter>\n</function>"
    start = time.thread_time()
    assert read(fmt, *chunked(value, 4)).content == value
    (made,) = read(fmt, *chunked(call, 4)).calls
    assert json.loads(made.arguments) == {"code": value}
    assert time.thread_time() - start < LIMIT_S


@pytest.mark.parametrize(
    "family", ["qwen3.5", "hermes", "lfm2", "mistral", "llama3", "gpt-oss"]
)
def test_deep_nesting_is_no_call(family: str):
    deep = '{"a": ' + "[" * 900 + "]" * 900 + "}"
    text = {
        "qwen3.5": f'<tool_call>{{"name": "ping", "arguments": {deep}}}</tool_call>',
        "hermes": f'<tool_call>{{"name": "ping", "arguments": {json.dumps(deep)}}}</tool_call>',
        "lfm2": f"<|tool_call_start|>[ping(a={deep})]<|tool_call_end|>",
        "mistral": f"[TOOL_CALLS]ping[ARGS]{deep}",
        "llama3": f'{{"name": "ping", "parameters": {deep}}}',
        "gpt-oss": f"<|channel|>commentary to=functions.ping<|message|>{deep}",
    }[family]
    assert read(OutputFormat(family=family, tools=tools("ping")), text).content == text


def test_random_cuts_of_a_long_conversation_read_alike():
    rng = random.Random(7)
    text = "".join(
        f"Line {i}: a < b, {{x: [1]}}.\n{PING['hermes']}\n" for i in range(60)
    )
    fmt = OutputFormat(family="generic", tools=tools("ping"), parallel=True)
    whole = read(fmt, text)
    assert len(whole.calls) == 60
    for _ in range(5):
        cuts = sorted(rng.sample(range(len(text)), 200))
        chunks = [
            text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)
        ]
        assert read(fmt, *chunks) == whole
