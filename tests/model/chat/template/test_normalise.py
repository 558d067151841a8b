"""Messages and tools in all the ways clients write them."""

from __future__ import annotations

import json

import pytest

from kinetic.model.chat.template.normalise import read_tools, read_turns, short_id


def says(role, content=None, **more):
    return {"role": role, "content": content, **more}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_thoughts_are_read_by_any_of_their_names(field):
    (turn,) = read_turns([says("assistant", "a", **{field: "Hm."})])
    assert turn.reasoning == "Hm."


def test_parts_are_joined_but_not_round_images():
    def text(words):
        return {"type": "text", "text": words}

    image = {"type": "image", "marker": "<i>"}
    content = [
        text("a"),
        text("b"),
        image,
        text("c"),
        image,
        image,
        text(""),
        text("d"),
    ]
    (turn,) = read_turns([says("user", content)], joiner="+")
    assert turn.text == "a+b<i>c<i><i>+d"
    assert [turn.text[start:end] for start, end in turn.images] == ["<i>"] * 3


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"a": "é"}, '{"a": "é"}'),
        ([1, 2], "[1, 2]"),
        (7, "7"),
        (True, "true"),
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "x"}], "x"),
    ],
)
def test_results_may_be_any_value(content, text):
    (turn,) = read_turns([says("tool", content)])
    assert turn.text == text


def test_arguments_keep_the_clients_text_beside_their_value():
    written = '{"b":1,\n"a":"x\ty"}'
    function = {"name": "f", "arguments": written}
    (turn,) = read_turns([says("assistant", tool_calls=[{"function": function}])])
    assert dict(turn.calls[0].arguments) == {"b": 1, "a": "x\ty"}
    assert turn.calls[0].source == written


@pytest.mark.parametrize("as_key", [False, True])
def test_half_a_surrogate_pair_in_arguments_is_replaced(as_key):
    written = r'{"\ud83d": 1}' if as_key else r'{"a": "text \ud83d"}'
    function = {"name": "f", "arguments": written}
    (turn,) = read_turns([says("assistant", tool_calls=[{"function": function}])])
    expected = {"\ufffd": 1} if as_key else {"a": "text \ufffd"}
    assert dict(turn.calls[0].arguments) == expected
    assert json.loads(turn.calls[0].source) == expected


def test_tools_have_the_three_keys_that_templates_read():
    schema = {"type": "object", "properties": {"a": {}}}
    tools = read_tools(
        [
            {
                "function": {
                    "strict": True,
                    "parameters": schema,
                    "name": "a",
                    "description": "d",
                }
            },
            {"function": {"name": "b", "parameters": {}}},
        ]
    )
    assert [list(tool["function"]) for tool in tools] == [
        ["name", "description", "parameters"]
    ] * 2
    assert tools[0]["function"] == {
        "name": "a",
        "description": "d",
        "parameters": schema,
    }
    assert tools[1]["function"]["parameters"] == {"type": "object", "properties": {}}


def test_short_ids_are_nine_letters_or_digits_and_always_the_same():
    ids = ["call_1", "call_2", "", "é", "x" * 500, "abc-12345", "\ud800"]
    made = [short_id(one) for one in ids]
    assert made == [short_id(one) for one in ids]
    assert len(set(made)) == len(ids)
    assert all(len(one) == 9 and one.isascii() and one.isalnum() for one in made)
    assert short_id("aB3dE6gH9") == "aB3dE6gH9"
