"""From bodies to requests: every field, every limit, every refusal."""

from dataclasses import replace

import pytest
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsBase as ChatParams,
)
from openai.types.completion_create_params import (
    CompletionCreateParamsBase as TextParams,
)

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.types import SamplingParams, TextInput
from kinetic.web.fields.sampling import ModelFacts
from kinetic.web.openai.fields import ACCEPTED, CHAT, COMPLETIONS, REFUSED
from kinetic.web.openai.schema import Arrival, read_chat, read_completion, read_prompts

FACTS = ModelFacts(
    n_tokens=1000,
    tokenize=lambda text: [ord(c) % 1000 for c in text],
    detokenize=lambda ids: bytes(ids),
    piece=lambda token: bytes([token]),
    sampling=SamplingParams(temperature=0.3),
    n_slots=4,
)
ARRIVAL = Arrival(request_id="chatcmpl-1", arrived_s=12.5)
MESSAGES = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f"}}
GRAMMAR = 'root ::= "a"'
INT32_MAX = 2**31 - 1


def chat(**fields):
    return read_chat({"messages": MESSAGES, **fields}, FACTS, ARRIVAL)


def completion(**fields):
    return read_completion({"prompt": "x", **fields}, FACTS, ARRIVAL)


def refusal(route, **fields):
    with pytest.raises(RequestError) as refused:
        route(**fields)
    return refused.value


BOTH = pytest.mark.parametrize("route", [chat, completion])


@BOTH
def test_a_plain_request_has_the_models_defaults(route):
    asked = route()
    request = asked.request
    assert not asked.stream
    assert request.request_id == "chatcmpl-1"
    assert request.arrived_s == 12.5
    assert request.sampling.temperature == 0.3
    assert (request.n, request.max_tokens, request.stops) == (1, None, ())
    assert request.n_logprobs is None
    assert request.constraint is None


@BOTH
@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ({}, None),
        ({"max_tokens": None}, None),
        ({"max_tokens": 0}, 0),
        ({"max_tokens": 1}, 1),
        ({"max_tokens": 10**9}, 10**9),
        ({"max_tokens": 10**20}, INT32_MAX),
        ({"max_completion_tokens": 7}, 7),
        ({"max_completion_tokens": 7, "max_tokens": 7}, 7),
        ({"max_completion_tokens": 7, "max_tokens": None}, 7),
        ({"n_predict": 7}, 7),
        ({"n_predict": -1}, INT32_MAX),
        ({"n_predict": 7, "max_tokens": 7}, 7),
    ],
)
def test_token_limits_are_read_in_every_spelling(route, fields, most):
    assert route(**fields).request.max_tokens == most


@BOTH
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 2.5}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"max_completion_tokens": 7, "max_tokens": 8}, "max_completion_tokens"),
        ({"n_predict": -2}, "n_predict"),
        ({"n_predict": 7, "max_tokens": 8}, "n_predict"),
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
        ({"n": 1000}, "n"),
        ({"n": "2"}, "n"),
        ({"stop": [""]}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stop": ["x", ""]}, "stop"),
        ({"stop": [1]}, "stop"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"stream": "true"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": False, "stream_options": {}}, "stream_options"),
        ({"stream": True, "stream_options": 5}, "stream_options"),
        (
            {"stream": True, "stream_options": {"include_usage": "yes"}},
            "stream_options.include_usage",
        ),
        (
            {"stream": True, "stream_options": {"continuous_usage_stats": True}},
            "stream_options.continuous_usage_stats",
        ),
        ({"temperature": "0.7"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 1.0001}, "top_p"),
        ({"seed": 2**32}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"seed": "7"}, "seed"),
        ({"logit_bias": {"1000": 1}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {"15": None}}, "logit_bias"),
        ({"id_slot": 4}, "id_slot"),
        ({"id_slot": -2}, "id_slot"),
        ({"ignore_eos": "yes"}, "ignore_eos"),
        ({"ignore_eos": True, "grammar": GRAMMAR}, "ignore_eos"),
        ({"grammar": 5}, "grammar"),
        ({"grammar": GRAMMAR, "response_format": {"type": "json_object"}}, "grammar"),
        (
            {"json_schema": {}, "response_format": {"type": "json_object"}},
            "json_schema",
        ),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "nope"}}, "response_format.type"),
        ({"json_schema": "{}"}, "json_schema"),
        ({"receipt": "yes"}, "receipt"),
    ],
)
def test_what_cannot_be_served_is_refused_and_named(route, fields, param):
    error = refusal(route, **fields)
    assert error.param == param
    assert param.split(".")[0] in str(error)


@BOTH
@pytest.mark.parametrize(
    ("most_ms", "seconds"), [(-1, None), (0, None), (1, 0.001), (2500, 2.5)]
)
def test_time_limits_are_in_milliseconds(route, most_ms, seconds):
    request = route(t_max_predict_ms=most_ms).request
    assert request.stop_at_newline_after_s == seconds


@BOTH
def test_stream_options_ask_for_usage(route):
    assert route(stream=True, stream_options={"include_usage": True}).include_usage
    for options in (None, {}, {"include_usage": False}, {"include_usage": None}):
        asked = route(stream=True, stream_options=options)
        assert asked.stream
        assert not asked.include_usage
    assert not route(stream=False, stream_options=None).include_usage


@BOTH
def test_all_sampling_fields_reach_the_request(route):
    given = {
        "temperature": 1.5,
        "top_k": -1,
        "top_p": 0.5,
        "min_p": 0.1,
        "typical_p": 0.9,
        "top_n_sigma": 2.0,
        "xtc_probability": 0.5,
        "xtc_threshold": 0.2,
        "repeat_last_n": 5,
        "repeat_penalty": 1.1,
        "presence_penalty": 1.0,
        "frequency_penalty": -1.0,
        "dry_multiplier": 0.8,
        "dry_base": 2.0,
        "dry_allowed_length": 3,
        "dry_penalty_last_n": 100,
        "mirostat": 2,
        "mirostat_tau": 4.0,
        "mirostat_eta": 0.2,
        "dynatemp_range": 0.5,
        "dynatemp_exponent": 2.0,
        "min_keep": 2,
        "seed": 7,
    }
    sampling = route(
        **given,
        dry_sequence_breakers=["\n"],
        samplers="kt",
        logit_bias={"15": -100},
    ).request.sampling
    assert {name: getattr(sampling, name) for name in given} == given
    assert sampling.dry_sequence_breakers == ("\n",)
    assert sampling.samplers == ("top_k", "temperature")
    assert sampling.logit_bias == ((15, float("-inf")),)


@BOTH
def test_llama_servers_ends_are_taken(route):
    request = route(
        t_max_predict_ms=1500, n_indent=4, ignore_eos=True, id_slot=3
    ).request
    assert request.stop_at_newline_after_s == 1.5
    assert request.min_indent == 4
    assert request.ignore_eos
    assert request.slot_id == 3
    assert route(id_slot=-1, t_max_predict_ms=-1).request.slot_id is None


@BOTH
@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"grammar": GRAMMAR}, "gbnf"),
        ({"json_schema": {"type": "object"}}, "json_schema"),
        ({"response_format": {"type": "json_object"}}, "json_object"),
        ({"response_format": {"type": "json_schema", "schema": {}}}, "json_schema"),
        ({"response_format": {"type": "text"}, "grammar": GRAMMAR}, "gbnf"),
    ],
)
def test_constraints_are_read(route, fields, kind):
    constraint = route(**fields).request.constraint
    assert constraint is not None
    assert constraint.kind == kind


@BOTH
@pytest.mark.parametrize(
    "fields", [{"grammar": ""}, {"response_format": {"type": "text"}}]
)
def test_empty_constraints_are_none(route, fields):
    assert route(**fields).request.constraint is None


# --- Names --------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize("value", [5, "x", True, {"a": [1]}])
def test_fields_that_change_no_answer_are_taken_in_any_form(route, name, value):
    route(**{name: value})


def test_what_clients_send_by_habit_is_taken():
    chat(
        store=False,
        metadata={"trace": "1"},
        service_tier="auto",
        prompt_cache_key="k",
        prompt_cache_options={"mode": "implicit"},
        safety_identifier="s",
        user="u",
        verbosity="low",
        modalities=["text"],
        prediction={"type": "content", "content": "x = 1"},
        parallel_tool_calls=True,
        functions=[],
        function_call="none",
        stream=True,
        stream_options={"include_usage": True, "include_obfuscation": False},
        logprobs=False,
        top_logprobs=0,
        n=1,
        max_tokens=None,
        max_completion_tokens=None,
        reasoning_effort=None,
        seed=None,
        stop=None,
        tools=[],
        response_format={"type": "text"},
    )


def test_every_field_of_the_official_client_is_accounted_for():
    # In older releases of the client a name may be missing, which is no fault.
    for params, route in ((ChatParams, CHAT), (TextParams, COMPLETIONS)):
        known = {s for f in route for s in f.spellings}
        names = set(params.__annotations__)
        assert names <= known | set(ACCEPTED) | set(REFUSED)


@BOTH
@pytest.mark.parametrize(
    "name", ["foo", "x", "", "zzz", "extra_headers", "litellm_trace"]
)
def test_fields_that_nobody_knows_are_let_pass(route, name):
    route(**{name: [1]})


@BOTH
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("temprature", "temperature"),
        ("topP", "top_p"),
        ("maxTokens", "max_tokens"),
        ("stops", "stop"),
        ("Seed", "seed"),
        ("logitbias", "logit_bias"),
    ],
)
def test_near_misses_are_refused_with_the_right_name(route, name, meant):
    error = refusal(route, **{name: 1})
    assert error.param == name
    assert meant in str(error)


@BOTH
@pytest.mark.parametrize(("name", "refused"), REFUSED.items())
def test_fields_that_are_not_served_are_refused_when_they_ask_for_something(
    route, name, refused
):
    for value in (None, False, "", [], *refused.neutral):
        route(**{name: value})
    for value in ("please", {}) if refused.asks_empty else ("please",):
        error = refusal(route, **{name: value})
        assert isinstance(error, UnsupportedFeature)
        assert error.param == name
    if not refused.asks_empty:
        route(**{name: {}})


@pytest.mark.parametrize(
    "name", sorted({f.name for f in CHAT} - {f.name for f in COMPLETIONS})
)
def test_fields_of_the_chat_route_are_refused_for_completions(name):
    assert "/v1/chat/completions" in str(refusal(completion, **{name: "x"}))


@pytest.mark.parametrize("name", ["prompt", "echo"])
def test_fields_of_the_completions_route_are_refused_for_chat(name):
    assert "/v1/completions" in str(refusal(chat, **{name: "x"}))
    chat(**{name: None})


def test_no_name_stands_in_two_lists():
    known = {s for f in (*CHAT, *COMPLETIONS) for s in f.spellings}
    assert not known & set(ACCEPTED)
    assert not known & set(REFUSED)
    assert not set(ACCEPTED) & set(REFUSED)


# --- Chat ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({}, None),
        ({"logprobs": False}, None),
        ({"logprobs": None, "top_logprobs": None}, None),
        ({"logprobs": False, "top_logprobs": 0}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 0}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
    ],
)
def test_chat_log_probabilities_are_read(fields, count):
    assert chat(**fields).request.n_logprobs == count


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"top_logprobs": 5}, "top_logprobs"),
        ({"logprobs": 5}, "logprobs"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"tool_choice": "required"}, "tool_choice"),
        (
            {"tools": [TOOL], "tool_choice": "required", "grammar": GRAMMAR},
            "tool_choice",
        ),
        (
            {
                "tools": [TOOL],
                "tool_choice": "required",
                "response_format": {"type": "json_object"},
            },
            "tool_choice",
        ),
        ({"parallel_tool_calls": "yes"}, "parallel_tool_calls"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        (
            {"chat_template_kwargs": {"enable_thinking": "no"}},
            "chat_template_kwargs.enable_thinking",
        ),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
        ({"chat_template_kwargs": {"tools": []}}, "chat_template_kwargs.tools"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"reasoning_effort": 5}, "reasoning_effort"),
        ({"enable_thinking": "no"}, "enable_thinking"),
        ({"thinking": "maybe"}, "thinking"),
        ({"thinking": {}}, "thinking"),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 100}},
            "thinking.budget_tokens",
        ),
        ({"reasoning_format": "xml"}, "reasoning_format"),
    ],
)
def test_chat_fields_that_cannot_be_served_are_refused(fields, param):
    assert refusal(chat, **fields).param == param


def test_functions_are_tools_whose_calls_are_answered_in_the_old_form():
    function = {"name": "f"}
    asked = chat(functions=[function], function_call=function, parallel_tool_calls=True)
    assert asked.has_functions
    (inputs,) = asked.request.inputs
    assert inputs.tools == ({"type": "function", "function": function},)
    assert (inputs.tool_choice, inputs.function_name) == ("function", "f")
    assert not inputs.parallel_tool_calls
    assert not chat(tools=[TOOL]).has_functions


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_defaults_of_the_old_form_stand_beside_tools(choice):
    asked = chat(tools=[TOOL], tool_choice="none", functions=[], function_call=choice)
    assert not asked.has_functions


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"functions": [{"name": "f"}], "tools": [TOOL]}, "functions"),
        ({"functions": [{"name": "f"}], "tool_choice": "auto"}, "functions"),
        ({"function_call": {"name": "f"}, "tools": [TOOL]}, "function_call"),
        ({"function_call": {"name": "f"}}, "function_call"),
        (
            {
                "functions": [{"name": "f"}],
                "function_call": {"name": "f"},
                "grammar": GRAMMAR,
            },
            "function_call",
        ),
    ],
)
def test_the_old_form_is_named_where_it_is_wrong(fields, param):
    assert refusal(chat, **fields).param == param


@pytest.mark.parametrize(
    ("fields", "kwargs"),
    [
        ({}, {}),
        (
            {"chat_template_kwargs": {"enable_thinking": True, "x": [1]}},
            {"enable_thinking": True, "x": [1]},
        ),
        ({"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        (
            {"reasoning_effort": "none"},
            {"reasoning_effort": "none", "enable_thinking": False},
        ),
        ({"enable_thinking": False}, {"enable_thinking": False}),
        ({"thinking": {"type": "enabled"}}, {"enable_thinking": True}),
        ({"thinking": {"type": "disabled"}}, {"enable_thinking": False}),
        ({"thinking": True}, {"enable_thinking": True}),
        (
            {
                "reasoning_effort": "none",
                "chat_template_kwargs": {"enable_thinking": True},
            },
            {"reasoning_effort": "none", "enable_thinking": True},
        ),
    ],
)
def test_template_variables_are_gathered(fields, kwargs):
    assert chat(**fields).request.inputs[0].template_kwargs == kwargs


def test_tools_reach_the_request():
    inputs = chat(
        tools=[TOOL],
        tool_choice={"type": "function", "function": {"name": "f"}},
        parallel_tool_calls=True,
        reasoning_format="none",
    ).request.inputs[0]
    assert inputs.tool_choice == "function"
    assert inputs.function_name == "f"
    assert inputs.parallel_tool_calls
    assert not inputs.split_reasoning


def test_a_constraint_may_stand_beside_tools_that_are_not_forced():
    assert chat(
        tools=[TOOL], response_format={"type": "json_object"}
    ).request.constraint


# --- Completions --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "read"),
    [
        ("", ("",)),
        ("a", ("a",)),
        ([""], ("",)),
        (["a", ""], ("a", "")),
        ([1, 2], ((1, 2),)),
        ([[1], [2, 3]], ((1,), (2, 3))),
    ],
)
def test_prompts_are_read_in_every_form(prompt, read):
    assert read_prompts(prompt) == tuple(TextInput(prompt=p) for p in read)


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (None, "prompt"),
        ([], "prompt"),
        ([[]], "prompt[0]"),
        ([[1], []], "prompt[1]"),
        (["a", 5], "prompt[1]"),
        (["a", None], "prompt[1]"),
        ([1, "a"], "prompt[1]"),
        ([1, True], "prompt[1]"),
        ([True], "prompt[0]"),
        ([1.5], "prompt[0]"),
        ([[1], "a"], "prompt[1]"),
        ([[1, None]], "prompt[0][1]"),
        ([[[1]]], "prompt[0][0]"),
        ({"prompt_string": "a"}, "prompt"),
        (5, "prompt"),
        (["a"] * 65, "prompt"),
    ],
)
def test_prompts_that_cannot_be_served_are_refused_with_their_index(prompt, param):
    assert refusal(completion, prompt=prompt).param == param


def test_a_missing_prompt_is_refused():
    with pytest.raises(RequestError) as refused:
        read_completion({}, FACTS, ARRIVAL)
    assert refused.value.param == "prompt"


def test_too_many_choices_are_refused():
    assert completion(prompt=["a"] * 8, n=16).request.n == 16
    assert refusal(completion, prompt=["a"] * 9, n=16).param == "n"


def test_more_choices_than_the_line_ever_holds_are_refused():
    facts = replace(FACTS, n_at_once=6)
    body = {"messages": MESSAGES, "n": 6}
    assert read_chat(body, facts, ARRIVAL).request.n == 6
    with pytest.raises(RequestError) as refused:
        read_chat({**body, "n": 7}, facts, ARRIVAL)
    assert refused.value.param == "n"
    assert "at most 6" in str(refused.value)


@pytest.mark.parametrize(("value", "count"), [(None, None), (0, 0), (1, 1), (20, 20)])
def test_text_log_probabilities_are_a_count(value, count):
    assert completion(logprobs=value).request.n_logprobs == count


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": -1}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"echo": "yes"}, "echo"),
        ({"best_of": 2}, "best_of"),
        ({"n": 2, "best_of": 3}, "best_of"),
        ({"n": 2, "best_of": 1}, "best_of"),
        ({"best_of": 0}, "best_of"),
        ({"suffix": "x"}, "suffix"),
    ],
)
def test_text_fields_that_cannot_be_served_are_refused(fields, param):
    assert refusal(completion, **fields).param == param


def test_echo_and_a_best_of_that_throws_nothing_away_are_taken():
    assert completion(echo=True, best_of=1, suffix=None).request.echo
    assert completion(n=2, best_of=2).request.n == 2
