"""From llama-server's bodies to requests: forms, ranges, aliases, refusals."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.types import DEFAULT_SAMPLERS, SamplingParams, TextInput
from kinetic.web.fields.sampling import ModelFacts
from kinetic.web.llama_server import schema
from kinetic.web.llama_server.fields import COMPLETION, REFUSED

FACTS = ModelFacts(
    n_tokens=1000,
    tokenize=lambda text: [ord(c) % 1000 for c in text],
    detokenize=bytes,
    piece=lambda token: bytes([token]),
    sampling=SamplingParams(temperature=0.3),
    n_slots=4,
    max_tokens=77,
)
INT32_MAX = 2**31 - 1


def read(**fields):
    body = {"prompt": "x", **fields}
    return schema.read_completion(body, FACTS, request_id="completion-1", arrived_s=2.5)


def sampling(**fields):
    return read(**fields).request.sampling


def refused(**fields):
    with pytest.raises(RequestError) as caught:
        read(**fields)
    return caught.value


def test_a_plain_request_has_the_servers_defaults():
    asked = read()
    request = asked.request
    assert (request.request_id, request.arrived_s) == ("completion-1", 2.5)
    assert request.inputs == (TextInput(prompt="x"),)
    assert (request.n, request.max_tokens, request.n_logprobs) == (1, 77, None)
    assert request.sampling.temperature == 0.3
    assert request.sampling.samplers == DEFAULT_SAMPLERS
    assert not asked.stream
    assert not asked.is_list
    assert not request.progress
    assert asked.ping_s == 30


@pytest.mark.parametrize("name", [s for field in COMPLETION for s in field.spellings])
def test_null_means_not_given(name):
    if name == "prompt":
        assert refused(prompt=None).param == "prompt"
    else:
        given, plain = read(**{"seed": 1, name: None}), read(seed=1)
        if name == "seed":
            # Drawn anew for each request.
            plain = replace(plain, request=given.request)
        assert given == plain


# --- Prompts ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "read_as"),
    [
        ("", [""]),
        ("text", ["text"]),
        ([1, 2], [(1, 2)]),
        ([1, "a", 2], [(1, "a", 2)]),
        (["a", 1], [("a", 1)]),
        (["a", "b"], ["a", "b"]),
        (["a"], ["a"]),
        ([[1, 2], [3]], [(1, 2), (3,)]),
        ([[1, 2], "a"], [(1, 2), "a"]),
        ([[]], [()]),
        ({"prompt_string": "a"}, ["a"]),
        ({"prompt_string": "a", "multimodal_data": []}, ["a"]),
        ([[1], {"prompt_string": ["a", 1]}], [(1,), ("a", 1)]),
    ],
)
def test_prompts_are_read_in_every_form(prompt, read_as):
    asked = read(prompt=prompt)
    assert [inputs.prompt for inputs in asked.request.inputs] == read_as
    assert asked.is_list == (len(read_as) > 1)


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (5, "prompt"),
        (True, "prompt"),
        ({}, "prompt"),
        ({"text": "a"}, "prompt"),
        ([], "prompt"),
        ([1, None], "prompt[1]"),
        ([1, True], "prompt[1]"),
        ([1, 2.5], "prompt[1]"),
        (["a", None], "prompt[1]"),
        ([["a"], [None]], "prompt[1][0]"),
        ({"prompt_string": 5}, "prompt.prompt_string"),
        (["a"] * 65, "prompt"),
    ],
)
def test_other_prompts_are_refused_with_their_place(prompt, param):
    error = refused(prompt=prompt)
    assert error.param == param
    assert param in str(error)


def test_a_missing_prompt_is_refused():
    with pytest.raises(RequestError, match="prompt is missing"):
        schema.read_completion({}, FACTS, request_id="r", arrived_s=0)


def test_images_are_refused_in_words():
    with pytest.raises(UnsupportedFeature, match="text only"):
        read(prompt={"prompt_string": "a", "multimodal_data": ["AAAA"]})


# --- Limits -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["n_predict", "max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize(
    ("value", "most"),
    [(-1, None), (0, 0), (1, 1), (8.0, 8), (10**9, 10**9), (10**20, INT32_MAX)],
)
def test_limits_are_read_in_all_spellings(name, value, most):
    assert read(**{name: value}).request.max_tokens == most


@pytest.mark.parametrize("value", [-2, 2.5, "5", True, [1]])
def test_limits_that_mean_nothing_are_refused(value):
    error = refused(n_predict=value)
    assert error.param == "n_predict"
    assert "-1" in str(error)


def test_spellings_that_disagree_are_refused():
    assert refused(n_predict=5, max_tokens=6).param == "max_tokens"
    assert read(n_predict=5, max_tokens=5).request.max_tokens == 5


@pytest.mark.parametrize("name", ["n", "n_cmpl"])
def test_answers_per_prompt_are_at_most_the_slots(name):
    assert read(**{name: 4}).request.n == 4
    assert read(**{name: 4}).is_list
    assert "4 slots" in str(refused(**{name: 5}))
    assert refused(**{name: 0}).param == name


def test_answers_of_one_request_are_bounded():
    prompts = ["x"] * 33
    assert "128 answers" in str(refused(prompt=prompts, n=4))
    assert len(read(prompt=prompts, n=3).request.inputs) == 33


def test_more_answers_than_the_line_ever_holds_are_refused(monkeypatch):
    monkeypatch.setitem(globals(), "FACTS", replace(FACTS, n_at_once=9))
    assert "at most 9 answers" in str(refused(prompt=["x"] * 10))
    assert len(read(prompt=["x"] * 9).request.inputs) == 9


@pytest.mark.parametrize(
    ("value", "slot"), [(-1, None), (0, 0), (3, 3), (4, 0), (7, 3)]
)
def test_slots_are_taken_modulo_their_number(value, slot):
    assert read(id_slot=value).request.slot_id == slot


@pytest.mark.parametrize(
    ("value", "seconds"), [(-1, None), (0, None), (1500, 1.5), (2**62, 2**62 / 1000)]
)
def test_time_limits_are_in_milliseconds(value, seconds):
    assert read(t_max_predict_ms=value).request.stop_at_newline_after_s == seconds


@pytest.mark.parametrize(("value", "ping_s"), [(-1, None), (0, None), (7, 7.0)])
def test_pings_can_be_set_and_switched_off(value, ping_s):
    assert read(sse_ping_interval=value).ping_s == ping_s


# --- Sampling -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "used"),
    [
        ("temperature", -1, 0),
        ("temperature", 0, 0),
        ("temperature", 2.5, 2.5),
        ("top_k", -5, 0),
        ("top_k", 10**12, INT32_MAX),
        ("top_p", 1.5, 1),
        ("top_p", -0.5, 0),
        ("min_p", 2, 1),
        ("xtc_probability", 3, 1),
        ("xtc_threshold", -3, 0),
        ("mirostat", 9, 2),
        ("mirostat", -9, 0),
        ("dry_base", 0.5, 1.75),
        ("dry_base", 2, 2),
    ],
)
def test_values_are_clipped_as_llama_server_clips_them(name, value, used):
    assert getattr(sampling(**{name: value}), name) == used


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_indent", -1),
        ("n_keep", -2),
        ("n_discard", -1),
        ("n_cache_reuse", -1),
        ("t_max_predict_ms", -2),
        ("sse_ping_interval", -2),
        ("repeat_last_n", -2),
        ("dry_allowed_length", -1),
        ("dry_penalty_last_n", -2),
        ("min_keep", -1),
        ("id_slot", -2),
        ("repeat_penalty", 0),
        ("repeat_penalty", -1),
        ("dry_sequence_breakers", []),
        ("dry_sequence_breakers", [""]),
        ("dry_sequence_breakers", ["e\0b"]),
        ("dry_sequence_breakers", ["é" * 21]),
        ("seed", -2),
        ("seed", 2**32),
        ("n_probs", 257),
        ("frequency_penalty", 1e300),
        ("temperature", "hot"),
        ("temperature", True),
        ("top_k", 1.5),
        ("stream", 1),
        ("ignore_eos", "yes"),
        ("stop", 5),
        ("stop", [5]),
        ("stop", [""]),
        ("stop", ["x"] * 129),
        ("response_fields", "content"),
        ("response_fields", [1]),
        ("samplers", 5),
        ("samplers", [5]),
        ("grammar", {}),
        ("json_schema", "x"),
        ("json_schema", [1]),
    ],
)
def test_values_out_of_range_are_refused_by_name(name, value):
    error = refused(**{name: value})
    assert error.param == name
    assert name in str(error)


@pytest.mark.parametrize("value", [-1, 2**32 - 1])
def test_a_fresh_seed_is_drawn_where_none_is_wanted(value):
    drawn = {sampling(seed=value).seed for _ in range(8)}
    assert len(drawn) > 1
    assert all(0 <= seed < 2**32 - 1 for seed in drawn)


def test_a_seed_is_kept():
    assert sampling(seed=7).seed == 7


def test_older_clients_windows_of_the_whole_context_are_taken():
    params = sampling(repeat_last_n=-1, dry_penalty_last_n=-1)
    assert (params.repeat_last_n, params.dry_penalty_last_n) == (-1, -1)


@pytest.mark.parametrize(
    ("value", "read_as"),
    [
        (["top_k", "temperature"], ("top_k", "temperature")),
        (["top-k", "TEMP", "nucleus"], ("top_k", "temperature", "top_p")),
        (["topk", "minp", "typ"], ("top_k", "min_p", "typ_p")),
        ("edkypmxt", DEFAULT_SAMPLERS[:2] + DEFAULT_SAMPLERS[3:]),
        ("kk", ("top_k", "top_k")),
        (["tfs_z", "top_k"], ("top_k",)),
        ("?k", ("top_k",)),
        ([], ()),
        ("", ()),
    ],
)
def test_samplers_are_read_by_name_and_letter(value, read_as):
    assert sampling(samplers=value).samplers == read_as


@pytest.mark.parametrize("value", [["adaptive_p"], "a", ["infill"], "i"])
def test_samplers_that_are_not_served_are_refused(value):
    assert "not served" in str(refused(samplers=value))


@pytest.mark.parametrize(
    ("value", "biases"),
    [
        ({"15": -1.5}, ((15, -1.5),)),
        ([[15, -1.5]], ((15, -1.5),)),
        ([[15, False]], ((15, -math.inf),)),
        ({"15": False}, ((15, -math.inf),)),
        ({"ab": 2}, ((97, 2.0), (98, 2.0))),
        ([["a", -3]], ((97, -3.0),)),
        ({"15": -100}, ((15, -100.0),)),
        ({"15": 1000}, ((15, 1000.0),)),
        ({}, ()),
        ([], ()),
    ],
)
def test_biases_are_read_in_both_forms(value, biases):
    assert sampling(logit_bias=value).logit_bias == biases


@pytest.mark.parametrize(
    "value",
    [
        {"1000": 1},
        {"-1": 1},
        [[1000, 1]],
        {"15": None},
        {"15": True},
        {"15": 1e300},
        {"15": "x"},
        [[15]],
        [15],
        [[True, 1]],
        {"": 1},
        "x",
    ],
)
def test_other_biases_are_refused(value):
    assert refused(logit_bias=value).param == "logit_bias"


# --- What comes with the answer -----------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"n_probs": 0}, None),
        ({"n_probs": -1}, None),
        ({"n_probs": 3}, 3),
        ({"logprobs": 3}, 3),
        ({"logprobs": True}, 1),
        ({"logprobs": False}, None),
    ],
)
def test_probabilities_are_asked_for_by_number(fields, count):
    assert read(**fields).request.n_logprobs == count


def test_progress_is_told_to_streams_alone():
    assert not read(return_progress=True).request.progress
    assert read(return_progress=True, stream=True).request.progress
    assert read(timings_per_token=True, stream=True).request.progress


def test_what_settings_show_is_kept():
    asked = read(n_keep=5, n_discard=2, stream=True, stop="a", grammar="root ::= [a]")
    assert asked.request.stops == ("a",)
    assert asked.request.settings == {
        "n_keep": 5,
        "n_discard": 2,
        "stream": True,
        "grammar": "root ::= [a]",
        "timings_per_token": False,
    }


def test_a_wrong_stop_is_told_every_limit():
    assert str(refused(stop=5)) == (
        "stop must be a string or a list of at most 128 strings, each of 1 to 1024"
        " characters, not 5"
    )


def test_stops_are_read_once_each():
    assert read(stop=["a", "b", "a"]).request.stops == ("a", "b")
    assert read(stop=[]).request.stops == ()


# --- Shapes -------------------------------------------------------------------------


def test_a_grammar_and_a_schema_hold_the_answer():
    grammar = read(grammar="root ::= [a]").request.constraint
    assert (grammar.kind, grammar.source) == ("gbnf", "root ::= [a]")
    found = read(json_schema={"type": "array"}).request.constraint
    assert (found.kind, found.source) == ("json_schema", '{"type": "array"}')


def test_an_empty_schema_is_any_object():
    assert read(json_schema={}).request.constraint.source == '{"type": "object"}'


def test_an_empty_grammar_is_none_and_leaves_the_schema():
    assert read(grammar="").request.constraint is None
    assert read(grammar="", json_schema={}).request.constraint.kind == "json_schema"
    assert read(grammar=None, json_schema={}).request.constraint.kind == "json_schema"


def test_both_shapes_at_once_are_refused():
    assert "both given" in str(refused(grammar="root ::= [a]", json_schema={}))


def test_a_shape_needs_its_end():
    assert refused(grammar="root ::= [a]", ignore_eos=True).param == "ignore_eos"


# --- Other names --------------------------------------------------------------------


@pytest.mark.parametrize("name", REFUSED)
def test_fields_that_would_change_the_answer_are_refused(name):
    nothings: tuple[object, ...] = (None, False, "", [], {})
    for nothing in nothings:
        read(**{name: nothing})
    with pytest.raises(UnsupportedFeature) as caught:
        read(**{name: [1]})
    assert caught.value.param == name


def test_no_shape_of_another_api_is_asked_for_in_vain():
    error = refused(response_format={"type": "json_object"})
    assert (error.param, "use json_schema" in str(error)) == ("response_format", True)
    assert refused(format="json").param == "format"
    assert read(response_format={"type": "text"}).request.constraint is None


def test_unknown_names_are_let_pass_as_llama_server_does():
    assert read(model="any", api_key="", mystery={"a": 1}).request.n == 1


# --- Small endpoints ----------------------------------------------------------------


def test_tokenize_defaults_are_llama_servers():
    asked = schema.read_tokenize({"content": "a"})
    assert (asked.add_special, asked.parse_special, asked.with_pieces) == (0, 1, 0)
    assert schema.read_tokenize({}).content == ""
    assert schema.read_tokenize({"content": ["a", 1]}).content == ("a", 1)


@pytest.mark.parametrize("body", [{"content": 5}, {"content": [None]}])
def test_tokenize_refuses_what_is_no_text(body):
    with pytest.raises(RequestError, match="content"):
        schema.read_tokenize(body)


def test_detokenize_takes_ids_of_the_vocabulary():
    assert schema.read_detokenize({"tokens": [0, 999]}, FACTS) == (0, 999)
    assert schema.read_detokenize({}, FACTS) == ()


@pytest.mark.parametrize("tokens", ["a", [1000], [-1], ["a"], [True], [1.5]])
def test_detokenize_refuses_other_ids(tokens):
    with pytest.raises(RequestError, match="tokens"):
        schema.read_detokenize({"tokens": tokens}, FACTS)


@pytest.mark.parametrize("read", [schema.read_tokenize, schema.read_prompts])
def test_texts_among_ids_are_bounded(read):
    def given(n):
        mixed = [1, *["a"] * n]
        return {"content": mixed} if read is schema.read_tokenize else mixed

    assert read(given(schema.TEXTS_MAX))
    with pytest.raises(RequestError, match="holds 10001 texts; at most 10000") as error:
        read(given(schema.TEXTS_MAX + 1))
    assert error.value.param in {"content", "prompt"}


def test_ids_that_are_made_text_are_bounded():
    tokens = [0] * (schema.DETOKENIZED_MAX + 1)
    with pytest.raises(RequestError, match="2000001 ids; at most 2000000") as error:
        schema.read_detokenize({"tokens": tokens}, FACTS)
    assert error.value.param == "tokens"
