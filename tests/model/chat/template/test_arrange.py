"""Plans carried out on conversations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kinetic.model.chat.template.arrange import arrange
from kinetic.model.chat.template.fallback import write_calls, write_tools
from kinetic.model.chat.template.normalise import Call, read_tools, read_turns
from kinetic.model.chat.template.pairing import paired
from kinetic.model.chat.template.skeleton import shape_of, skeleton_of
from kinetic.model.chat.template.toolforms import completed_tools, simplified_tools
from kinetic.model.chat.template.treatment import Marks, Treatment, stricter_treatments
from kinetic.model.chat.thinking import open_block_in_answer, tags_in

MARKS = Marks(splice="\ufdd1", end="\ufdd2")
TOOLS = read_tools([{"function": {"name": "f"}}])


def says(role, content=None, **more):
    return {"role": role, "content": content, **more}


def call(name, call_id=None, **arguments):
    return {"id": call_id, "function": {"name": name, "arguments": arguments}}


def arranged(messages, tools=(), **treatment):
    return arrange(paired(read_turns(messages)), tools, Treatment(**treatment), MARKS)


def roles(messages, **treatment):
    return [
        (message["role"], message["content"])
        for message in arranged(messages, **treatment).messages
    ]


S, U, A = says("system", "s"), says("user", "u"), says("assistant", "a")
CALLED = [
    says("user", "u"),
    says("assistant", "t", tool_calls=[call("f", "1", x=1), call("g", "2")]),
    says("tool", "r2", tool_call_id="2"),
    says("tool", "r1", tool_call_id="1"),
]


def test_a_plain_plan_changes_nothing():
    assert roles([S, U, A, U]) == [
        ("system", "s"),
        ("user", "u"),
        ("assistant", "a"),
        ("user", "u"),
    ]


def test_neighbours_are_merged():
    assert roles([S, S, U, U, A, A, U], merges=True) == [
        ("system", "s\n\ns"),
        ("user", "u\n\nu"),
        ("assistant", "a\n\na"),
        ("user", "u"),
    ]


def test_results_and_calls_are_not_merged():
    assert [role for role, _ in roles([*CALLED, A], merges=True)] == [
        *("user", "assistant", "tool", "tool", "assistant")
    ]


def test_later_system_messages_become_the_users():
    treatment = {"merges": True, "moves_later_systems": True}
    assert roles([S, U, S, U, A, S], **treatment) == [
        ("system", "s"),
        ("user", "u\n\ns\nu"),
        ("assistant", "a"),
        ("user", "s"),
    ]


def test_every_system_message_becomes_the_users():
    assert roles([S, U, A], moves_systems=True) == [
        ("user", "s\nu"),
        ("assistant", "a"),
    ]
    assert roles([S, A], moves_systems=True) == [("user", "s"), ("assistant", "a")]


def test_a_user_comes_first():
    assert roles([S, A], begins_with_user=True)[1] == ("user", "")
    assert roles([S], begins_with_user=True) == [("system", "s")]
    assert roles([U, A], begins_with_user=True) == [("user", "u"), ("assistant", "a")]


def test_empty_answers_are_left_out():
    assert roles([U, says("assistant", ""), U], drops_empty=True) == [("user", "u")] * 2


def test_answers_are_put_between_users_round_a_call():
    filled = roles([*CALLED, U, A, U], filler="-")
    assert [role for role, _ in filled] == [
        *("user", "assistant", "tool", "tool", "assistant", "user", "assistant", "user")
    ]
    assert filled[4] == ("assistant", "-")


def test_several_calls_become_call_and_result_by_turns():
    messages = arranged(CALLED, is_one_call=True).messages
    found = [
        [one["function"]["name"] for one in message["tool_calls"]]
        if "tool_calls" in message
        else message["content"]
        for message in messages
    ]
    assert found == ["u", ["f"], "r1", ["g"], "r2"]


def test_text_beside_calls_becomes_a_message_of_its_own():
    messages = arranged(CALLED, text_beside_calls="split").messages
    assert messages[1] == {"role": "assistant", "content": "t"}
    assert messages[2]["content"] == ""
    assert len(messages[2]["tool_calls"]) == 2


def test_text_beside_calls_is_kept_for_splicing():
    made = arranged(CALLED, text_beside_calls="spliced", family="hermes")
    (mark,) = made.splices
    assert made.splices[mark] == "t\n"
    assert made.messages[1]["content"] == ""
    names = [one["function"]["name"] for one in made.messages[1]["tool_calls"]]
    assert names == [f"{mark}f", "g"]


def test_arguments_content_and_ids_take_the_wanted_form():
    messages = arranged(
        [says("assistant", tool_calls=[call("f", "a-very-long-id", x=1)])],
        has_text_arguments=True,
        has_null_content=True,
        has_short_ids=True,
    ).messages
    (one,) = messages[0]["tool_calls"]
    assert messages[0]["content"] is None
    assert one["function"]["arguments"] == '{"x": 1}'
    assert len(one["id"]) == 9


def test_thoughts_are_fields_or_a_part():
    thought = [says("assistant", "a", reasoning_content="Hm.")]
    fields = arranged(thought).messages[0]
    assert (fields["reasoning_content"], fields["thinking"]) == ("Hm.", "Hm.")
    assert "thinking" not in arranged([A]).messages[0]
    assert arranged(thought, has_reasoning_part=True).messages[0]["content"] == [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "a"},
    ]


@pytest.mark.parametrize(
    ("text", "response"),
    [('{"a": 1e3}', {"a": 1000.0}), ("[1e999]", "[1e999]"), ("NaN", "NaN")],
)
def test_an_embedded_result_is_its_value_where_that_can_be_kept(text, response):
    result = says("tool", text, tool_call_id="1")
    called = [says("assistant", tool_calls=[call("f", "1")]), result]
    messages = arranged(called, embeds_results=True).messages
    assert messages[0]["tool_responses"] == [{"name": "f", "response": response}]


def test_results_are_embedded_with_the_answer_after_them():
    messages = arranged([*CALLED, A, U], embeds_results=True).messages
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"] == "ta"
    assert messages[1]["tool_responses"] == [
        {"name": "f", "response": "r1"},
        {"name": "g", "response": "r2"},
    ]


def test_everything_can_be_written_as_text():
    made = arranged(
        CALLED, TOOLS, writes_tools=True, writes_calls=True, writes_results=True
    )
    assert made.tools is None
    assert made.messages[0]["role"] == "system"
    assert '{"name": "f", "description": ""' in made.messages[0]["content"]
    assert made.messages[2]["content"] == (
        't\n{"name": "f", "arguments": {"x": 1}}\n{"name": "g", "arguments": {}}'
    )
    assert made.messages[3] == {"role": "user", "content": "Result of f:\nr1"}


def test_texts_are_trimmed_but_not_where_the_model_goes_on():
    turns = read_turns([says("user", " u "), says("assistant", " a ")])
    turns = (turns[0], replace(turns[1], is_prefill=True))
    messages = arrange(turns, (), Treatment(is_trimmed=True), MARKS).messages
    assert [one["content"] for one in messages] == ["u", f"a {MARKS.end}"]


CALLS = (
    Call(
        id="abcdefghi",
        name="f",
        arguments={"a": "x\n'y'", "b": None, "c": [1]},
        source="",
    ),
    Call(id="123456789", name="g", arguments={}, source=""),
)


@pytest.mark.parametrize(
    ("family", "form", "written"),
    [
        (
            "qwen3.5",
            None,
            (
                "<tool_call>\n<function=f>\n<parameter=a>\nx\n'y'\n</parameter>\n"
                "<parameter=b>\nnull\n</parameter>\n<parameter=c>\n[1]\n</parameter>\n"
                "</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>"
            ),
        ),
        (
            "hermes",
            None,
            (
                '<tool_call>\n{"name": "f", "arguments": {"a": "x\\n\'y\'", "b": null, "c": [1]}}\n'
                '</tool_call>\n<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
            ),
        ),
        (
            "lfm2",
            None,
            "<|tool_call_start|>[f(a=\"x\\n'y'\", b=None, c=[1]), g()]<|tool_call_end|>",
        ),
        (
            "llama3",
            None,
            (
                '{"name": "f", "parameters": {"a": "x\\n\'y\'", "b": null, "c": [1]}}; '
                '{"name": "g", "parameters": {}}'
            ),
        ),
        (
            "mistral",
            "list",
            (
                '[TOOL_CALLS][{"name": "f", "arguments": {"a": "x\\n\'y\'", "b": null,'
                ' "c": [1]}, "id": "abcdefghi"}, {"name": "g", "arguments": {},'
                ' "id": "123456789"}]'
            ),
        ),
        (
            "mistral",
            "args",
            '[TOOL_CALLS]f[ARGS]{"a": "x\\n\'y\'", "b": null, "c": [1]}[TOOL_CALLS]g[ARGS]{}',
        ),
        (
            "mistral",
            "call_id",
            (
                '[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{"a": "x\\n\'y\'", "b": null, "c": [1]}'
                "[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}"
            ),
        ),
        (
            "generic",
            None,
            (
                '{"name": "f", "arguments": {"a": "x\\n\'y\'", "b": null, "c": [1]}}\n'
                '{"name": "g", "arguments": {}}'
            ),
        ),
    ],
)
def test_calls_are_written_in_the_familys_form(family, form, written):
    assert write_calls(family, form, CALLS) == written


def test_the_hint_shows_the_form_that_is_read():
    text = write_tools("generic", None, TOOLS)
    assert "reply only with\n" in text
    assert '{"name": "the function\'s name", "arguments": {' in text
    assert "<tool_call>\n{" in write_tools("hermes", None, TOOLS)


def test_stricter_treatments_begin_with_the_one_itself():
    treatment = Treatment(family="hermes")
    without, with_tools = (
        list(stricter_treatments(treatment, has_tools=has_tools))
        for has_tools in (False, True)
    )
    assert without[0] == with_tools[0] == treatment
    assert with_tools[: len(without)] == without
    assert with_tools[-1].writes_tools
    assert with_tools[-1].moves_systems


def test_tools_are_completed_and_simplified():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": ["null", "integer"], "minimum": 1},
            "b": {"type": "array", "items": {"properties": {"c": {}}}},
            "d": {"$ref": "#/x"},
            "e": {"enum": [1, "x"], "description": "E"},
        },
    }
    tools = read_tools([{"function": {"name": "f", "parameters": schema}}])
    whole = completed_tools(tools)[0]["function"]["parameters"]
    assert whole["additionalProperties"] is True
    assert whole["required"] == []
    assert whole["properties"]["b"]["items"]["type"] == "object"
    assert whole["properties"]["a"] == {"type": ["null", "integer"], "minimum": 1}
    simple = simplified_tools(tools)[0]["function"]["parameters"]
    assert simple["properties"]["a"] == {"type": "integer", "description": ""}
    assert simple["properties"]["b"]["items"]["properties"]["c"]["type"] == "string"
    assert simple["properties"]["d"] == {"type": "string", "description": ""}
    assert simple["properties"]["e"]["enum"] == ["1", "x"]
    assert tools[0]["function"]["parameters"] == schema


def test_conversations_of_one_shape_share_a_digest():
    shapes = {
        name: shape_of(read_turns(messages))
        for name, messages in {
            "one": [U, A, U],
            "other texts": [says("user", "v"), A, U],
            "no text": [says("user", ""), A, U],
            "calls": CALLED,
            "other calls": [U, *CALLED[1:3], says("tool", "z", tool_call_id="1")],
            "other pairs": [
                *CALLED[:2],
                says("tool", "x", tool_call_id="3"),
                CALLED[3],
            ],
        }.items()
    }
    assert shapes["one"] == shapes["other texts"] != shapes["no text"]
    assert shapes["calls"] == shapes["other calls"] != shapes["other pairs"]


def test_a_skeleton_has_a_word_for_every_text_name_and_value():
    skeleton = skeleton_of(read_turns(CALLED))
    assert [origin for _, origin in skeleton.words] == [0, 1, 1, 1, 1, 1, 2, 3]
    assert len({word for word, _ in skeleton.words}) == 8
    assert [turn.role for turn in skeleton.turns] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]
    assert [turn.call_id for turn in skeleton.turns[2:]] == ["2", "1"]


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("a<think>\n", ("<think>", "</think>")),
        ("a</think>b", ("<think>", "</think>")),
        ("<|x|></seed:think><think>", ("<seed:think>", "</seed:think>")),
        ("[/THINK] <think>", ("[THINK]", "[/THINK]")),
        ("<|think|> <rethink> think", None),
    ],
)
def test_tags_are_found_in_texts(text, tags):
    assert tags_in(text) == tags


@pytest.mark.parametrize(
    ("head", "answer", "is_open"),
    [
        ("<think>\n", "a", True),
        ("<think>\n", "a</think>b", False),
        ("<think>\n</think>", "a", False),
        ("x", "<think>a", True),
        ("x", " <think>a", True),
        ("x", "<think>a<think>b", True),
        ("x", "<think>a</think>b<think>c", False),
        ("x", "a <think> b", False),
        ("x", "a\n<think>\n", False),
        ("<think>\n", "a</think>b <think> c", False),
        ("x", "a", False),
    ],
)
def test_an_answers_beginning_tells_whether_its_block_is_open(head, answer, is_open):
    opened = open_block_in_answer(head, answer, ("<think>", "</think>"))
    assert (opened == "<think>") is is_open
    assert open_block_in_answer(head, answer, None) is None
