"""Messages of a chat request: their forms, and the place named where one is wrong."""

import pytest

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.web.openai.messages import read_messages

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def one(**message):
    return read_messages([message])[0]


@pytest.mark.parametrize(
    "role", ["system", "developer", "user", "assistant", "tool", "function"]
)
def test_every_role_takes_text(role):
    assert one(role=role, content="x") == {"role": role, "content": "x"}


def test_text_parts_are_kept_as_parts():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert one(role="user", content=parts)["content"] == parts


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "assistant", "content": "", "tool_calls": None},
        {"role": "assistant", "content": None},
        {
            "role": "assistant",
            "content": "x",
            "refusal": None,
            "audio": None,
            "function_call": None,
            "annotations": [],
        },
        {"role": "assistant", "content": None, "refusal": "no"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "18"},
        {"role": "tool", "content": "18"},
        {"role": "tool", "tool_call_id": None, "content": None},
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [{"type": "text", "text": "18"}],
        },
        {"role": "user", "content": []},
        {"role": "user", "content": "", "name": "Ann"},
        {
            "role": "assistant",
            "content": "x",
            "reasoning_content": "hm",
            "tool_calls": [{"function": {"name": "f"}}],
        },
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": None,
                    "type": None,
                    "function": {"name": "at.look", "arguments": {"a": 1}},
                }
            ],
        },
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "x", "index": 0, "function": {"name": "f", "arguments": None}}
            ],
        },
    ],
)
def test_forms_that_clients_send_are_taken(message):
    assert one(**message)["role"] == message["role"]


def test_a_refusal_stands_for_the_missing_content():
    assert one(role="assistant", content=None, refusal="no")["content"] == "no"


def test_keys_without_a_meaning_are_left_out():
    assert one(role="user", content="x", id="1", timestamp=5) == {
        "role": "user",
        "content": "x",
    }


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ("hello", "messages"),
        ({}, "messages"),
        (["hello"], "messages[0]"),
        ([None], "messages[0]"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": None, "content": "x"}], "messages[0].role"),
        ([{"role": "", "content": "x"}], "messages[0].role"),
        ([{"role": 5, "content": "x"}], "messages[0].role"),
        ([{"role": ["user"], "content": "x"}], "messages[0].role"),
        ([{"role": "Tool", "content": "x"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": None}], "messages[0].content"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": {"type": "text"}}], "messages[0].content"),
        ([{"role": "user", "content": ["x"]}], "messages[0].content[0]"),
        (
            [{"role": "user", "content": [{"type": "text"}]}],
            "messages[0].content[0].text",
        ),
        (
            [{"role": "user", "content": [{"type": "text", "text": 5}]}],
            "messages[0].content[0].text",
        ),
        ([{"role": "user", "content": [{"type": "video"}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": ["text"]}]}], "messages[0].content[0]"),
        (
            [
                {"role": "user", "content": "x"},
                {"role": "user", "content": "x", "name": 5},
            ],
            "messages[1].name",
        ),
        (
            [{"role": "user", "content": "x", "tool_calls": [CALL]}],
            "messages[0].tool_calls",
        ),
        ([{"role": "assistant", "tool_calls": {}}], "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [5]}], "messages[0].tool_calls[0]"),
        (
            [{"role": "assistant", "tool_calls": [{}]}],
            "messages[0].tool_calls[0].function",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {}}]}],
            "messages[0].tool_calls[0].function.name",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": ""}}]}],
            "messages[0].tool_calls[0].function.name",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "a b"}}]}],
            "messages[0].tool_calls[0].function.name",
        ),
        (
            [
                {
                    "role": "assistant",
                    "tool_calls": [{"type": "custom", "function": {"name": "f"}}],
                }
            ],
            "messages[0].tool_calls[0].type",
        ),
        (
            [
                {
                    "role": "assistant",
                    "tool_calls": [{"function": {"name": "f", "arguments": [1]}}],
                }
            ],
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": 5, "function": {"name": "f"}}],
                }
            ],
            "messages[0].tool_calls[0].id",
        ),
        (
            [{"role": "tool", "content": "x", "tool_call_id": 5}],
            "messages[0].tool_call_id",
        ),
        (
            [{"role": "assistant", "content": "x", "reasoning_content": 5}],
            "messages[0].reasoning_content",
        ),
        ([{"role": "user", "content": "x"}] * 10_001, "messages"),
    ],
)
def test_a_wrong_message_is_refused_with_its_place(messages, param):
    with pytest.raises(RequestError) as refused:
        read_messages(messages)
    assert refused.value.param == param
    assert str(refused.value).startswith(param)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            "no images",
        ),
        ({"type": "input_audio", "input_audio": {}}, "no audio"),
        ({"type": "file", "file": {}}, "no files"),
        ({"type": "video_url", "video_url": {}}, "no video"),
    ],
)
def test_media_that_the_model_does_not_read_are_refused_by_message_and_part(part, said):
    text = {"type": "text", "text": "x"}
    with pytest.raises(UnsupportedFeature) as refused:
        read_messages(
            [
                {"role": "user", "content": "a"},
                {"role": "user", "content": [text, part]},
            ]
        )
    assert refused.value.param == "messages[1].content[1]"
    assert said in str(refused.value)


def test_audio_is_refused():
    with pytest.raises(UnsupportedFeature) as refused:
        one(role="assistant", content="x", audio={"id": "a"})
    assert refused.value.param == "messages[0].audio"


OLD_CALL = {"name": "f", "arguments": '{"a": 1}'}


def test_a_call_in_the_old_form_is_read_as_any_other():
    found = one(role="assistant", content=None, function_call=OLD_CALL)
    assert found["tool_calls"] == [{"type": "function", "function": OLD_CALL}]
    assert "function_call" not in found


@pytest.mark.parametrize("nothing", [None, {}])
def test_no_call_in_the_old_form_is_none(nothing):
    found = one(role="assistant", content="x", function_call=nothing)
    assert "tool_calls" not in found


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"function_call": "f"}, "function_call"),
        ({"function_call": {"name": "a b"}}, "function_call.name"),
        ({"function_call": {"arguments": "{}"}}, "function_call.name"),
        ({"function_call": OLD_CALL | {"arguments": 5}}, "function_call.arguments"),
        (
            {"function_call": OLD_CALL, "tool_calls": [{"function": OLD_CALL}]},
            "function_call",
        ),
        ({"function_call": OLD_CALL, "role": "user"}, "function_call"),
    ],
)
def test_a_wrong_call_in_the_old_form_is_named(message, param):
    with pytest.raises(RequestError) as refused:
        one(**{"role": "assistant", "content": "x", **message})
    assert refused.value.param == f"messages[0].{param}"


@pytest.mark.parametrize("image_url", ["data:,x", {"url": "data:,x", "detail": "low"}])
@pytest.mark.parametrize("role", ["user", "system", "assistant", "tool"])
def test_an_image_is_kept_in_its_place_for_later(role, image_url):
    content = [
        {"type": "text", "text": "before"},
        {"type": "image_url", "image_url": image_url},
        {"type": "text", "text": "behind"},
    ]
    _, message = read_messages(
        [{"role": "user", "content": "x"}, {"role": role, "content": content}],
        has_vision=True,
    )
    where = "messages[1].content[1]"
    assert message["content"] == [
        {"type": "text", "text": "before"},
        {"type": "image", "source": "data:,x", "where": where},
        {"type": "text", "text": "behind"},
    ]


@pytest.mark.parametrize(
    ("image_url", "param"),
    [
        (None, "image_url"),
        (5, "image_url"),
        ([], "image_url"),
        ({}, "image_url.url"),
        ({"url": None}, "image_url.url"),
        ({"url": 5}, "image_url.url"),
    ],
)
def test_an_image_has_a_url(image_url, param):
    part = {"type": "image_url", "image_url": image_url}
    with pytest.raises(RequestError) as refused:
        read_messages([{"role": "user", "content": [part]}], has_vision=True)
    assert refused.value.param == f"messages[0].content[0].{param}"
    assert str(refused.value).startswith(f"messages[0].content[0].{param} must be")


@pytest.mark.parametrize("kind", ["image", "input_audio", "video_url", "file"])
def test_a_model_that_reads_images_reads_nothing_else(kind):
    part = {"type": kind, "source": "x", "where": "y", "marker": "z"}
    with pytest.raises(RequestError) as refused:
        read_messages([{"role": "user", "content": [part]}], has_vision=True)
    assert refused.value.param == "messages[0].content[0]"
