import pytest

from kinetic.model.chat.reply.calls import OutputFormat
from kinetic.model.chat.reply.reasoning import TagPairs
from kinetic.types import ContentPiece, ReasoningPiece
from tests.model.chat.output_cases import parser, read, tools

CALL = '<tool_call>{"name": "ping", "arguments": {}}</tool_call>'


def test_thoughts_stream_and_whitespace_round_them_goes():
    reader = parser(OutputFormat(family="plain", think_open="<think>\n"))
    assert reader.feed("\n") == []
    assert reader.feed("a ") == [ReasoningPiece("a")]
    assert reader.feed("b\n") == [ReasoningPiece(" b")]
    assert reader.feed("</think") == []
    assert reader.feed(">\n") == []
    assert reader.feed("\nc\n") == [ContentPiece("c")]
    assert reader.finish(truncated=False) == [ContentPiece("\n")]


def test_a_tail_that_is_no_closer_is_released():
    reader = parser(OutputFormat(family="plain", think_open="<think>"))
    assert reader.feed("a</thi") == [ReasoningPiece("a")]
    assert reader.feed("s") == [ReasoningPiece("</this")]


@pytest.mark.parametrize("opener", ["<think>", "[THINK]", "<seed:think>"])
def test_known_tags_are_read_whatever_the_template_shows(opener: str):
    closer = TagPairs(None).pairs[opener]
    result = read(OutputFormat(family="plain"), f"{opener}a{closer}b")
    assert (result.reasoning, result.content) == ("a", "b")


def test_a_templates_tags_leave_other_tags_alone():
    fmt = OutputFormat(family="plain", think_tags=("[THINK]", "[/THINK]"))
    assert read(fmt, "<think>a</think>").content == "<think>a</think>"


def test_a_template_may_name_tags_of_its_own():
    fmt = OutputFormat(family="plain", think_tags=("<r>\n", "</r>"), think_open="<r>\n")
    assert read(fmt, "a</r>b").reasoning == "a"


def test_an_opener_without_a_closer_is_an_error():
    with pytest.raises(ValueError, match="<reflect>"):
        parser(OutputFormat(family="plain", think_open="<reflect>"))


@pytest.mark.parametrize("truncated", [True, False])
def test_a_block_that_is_never_closed_is_all_reasoning(truncated: bool):
    fmt = OutputFormat(family="plain", think_tags=("<think>", "</think>"))
    result = read(fmt, "<think>\na\nb", truncated=truncated)
    assert (result.reasoning, result.content) == ("a\nb", "")


def test_an_opener_alone_is_an_answer_unless_thinking_is_known():
    assert read(OutputFormat(family="plain"), "<think>\n").content == "<think>"
    known = OutputFormat(family="plain", think_tags=("<think>", "</think>"))
    assert read(known, "<think>\n").content == ""
    assert read(OutputFormat(family="plain"), "<think>", truncated=True).content == ""


def test_a_call_in_open_thoughts_waits_for_the_end():
    fmt = OutputFormat(family="hermes", tools=tools("ping"), think_open="<think>")
    reader = parser(fmt)
    assert reader.feed("a") == [ReasoningPiece("a")]
    assert reader.feed(CALL + " more") == []
    assert not reader.complete
    assert reader.feed("</think>") == [ReasoningPiece(f"{CALL} more")]
    assert reader.finish(truncated=False) == []


def test_thoughts_go_on_behind_what_was_no_call():
    fmt = OutputFormat(family="hermes", tools=tools("ping"), think_open="<think>")
    reader = parser(fmt)
    assert reader.feed("a <tool_call>{") == [ReasoningPiece("a")]
    assert reader.feed("x") == [ReasoningPiece(" <tool_call>{x")]


def test_in_one_piece_thoughts_are_content_and_hold_no_call():
    fmt = OutputFormat(
        family="hermes",
        tools=tools("ping"),
        think_open="<think>",
        split_reasoning=False,
    )
    result = read(fmt, f" a {CALL}\n</think>\n\nb")
    assert (result.content, result.reasoning, result.calls) == (
        f" a {CALL}\n</think>\n\nb",
        "",
        (),
    )


@pytest.mark.parametrize("tags", [None, ("<think>", "</think>")])
@pytest.mark.parametrize("text", ["<think> c </think> d", "</think> c", "\n<think>\nc"])
def test_an_answer_that_the_prompt_has_begun_opens_no_block(tags, text):
    for cut in range(len(text) + 1):
        fmt = OutputFormat(family="generic", think_tags=tags, has_begun=True)
        reader = parser(fmt)
        pieces = [*reader.feed(text[:cut]), *reader.feed(text[cut:])]
        pieces += reader.finish(truncated=False)
        assert all(isinstance(piece, ContentPiece) for piece in pieces)
        assert "".join(piece.text for piece in pieces).strip() == text.strip()
