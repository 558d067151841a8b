import json
from typing import Any

import pytest

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.types import ChatInput, SamplingParams, TextInput
from kinetic.web.fields.readers import INT32_MAX
from kinetic.web.ollama.schema import Asking, read_chat, read_flag, read_generate
from tests.support.served import model_facts, model_info

USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def asking(facts=None, **info):
    return Asking(
        model="tiny",
        info=model_info(**info),
        facts=facts or model_facts(),
        request_id="r",
        arrived_s=1.0,
    )


def chat(facts=None, info=None, **body):
    return read_chat({"messages": [USER], **body}, asking(facts, **(info or {})))


def generate(facts=None, info=None, **body):
    return read_generate({"prompt": "Hi", **body}, asking(facts, **(info or {})))


def options(**given):
    return chat(options=given).request


def chat_input(asked):
    (inputs,) = asked.request.inputs
    assert isinstance(inputs, ChatInput)
    return inputs


# --- The plain case -----------------------------------------------------------------


def test_a_conversation_becomes_a_request_that_streams():
    asked = chat()
    assert asked.stream
    request = asked.request
    assert (request.request_id, request.arrived_s, request.n) == ("r", 1.0, 1)
    assert request.max_tokens is None
    assert request.constraint is None
    assert request.n_logprobs is None
    assert chat_input(asked) == ChatInput(
        messages=({"role": "user", "content": "Hi"},), parallel_tool_calls=True
    )


def test_generate_is_a_conversation_of_one_or_two_messages():
    assert chat_input(generate()).messages == (USER,)
    assert chat_input(generate(system="Be brief")).messages == (
        {"role": "system", "content": "Be brief"},
        USER,
    )


def test_a_raw_prompt_is_continued_as_it_is():
    assert generate(raw=True).request.inputs == (TextInput(prompt="Hi"),)
    assert generate(raw=False).request.inputs != (TextInput(prompt="Hi"),)


@pytest.mark.parametrize("read", [chat, generate])
@pytest.mark.parametrize(
    ("given", "streams"), [(None, True), (True, True), (False, False)]
)
def test_an_answer_streams_unless_told_not_to(read, given, streams):
    assert read(stream=given).stream is streams


@pytest.mark.parametrize("read", [chat, generate])
def test_unknown_fields_are_let_pass(read):
    assert read(width=5, _debug_render_only=False, typo=[]).request is not None


# --- Load and unload ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("keep_alive", "unloads"),
    [(None, False), (0, True), ("0", True), ("0s", True), ("5m", False), (-1, False)],
)
def test_nothing_to_say_loads_or_unloads(keep_alive, unloads):
    for asked in (
        read_chat({"messages": [], "keep_alive": keep_alive}, asking()),
        read_chat({"keep_alive": keep_alive}, asking()),
        read_generate({"prompt": "", "keep_alive": keep_alive}, asking()),
        read_generate({"keep_alive": keep_alive, "raw": True}, asking()),
    ):
        assert asked.request is None
        assert asked.unloads is unloads


def test_a_prompt_with_keep_alive_0_is_answered():
    assert generate(keep_alive=0).request is not None


@pytest.mark.parametrize("value", ["abc", "1d", [], {}, True])
def test_a_bad_keep_alive_is_refused(value):
    for read in (chat, generate):
        with pytest.raises(
            RequestError, match=r"^keep_alive must be a number of seconds"
        ):
            read(keep_alive=value)
    with pytest.raises(RequestError):
        read_generate({"keep_alive": value}, asking())


# --- Options ------------------------------------------------------------------------


def test_options_have_llama_servers_defaults_and_the_files():
    plain = options(seed=1).sampling
    assert plain == SamplingParams(seed=1)
    facts = model_facts(sampling=SamplingParams(temperature=0.6, top_k=20))
    asked = chat(facts, options={"seed": 1, "top_k": 5})
    assert asked.request.sampling == SamplingParams(temperature=0.6, top_k=5, seed=1)


def test_every_sampling_option_arrives():
    given: dict[str, Any] = {
        "temperature": 0.5,
        "top_k": 7,
        "top_p": 0.9,
        "min_p": 0.1,
        "typical_p": 0.8,
        "seed": 42,
        "repeat_penalty": 1.1,
        "repeat_last_n": -1,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "mirostat": 2,
        "mirostat_tau": 4,
        "mirostat_eta": 0.2,
        "xtc_probability": 0.3,
        "dry_multiplier": 0.8,
    }
    assert options(**given).sampling == SamplingParams(**given)


@pytest.mark.parametrize(
    ("given", "most"),
    [(5, 5), (0, 0), (-1, INT32_MAX), (-2, INT32_MAX), (10**12, INT32_MAX)],
)
def test_num_predict_is_the_limit_and_negative_is_none(given, most):
    assert options(num_predict=given).max_tokens == most


def test_the_servers_limit_holds_where_the_request_names_none():
    facts = model_facts(max_tokens=9)
    assert chat(facts).request.max_tokens == 9
    assert chat(facts, options={"num_predict": None}).request.max_tokens == 9
    assert chat(facts, options={"num_predict": -1}).request.max_tokens == INT32_MAX


@pytest.mark.parametrize(
    ("given", "stops"),
    [([], ()), (None, ()), ("x", ("x",)), (["a", "b", "a"], ("a", "b"))],
)
def test_stop_is_a_string_or_a_list_and_an_empty_list_is_none(given, stops):
    assert options(stop=given).stops == stops


def test_unknown_options_and_those_of_loading_change_nothing():
    plain = options(seed=1)
    given = options(
        seed=1, num_ctx=8192, num_gpu=-1, num_thread=4, num_batch=512, use_mmap=True,
        num_keep=4, main_gpu=0, draft_num_predict=4, tfs_z=1, penalize_newline="x", anything=[],
    )  # fmt: skip
    assert given == plain


def test_no_options_are_no_options():
    assert chat(options=None).request is not None
    assert chat(options={}).request is not None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"temperature": "0.7"},
            'options.temperature must be a number from 0 to 100, not "0.7"',
        ),
        ({"temperature": True}, "options.temperature must be"),
        ({"temperature": -1}, "options.temperature must be"),
        ({"top_k": 1.5}, "options.top_k must be a whole number"),
        ({"top_p": 1.0001}, "options.top_p must be"),
        ({"seed": "7"}, "options.seed must be"),
        ({"seed": 2**64}, "options.seed must be"),
        (
            {"num_predict": -3},
            "options.num_predict must be a whole number from -2 on, not -3",
        ),
        ({"num_predict": "5"}, "options.num_predict must be"),
        ({"num_ctx": "big"}, "options.num_ctx must be"),
        ({"num_gpu": "all"}, "options.num_gpu must be"),
        ({"use_mmap": 1}, "options.use_mmap must be true or false"),
        ({"mirostat": 3}, "options.mirostat must be 0, 1 or 2"),
        ({"stop": ""}, "options.stop must not be an empty string"),
        ({"stop": ["x", ""]}, "options.stop must hold no empty string"),
        ({"stop": [1]}, r"options.stop must hold strings, and \[0\] is 1"),
        ({"stop": ["x"] * 17}, "options.stop must hold 0 to 16 strings, not 17"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(given, text):
    for read in (chat, generate):
        with pytest.raises(RequestError, match=f"^{text}") as error:
            read(options=given)
        assert error.value.param == f"options.{next(iter(given))}"


@pytest.mark.parametrize("given", [[], "x", 5, True])
def test_options_that_are_no_object_are_refused(given):
    with pytest.raises(RequestError, match=r"^options must be an object"):
        chat(options=given)


# --- Format -------------------------------------------------------------------------


@pytest.mark.parametrize("read", [chat, generate])
def test_a_format_is_json_or_a_schema_or_none(read):
    assert read(format="").request.constraint is None
    assert read(format=None).request.constraint is None
    found = read(format="json").request.constraint
    assert (found.kind, found.param) == ("json_object", "format")
    found = read(format=SCHEMA).request.constraint
    assert (found.kind, found.param) == ("json_schema", "format")
    assert json.loads(found.source) == SCHEMA


def test_a_raw_prompt_can_be_held_to_a_format():
    assert generate(raw=True, format="json").request.constraint is not None


@pytest.mark.parametrize("given", ["yaml", 5, [], True, ["json"]])
def test_another_format_is_refused(given):
    with pytest.raises(
        RequestError, match=r'^format must be "json" or a JSON schema, not'
    ):
        chat(format=given)


# --- Thinking -----------------------------------------------------------------------

THINKS = {"knows_thinking": True}
LEVELS = {**THINKS, "template_caps": {"supports_reasoning_effort": True}}


@pytest.mark.parametrize(
    ("info", "think", "kwargs"),
    [
        ({}, None, {}),
        ({}, False, {}),
        (THINKS, None, {"enable_thinking": True}),
        (THINKS, True, {"enable_thinking": True}),
        (THINKS, False, {"enable_thinking": False}),
        (THINKS, "high", {"enable_thinking": True}),
        (LEVELS, None, {"enable_thinking": True}),
        (LEVELS, True, {"enable_thinking": True, "reasoning_effort": "medium"}),
        (LEVELS, "low", {"enable_thinking": True, "reasoning_effort": "low"}),
        (LEVELS, "max", {"enable_thinking": True, "reasoning_effort": "max"}),
        (
            {**LEVELS, "architecture": "gpt-oss"},
            "max",
            {"enable_thinking": True, "reasoning_effort": "high"},
        ),
        (LEVELS, False, {"enable_thinking": False}),
    ],
)
def test_think_sets_the_templates_variables(info, think, kwargs):
    for read in (chat, generate):
        assert chat_input(read(info=info, think=think)).template_kwargs == kwargs


@pytest.mark.parametrize("think", [True, "low"])
def test_a_model_that_cannot_think_is_not_asked_to(think):
    with pytest.raises(UnsupportedFeature, match=r'^"tiny" does not support thinking$'):
        chat(think=think)


@pytest.mark.parametrize("think", ["yes", "true", 1, [], {}])
def test_another_think_is_refused(think):
    with pytest.raises(RequestError, match=r'^think must be true, false, "low"'):
        chat(info=THINKS, think=think)


def test_think_and_format_go_together():
    asked = chat(info=THINKS, think=True, format=SCHEMA)
    assert chat_input(asked).template_kwargs == {"enable_thinking": True}
    assert asked.request.constraint is not None


# --- Messages and tools -------------------------------------------------------------


def test_messages_are_read_with_thinking_calls_and_results():
    call = {"function": {"index": 0, "name": "f", "arguments": {"a": 1}}}
    messages = [
        {"role": "System", "content": "Be brief", "images": []},
        {"role": "user", "content": "Go", "images": None},
        {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_name": "f", "content": "7"},
        {"role": "tool", "tool_call_id": "x", "content": "8"},
        {"role": "user"},
    ]
    read = chat_input(chat(messages=messages)).messages
    assert [m["role"] for m in read] == [
        "system", "user", "assistant", "tool", "tool", "user",
    ]  # fmt: skip
    assert read[2]["thinking"] == "hm"
    assert read[2]["tool_calls"][0]["function"] == {"name": "f", "arguments": {"a": 1}}
    assert read[3]["name"] == "f"
    assert read[4]["tool_call_id"] == "x"
    assert read[5]["content"] == ""
    assert not any("images" in m for m in read)


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ("x", "messages must be a list"),
        ({}, "messages must be a list"),
        (["x"], r"messages\[0\] must be an object"),
        ([{"content": "x"}], r"messages\[0\].role is missing"),
        ([USER, {"role": "robot", "content": "x"}], r"messages\[1\].role must be"),
        ([{"role": "user", "content": [{"type": "text", "text": "x"}]}], r"messages\[0\].content must be a string, not a list"),
        ([{"role": "user", "content": 5}], r"messages\[0\].content must be a string, not 5"),
        ([{"role": "assistant", "tool_calls": [{"function": {}}]}], r"messages\[0\].tool_calls\[0\].function.name"),
        ([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 5}}]}], r"messages\[0\].tool_calls\[0\].function.arguments"),
    ],
)  # fmt: skip
def test_a_wrong_message_is_refused_by_its_place(messages, text):
    with pytest.raises(RequestError, match=f"^{text}"):
        chat(messages=messages)


def test_tools_are_read_and_may_leave_their_type_out():
    bare = {"function": {"name": "now"}}
    tools = chat_input(chat(tools=[TOOL, bare])).tools
    assert [t["function"]["name"] for t in tools] == ["f", "now"]
    assert chat_input(chat(tools=[])).tools == ()
    assert chat_input(chat(tools=None)).tools == ()


@pytest.mark.parametrize(
    "tools",
    [
        "x",
        {},
        ["x"],
        [{"type": "function"}],
        [{"type": "web", "function": {"name": "f"}}],
        [{"function": {"name": ""}}],
    ],
)
def test_wrong_tools_are_refused(tools):
    with pytest.raises(RequestError, match=r"^tools"):
        chat(tools=tools)


# --- What is refused ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [("suffix", "end"), ("template", "{{ x }}"), ("context", [1, 2])],
)
def test_suffix_template_and_context_are_refused_once_they_say_something(field, value):
    for raw in (False, True):
        with pytest.raises(RequestError, match=f"^{field} is not supported: "):
            generate(**{field: value, "raw": raw})
    nothing: list[Any] = ["", [], None]
    for empty in nothing:
        assert generate(**{field: empty}).request is not None


@pytest.mark.parametrize("read", [chat, generate])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("grammar", 'root ::= "a"'),
        ("json_schema", SCHEMA),
        ("response_format", {"type": "json_object"}),
    ],
)
def test_no_shape_of_another_api_is_asked_for_in_vain(read, field, value):
    with pytest.raises(RequestError, match=f"^{field} is not supported: use format$"):
        read(**{field: value})
    for nothing in ("", {}, None, {"type": "text"}):
        assert read(**{field: nothing}).request is not None


def test_raw_goes_with_neither_system_nor_think():
    with pytest.raises(RequestError, match=r"^raw cannot be combined with system$"):
        generate(raw=True, system="x")
    with pytest.raises(RequestError, match=r"^raw cannot be combined with think$"):
        generate(raw=True, think=True, info=THINKS)
    assert generate(raw=True, think=False, system="").request is not None


def test_images_are_refused_where_none_are_read():
    with pytest.raises(
        UnsupportedFeature, match=r"^messages\[0\].images holds an image"
    ):
        chat(messages=[{**USER, "images": ["aGk="]}])
    with pytest.raises(UnsupportedFeature, match=r"^images holds an image"):
        generate(images=["aGk="])
    with pytest.raises(RequestError, match=r"^images must be a list"):
        generate(images="aGk=")
    assert generate(images=[]).request is not None


SEES = model_facts(has_vision=True)


def test_images_stand_before_a_messages_text():
    messages = [
        {"role": "user", "content": "Look", "images": ["aGk=", "aG8="]},
        {"role": "assistant", "content": "Yes"},
        {"role": "user", "content": "", "images": ["eA=="]},
        {"role": "user", "content": "No picture", "images": []},
    ]
    first, _, third, last = chat_input(chat(SEES, messages=messages)).messages
    assert first["content"] == [
        {"type": "image", "source": "aGk=", "where": "messages[0].images[0]"},
        {"type": "image", "source": "aG8=", "where": "messages[0].images[1]"},
        {"type": "text", "text": "Look"},
    ]
    assert third["content"] == [
        {"type": "image", "source": "eA==", "where": "messages[2].images[0]"}
    ]
    assert last["content"] == "No picture"
    assert not any("images" in message for message in (first, third, last))


def test_a_prompt_has_images_too():
    asked = generate(SEES, images=["aGk="], system="Be brief")
    system, user = chat_input(asked).messages
    assert system == {"role": "system", "content": "Be brief"}
    assert user["content"] == [
        {"type": "image", "source": "aGk=", "where": "images[0]"},
        {"type": "text", "text": "Hi"},
    ]
    with pytest.raises(RequestError, match=r"^raw cannot be combined with images$"):
        generate(SEES, images=["aGk="], raw=True)


@pytest.mark.parametrize("image", [None, 5, ["aGk="], {"url": "aGk="}])
def test_an_image_is_a_string(image):
    with pytest.raises(RequestError, match=r"must be a base64 string") as refused:
        chat(SEES, messages=[USER, {**USER, "images": ["aGk=", image]}])
    assert refused.value.param == "messages[1].images[1]"
    with pytest.raises(RequestError, match=r"must be a base64 string") as refused:
        generate(SEES, images=[image])
    assert refused.value.param == "images[0]"


@pytest.mark.parametrize("field", ["stream", "raw", "truncate", "shift", "logprobs"])
def test_switches_are_true_or_false(field):
    with pytest.raises(RequestError, match=f"^{field} must be true or false, not 1$"):
        generate(**{field: 1})


@pytest.mark.parametrize("field", ["prompt", "system"])
def test_texts_are_texts(field):
    with pytest.raises(RequestError, match=f"^{field} must be a string, not 5$"):
        generate(**{field: 5})


def test_log_probabilities_with_and_without_alternatives():
    assert chat(logprobs=True).request.n_logprobs == 0
    assert chat(logprobs=True, top_logprobs=20).request.n_logprobs == 20
    assert chat(logprobs=False, top_logprobs=0).request.n_logprobs is None
    with pytest.raises(RequestError, match=r"^top_logprobs must be"):
        chat(logprobs=True, top_logprobs=21)
    with pytest.raises(RequestError, match="which needs logprobs to be true"):
        chat(top_logprobs=5)


def test_show_takes_verbose_or_nothing():
    assert read_flag({"verbose": True}, "verbose", default=False) is True
    assert read_flag({"verbose": None}, "verbose", default=False) is False
    assert read_flag({}, "verbose", default=False) is False
    with pytest.raises(RequestError, match=r"^verbose must be"):
        read_flag({"verbose": "yes"}, "verbose", default=False)
