"""Messages and tools in all the ways clients write them."""

from __future__ import annotations

import json

import pytest

from kinetic.model.chat.normalise import read_tools, read_turns, short_id


def says(role, content=None, **more):
    return {"role": role, "content": content, **more}


def call(name="f", **more):
    return {"function": {"name": name, "arguments": {}}, **more}


def test_missing_ids_are_numbered_by_place_and_pair_up():
    turns = read_turns(
        [
            says(
                "assistant",
                tool_calls=[call("a"), call("b", id=None), call("c", id="")],
            ),
            says("tool", "1"),
            says("tool", "2", tool_call_id=None),
            says("tool", "3"),
        ]
    )
    assert [one.id for one in turns[0].calls] == ["call00001", "call00002", "call00003"]
    assert [turn.call_id for turn in turns[1:]] == [
        "call00001",
        "call00002",
        "call00003",
    ]
    assert [turn.name for turn in turns[1:]] == ["a", "b", "c"]


def test_made_up_ids_are_none_that_the_client_uses():
    turns = read_turns(
        [
            says("assistant", tool_calls=[call(), call(id="call00001")]),
            says("tool", "x"),
        ]
    )
    assert [one.id for one in turns[0].calls] == ["call00002", "call00001"]


def test_a_result_without_an_id_is_paired_by_name():
    turns = read_turns(
        [
            says("assistant", tool_calls=[call("a", id="1"), call("b", id="2")]),
            says("tool", "x", name="b"),
            says("tool", "y"),
        ]
    )
    assert [(turn.call_id, turn.name) for turn in turns[1:]] == [("2", "b"), ("1", "a")]


def test_a_result_of_an_unknown_call_keeps_its_id_and_name():
    turns = read_turns(
        [says("tool", "x", tool_call_id="z", name="n"), says("tool", "y")]
    )
    assert [(turn.call_id, turn.name) for turn in turns] == [
        ("z", "n"),
        ("call00001", None),
    ]


def test_an_id_used_in_every_round_names_the_latest_open_call():
    rounds = [
        says("assistant", tool_calls=[call("a", id="0")]),
        says("tool", "x", tool_call_id="0"),
    ]
    again = [
        says("assistant", tool_calls=[call("b", id="0")]),
        says("tool", "y", tool_call_id="0"),
    ]
    turns = read_turns([*rounds, *again])
    assert [turn.name for turn in turns if turn.role == "tool"] == ["a", "b"]


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
