"""Every message of a conversation is printed, by every template."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kinetic.model.chat.template.template import ChatTemplate, TemplateError
from tests.model.chat.conftest import NOW

LONG_ID = "call_0f3a9c7e5b1d4862"


def says(role, content, **more):
    return {"role": role, "content": content, **more}


def calls(*pairs, content=None, **more):
    listed = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": f"wname{key}", "arguments": arguments},
        }
        for call_id, key, arguments in pairs
    ]
    return says("assistant", content, tool_calls=listed, **more)


SYSTEM = says("system", "wsystem")
USER = says("user", "wuser")
LAST = says("user", "wlast")
ANSWER = says("assistant", "wanswer")
CALL = calls((LONG_ID, "one", '{"wkeyone": "wvalueone"}'))
TWO_CALLS = calls(
    (LONG_ID, "one", {"wkeyone": "wvalueone"}),
    ("2", "two", '{"wkeytwo": {"wdeep": ["wvaluetwo"]}}'),
    content="",
)
RESULT = says("tool", "wresultone", tool_call_id=LONG_ID)
SECOND = says("tool", [{"type": "text", "text": "wresulttwo"}], tool_call_id="2")
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "wtool",
            "description": "wdescription",
            "parameters": {
                "type": "object",
                "properties": {
                    "flag": {"type": ["boolean", "null"]},
                    "list": {"type": "array", "items": {"type": "integer"}},
                    "any": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/x"}]},
                },
                "$defs": {"x": {"enum": [1, 2]}},
            },
            "strict": None,
        },
    },
    {"type": "function", "function": {"name": "wbare"}},
    {
        "type": "function",
        "function": {"name": "wnull", "description": None, "parameters": None},
    },
]

PLAIN_SHAPES = {
    "user": [USER],
    "system and user": [SYSTEM, USER],
    "several turns": [SYSTEM, USER, ANSWER, LAST],
    "only a system message": [SYSTEM],
    "developer": [says("developer", "wdeveloper"), USER],
    "system and developer": [SYSTEM, says("developer", "wdeveloper"), USER],
    "system after user": [USER, SYSTEM, LAST],
    "system after answer": [USER, ANSWER, SYSTEM, LAST],
    "system before answer": [USER, SYSTEM, ANSWER, LAST],
    "system last": [USER, SYSTEM],
    "two users": [USER, LAST],
    "two answers": [USER, ANSWER, says("assistant", "wsecond"), LAST],
    "answer first": [ANSWER, LAST],
    "system and answer first": [SYSTEM, ANSWER, LAST],
    "null answer": [USER, says("assistant", None), LAST],
    "answer without content": [USER, {"role": "assistant"}, LAST],
    "empty texts": [says("system", ""), says("user", ""), says("assistant", ""), LAST],
    "parts": [
        says("system", [{"type": "text", "text": "wsystem"}]),
        says("user", [{"type": "text", "text": f"wpart{n}"} for n in range(3)]),
        says("assistant", [{"type": "text", "text": "wanswer"}]),
        says("user", [{"type": "text", "text": "wlast"}]),
    ],
    "no parts": [USER, says("assistant", []), says("user", []), LAST],
    "empty call lists": [
        USER,
        says("assistant", "wanswer", tool_calls=[]),
        LAST,
        says("assistant", "wsecond", tool_calls=None),
        says("user", "wthird"),
    ],
    "names": [
        says("user", "wuser", name="Ann"),
        ANSWER,
        says("user", "wlast", name="B"),
    ],
    "thoughts": [USER, says("assistant", "wanswer", reasoning_content="Hm."), LAST],
}
TOOL_SHAPES = {
    "tools only": [SYSTEM, USER],
    "call and result": [USER, CALL, RESULT],
    "call, result, answer": [SYSTEM, USER, CALL, RESULT, ANSWER, LAST],
    "user after a result": [USER, CALL, RESULT, LAST],
    "two calls": [SYSTEM, USER, TWO_CALLS, RESULT, SECOND],
    "two calls, answer": [USER, TWO_CALLS, RESULT, SECOND, ANSWER, LAST],
    "results in another order": [USER, TWO_CALLS, SECOND, RESULT, ANSWER, LAST],
    "text beside a call": [USER, {**CALL, "content": "wbeside"}, RESULT],
    "text beside two calls": [
        SYSTEM,
        USER,
        {**TWO_CALLS, "content": "wbeside"},
        RESULT,
        SECOND,
        ANSWER,
        LAST,
    ],
    "call after call": [
        USER,
        CALL,
        RESULT,
        calls(("2", "two", {"wkeytwo": "wvaluetwo"})),
        SECOND,
        ANSWER,
        LAST,
    ],
    "thoughts, text, call": [
        USER,
        {**CALL, "content": "wbeside", "reasoning_content": "Hm."},
        RESULT,
        ANSWER,
        LAST,
    ],
    "result without a call": [USER, RESULT, LAST],
    "call without a result": [USER, CALL, LAST],
    "call last": [USER, CALL],
    "no ids": [
        USER,
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "function": {
                        "name": "wnameone",
                        "arguments": {"wkeyone": "wvalueone"},
                    }
                }
            ],
        },
        says("tool", "wresultone"),
        LAST,
    ],
    "null result": [USER, CALL, says("tool", None, tool_call_id=LONG_ID), LAST],
    "JSON results": [
        USER,
        CALL,
        says("tool", {"wfound": [1, None]}, tool_call_id=LONG_ID),
        ANSWER,
        LAST,
    ],
    "no arguments": [USER, calls(("1", "one", "")), says("tool", "wresultone"), LAST],
}


def words(value):
    return set(re.findall(r"\bw[a-z]+\d?\b", json.dumps(value)))


@pytest.mark.parametrize("shape", PLAIN_SHAPES)
def test_every_template_prints_every_text(render, template_names, shape):
    messages = PLAIN_SHAPES[shape]
    for name in template_names:
        text = render(name, messages).text
        lost = {word for word in words(messages) if word not in text}
        assert not lost, name


@pytest.mark.parametrize("shape", TOOL_SHAPES)
def test_every_template_prints_tools_calls_and_results(render, template_names, shape):
    messages = TOOL_SHAPES[shape]
    for name in template_names:
        text = render(name, messages, tools=TOOLS).text
        wanted = words(messages) | {"wtool", "wbare", "wnull"}
        lost = {word for word in wanted if word not in text}
        assert not lost, name


def test_calls_of_earlier_turns_are_printed_without_tools(render, template_names):
    messages = TOOL_SHAPES["call, result, answer"]
    for name in template_names:
        text = render(name, messages).text
        assert not {word for word in words(messages) if word not in text}, name


def test_text_stands_before_the_call_it_came_with(render, template_names):
    messages = TOOL_SHAPES["text beside two calls"]
    order = ("wbeside", "wnameone", "wresultone", "wanswer")
    for name in template_names:
        text = render(name, messages, tools=TOOLS).text
        places = [text.index(word) for word in order]
        assert places == sorted(places), name


def test_a_refused_system_message_goes_before_the_users_text(render):
    text = render("google-gemma-2-2b-it", [SYSTEM, USER]).text
    assert text == (
        "<BOS><start_of_turn>user\nwsystem\nwuser<end_of_turn>\n<start_of_turn>model\n"
    )


def test_neighbours_become_one_turn_where_turns_must_alternate(render):
    text = render("mistralai-Mistral-Nemo-Instruct-2407", [USER, LAST]).text
    assert text == "<BOS>[INST]wuser\n\nwlast[/INST]"


def test_neighbours_stay_apart_where_they_may(render):
    text = render("Qwen-Qwen3-0.6B", [USER, LAST]).text
    assert text.count("<|im_start|>user") == 2


def test_a_lone_system_message_is_asked_as_a_user(render):
    text = render("Qwen3.5-4B", [SYSTEM]).text
    assert text.startswith("<|im_start|>user\nwsystem<|im_end|>\n<|im_start|>assistant")


def test_a_template_that_takes_one_call_gets_call_and_result_by_turns(render):
    messages = TOOL_SHAPES["results in another order"]
    text = render("meta-llama-Llama-3.2-3B-Instruct", messages, tools=TOOLS).text
    places = [text.index(word) for word in ("wnameone", "wresultone", "wnametwo")]
    assert places == sorted(places)
    assert text.index("wresulttwo") > places[-1]


def test_a_template_that_drops_calls_gets_them_in_its_familys_form(render):
    messages = TOOL_SHAPES["text beside two calls"]
    text = render("LFM2.5-Instruct", messages, tools=TOOLS).text
    assert (
        'wbeside<|tool_call_start|>[wnameone(wkeyone="wvalueone"),'
        ' wnametwo(wkeytwo={"wdeep": ["wvaluetwo"]})]<|tool_call_end|>' in text
    )


def test_a_template_without_tools_gets_them_in_the_system_text(render):
    text = render(
        "microsoft-Phi-3.5-mini-instruct", [SYSTEM, USER, CALL, RESULT], tools=TOOLS
    ).text
    assert text.startswith("<|system|>\nwsystem\n\nYou can call these functions:\n")
    assert '\n{"name": "wbare", "description": "", "parameters"' in text
    assert (
        '<|assistant|>\n{"name": "wnameone", "arguments": {"wkeyone": "wvalueone"}}'
        "<|end|>\n<|user|>\nResult of wnameone:\nwresultone<|end|>\n<|assistant|>\n"
    ) in text


def test_the_same_text_as_a_text_and_as_one_part_gives_the_same_prompt(
    render, template_names
):
    for name in template_names:
        as_text = render(name, [says("system", " a "), says("user", " b\n")]).text
        as_part = render(
            name,
            [
                says("system", [{"type": "text", "text": " a "}]),
                says("user", [{"type": "text", "text": " b\n"}]),
            ],
        ).text
        assert as_part == as_text, name


def test_arguments_as_text_and_as_object_give_the_same_prompt(render, template_names):
    for name in template_names:
        prompts = {
            render(name, [USER, calls(("1", "one", form)), says("tool", "x")]).text
            for form in ({"a": 1.5, "b": None}, '{"a": 1.5, "b": null}')
        }
        assert len(prompts) == 1, name


@pytest.mark.parametrize("form", ["", "  ", "{}", {}, None])
def test_no_arguments_are_an_empty_object(render, form):
    text = render(
        "Qwen-Qwen3-0.6B", [USER, calls(("1", "one", form)), says("tool", "x")]
    )
    assert '{"name": "wnameone", "arguments": {}}' in text.text


UNKEPT = ('{"a": NaN}', '{"a": [-Infinity]}', '{"a": 1e999}', f'{{"a": {"9" * 5000}}}')


@pytest.mark.parametrize("form", ['{"a":', "[1", "nonsense", "'", *UNKEPT])
def test_broken_arguments_are_refused_by_place(render, form):
    messages = [USER, calls(("1", "one", "{}"), ("2", "two", form)), says("tool", "x")]
    where = r"^messages\[1\]\.tool_calls\[1\]\.function\.arguments is not valid JSON"
    with pytest.raises(TemplateError, match=where) as refused:
        render("Qwen-Qwen3-0.6B", messages)
    assert refused.value.param == "messages"


@pytest.mark.parametrize("form", ["[" * 9_999, "[" * 9_999 + "]" * 9_999])
def test_arguments_nested_too_deeply_are_refused_by_place(render, form):
    messages = [USER, calls(("1", "one", form)), says("tool", "x")]
    where = (
        r"^messages\[1\]\.tool_calls\[0\]\.function\.arguments is nested too deeply$"
    )
    with pytest.raises(TemplateError, match=where) as refused:
        render("Qwen-Qwen3-0.6B", messages)
    assert refused.value.param == "messages"


@pytest.mark.parametrize("form", ["[]", "7", '"text"', "true", [], 7])
def test_arguments_other_than_an_object_are_refused_by_place(render, form):
    with pytest.raises(TemplateError, match=r"arguments must be a JSON object$"):
        render("Qwen-Qwen3-0.6B", [USER, calls(("1", "one", form)), says("tool", "x")])


def test_ids_are_fitted_to_templates_that_demand_nine_characters(render):
    messages = TOOL_SHAPES["two calls"]
    text = render("Mistral-Small-3.2-24B-Instruct-2506", messages, tools=TOOLS).text
    made = re.findall(r"\[CALL_ID\]([0-9A-Za-z]{9})\[ARGS\]", text)
    answered = re.findall(r"\[TOOL_RESULTS\]([0-9A-Za-z]{9})\[TOOL_CONTENT\]", text)
    assert len(set(made)) == 2
    assert answered == made


def test_ids_stay_as_they_are_where_they_may(render):
    text = render("moonshotai-Kimi-K2", [USER, CALL, RESULT], tools=TOOLS).text
    assert f"Return of {LONG_ID}" in text


def test_a_longer_conversation_begins_with_the_shorter_ones_prompt(render):
    shorter = TOOL_SHAPES["no ids"]
    longer = [*shorter, calls((None, "two", "{}")), says("tool", "x"), LAST]
    name = "Mistral-Small-3.2-24B-Instruct-2506"
    # With tools, Mistral prints them before the last user message.
    assert render(name, longer).text.startswith(render(name, shorter).text)


def test_images_stand_once_where_they_were(render, template_names):
    marker = "<__image_7f__>"
    parts = [
        {"type": "text", "text": "wbefore"},
        {"type": "image", "marker": marker},
        {"type": "text", "text": "wafter"},
    ]
    for name in template_names:
        text = render(name, [SYSTEM, says("user", parts)]).text
        assert text.count(marker) == 1, name
        assert f"wbefore{marker}wafter" in text, name


@pytest.mark.parametrize(
    "part",
    [
        {"type": "audio", "text": "x"},
        {"type": "text"},
        {"type": "text", "text": 5},
        {"type": "image"},
        {"text": "x"},
        "x",
        None,
        {"type": ["text"], "text": "x"},
    ],
)
def test_other_parts_are_refused_by_place(render, part):
    content = [{"type": "text", "text": "x"}, part]
    with pytest.raises(TemplateError, match=r"^messages\[0\]\.content\[1\] must be"):
        render("Qwen-Qwen3-0.6B", [says("user", content)])


@pytest.mark.parametrize(
    ("messages", "refusal"),
    [
        ([], "messages must not be empty"),
        (["x"], r"messages\[0\] must be an object"),
        ([{"content": "x"}], r"messages\[0\]\.role must be a text"),
        ([says("", "x")], r"messages\[0\]\.role must be a text"),
        ([says("user", 5)], r"messages\[0\]\.content must be a text or a list"),
        (
            [USER, says("assistant", "", tool_calls=5)],
            r"messages\[1\]\.tool_calls must",
        ),
        (
            [USER, says("assistant", "", tool_calls=[5])],
            r"tool_calls\[0\] must be a call",
        ),
        (
            [USER, says("assistant", "", tool_calls=[{"function": {"name": ""}}])],
            r"messages\[1\]\.tool_calls\[0\] must be a call of a function with a name",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_by_place(render, messages, refusal):
    with pytest.raises(TemplateError, match=refusal):
        render("Qwen-Qwen3-0.6B", messages)


@pytest.mark.parametrize(
    ("tool", "refusal"),
    [
        (5, r"tools\[1\] must be a function with a name"),
        ({"type": "function"}, r"tools\[1\] must be a function with a name"),
        (
            {"function": {"name": "x", "parameters": [1]}},
            r"parameters must be a JSON Sch",
        ),
    ],
)
def test_a_tool_that_cannot_be_read_is_refused_by_place(render, tool, refusal):
    with pytest.raises(TemplateError, match=refusal) as refused:
        render("Qwen-Qwen3-0.6B", [USER], tools=[TOOLS[0], tool])
    assert refused.value.param == "tools"


def test_a_role_that_a_template_prints_is_let_through(render):
    text = render(ChatTemplate(None), [USER, says("critic", "wcritic")]).text
    assert "<|im_start|>critic\nwcritic<|im_end|>" in text


def test_a_role_that_a_template_does_not_print_is_refused_by_place(render):
    with pytest.raises(
        TemplateError, match=r"^messages\[1\]\.role 'critic' is not one"
    ):
        render("Qwen3.5-4B", [USER, says("critic", "wcritic"), LAST])


def test_legacy_function_messages_are_calls_and_results(render):
    messages = [
        USER,
        says("assistant", None, function_call={"name": "wnameone", "arguments": "{}"}),
        says("function", "wresultone", name="wnameone"),
    ]
    text = render("Qwen-Qwen3-0.6B", messages).text
    assert "<tool_call>" in text
    assert "<tool_response>\nwresultone\n</tool_response>" in text


def test_a_message_that_no_arrangement_prints_is_named(render):
    forgetful = ChatTemplate("{{ messages[-1].content }}")
    with pytest.raises(TemplateError, match=r"does not print all of messages\[0\]"):
        render(forgetful, [USER, ANSWER, LAST])


def test_a_template_that_takes_only_parts_gets_parts(render):
    only_parts = ChatTemplate(
        "{% for m in messages %}{{ m.role }}:{% for c in m.content %}"
        "{% if c.type == 'text' %}{{ c.text }}{% endif %}{% endfor %};{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    assert not only_parts.capabilities()["supports_string_content"]
    assert only_parts.capabilities()["supports_typed_content"]
    text = render(only_parts, [SYSTEM, USER, ANSWER, LAST]).text
    assert text == "system:wsystem;user:wuser;assistant:wanswer;user:wlast;assistant:"


CONVERSATIONS = st.lists(
    st.builds(
        lambda role, number, content: (role, f"w{content}{number}w"),
        st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
        st.integers(0, 99),
        st.sampled_from(["a", "b"]),
    ),
    min_size=1,
    max_size=7,
)


@pytest.mark.parametrize(
    "name",
    [
        "LFM2.5-8B-A1B",
        "Mistral-Small-3.2-24B-Instruct-2506",
        "Qwen3.5-4B",
        "google-gemma-2-2b-it",
        "meta-llama-Llama-3.1-8B-Instruct",
        "openai-gpt-oss-120b",
    ],
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CONVERSATIONS, st.booleans())
def test_any_order_of_roles_is_printed_whole(load, name, conversation, has_tools):
    messages = [says(role, text) for role, text in conversation]
    tools = TOOLS if has_tools else ()
    text = load(name).render(messages, tools=tools, now=NOW).text
    assert all(words in text for _, words in conversation)


HALF = r'{"wkey": "wvalue \ud83d"}'


def test_half_a_surrogate_pair_in_arguments_leaves_no_half(render, template_names):
    messages = [USER, calls((LONG_ID, "one", HALF)), RESULT, LAST]
    for name in template_names:
        text = render(name, messages, tools=TOOLS).text
        assert "wvalue" in text, name
        assert text.encode().decode() == text
        assert r"\ud83d" not in text, name


@pytest.mark.parametrize(
    "words",
    [
        "{% if '{' in t %}{{ (t | from_json).wkey }}{% endif %}",
        r"{{ 'wvalue \ud83d' }}",
        "{{ 'wvalue %c' | format(55357) }}",
    ],
)
def test_templates_print_no_half_of_a_surrogate_pair(words):
    template = ChatTemplate("{% set t = messages[0].content %}{{ t }}|" + words)
    rendered = template.render([says("user", HALF)], now=NOW)
    assert rendered.text == f"{HALF}|wvalue \ufffd"


def test_results_are_printed_in_the_order_of_the_calls(render, template_names):
    for name in template_names:
        given = [USER, TWO_CALLS, SECOND, RESULT, LAST]
        text = render(name, given, tools=TOOLS).text
        # One template prints them more than once.
        assert text.find("wresultone") < text.find("wresulttwo"), name
        right = [USER, TWO_CALLS, RESULT, SECOND, LAST]
        assert text == render(name, right, tools=TOOLS).text, name
