"""The table of fields, and reading bodies with it."""

import json
import math

import pytest
from hypothesis import given, strategies as st

from kinetic.errors import RequestError
from kinetic.model import defaults
from kinetic.types import DEFAULT_SAMPLERS, SamplingParams
from kinetic.web.fields import readers
from kinetic.web.fields.sampling import (
    DRAWING,
    MODEL_FILE,
    SAMPLING,
    ModelFacts,
    sampling_params,
)
from kinetic.web.fields.tables import Field, FieldReader, edit_distance, misspelt

READER = FieldReader.of((*SAMPLING, *DRAWING))


def facts(**changes):
    """A model of 100 tokens whose texts are one token a character."""
    known = {
        "n_tokens": 100,
        "tokenize": lambda text: [ord(c) % 100 for c in text.strip()],
        "detokenize": lambda ids: bytes(ids),
        "piece": lambda token: bytes([token]),
        "sampling": SamplingParams(),
    }
    return ModelFacts(**{**known, **changes})


def test_every_sampling_field_is_one_of_sampling_params():
    names = {field.name for field in (*SAMPLING, *DRAWING)} - {"ignore_eos"}
    assert names == set(SamplingParams.__dataclass_fields__)


def test_the_defaults_that_are_told_are_the_ones_that_are_used():
    recommended = {name for name, _ in defaults._FIELDS.values()} | {"samplers"}
    for field in SAMPLING:
        default = getattr(SamplingParams(), field.name)
        told = field.default.removeprefix(MODEL_FILE)
        assert (told != field.default) == (field.name in recommended), field.name
        if field.name == "samplers":
            assert (told, default) == ("llama.cpp's order", DEFAULT_SAMPLERS)
        elif field.name == "dry_sequence_breakers":
            assert tuple(json.loads(told.strip("`"))) == default
        else:
            assert float(told) == default, field.name


RANGES = {
    "temperature": (0, 100),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "typical_p": (0, 1),
    "top_n_sigma": (-1, 1000),
    "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1),
    "repeat_penalty": (0.01, 100),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "repeat_last_n": (-1, 2**31 - 1),
    "dry_multiplier": (0, 100),
    "dry_base": (1, 100),
    "dry_allowed_length": (0, 2**31 - 1),
    "dry_penalty_last_n": (-1, 2**31 - 1),
    "mirostat": (0, 2),
    "mirostat_tau": (0, 100),
    "mirostat_eta": (0, 1),
    "dynatemp_range": (0, 100),
    "dynatemp_exponent": (0, 100),
    "min_keep": (0, 2**31 - 1),
    "top_k": (-(2**31) + 1, 2**31 - 1),
    "seed": (-1, 2**32 - 2),
}


@pytest.mark.parametrize(("name", "bounds"), RANGES.items())
def test_ranges_are_closed_and_nothing_outside_is_taken(name, bounds):
    least, most = bounds
    for value in (least, most):
        READER.read({name: value})
    step = 1 if isinstance(least, int) and most > 2 else 0.001
    for value in (least - step, most + step, "1", True, [], {}, 10**400):
        with pytest.raises(RequestError) as refused:
            READER.read({name: value})
        assert refused.value.param == name
        assert name in str(refused.value)


def test_an_error_names_field_range_and_value():
    with pytest.raises(RequestError) as refused:
        READER.read({"temperature": "hot"})
    said = 'temperature must be a number from 0 to 100, not "hot"'
    assert str(refused.value) == said


def test_an_error_names_the_spelling_that_was_used():
    with pytest.raises(RequestError) as refused:
        READER.read({"repetition_penalty": 0})
    assert refused.value.param == "repetition_penalty"


def test_null_is_not_given():
    names = [field.name for field in (*SAMPLING, *DRAWING)]
    assert READER.read(dict.fromkeys(names)) == {}


def test_two_spellings_must_agree():
    both = {"repeat_penalty": 1.1, "repetition_penalty": 1.1}
    assert READER.read(both) == {"repeat_penalty": 1.1}
    with pytest.raises(RequestError) as refused:
        READER.read({**both, "repetition_penalty": 1.2})
    assert "1.1" in str(refused.value)
    assert "1.2" in str(refused.value)


def test_fields_of_an_inner_object_are_named_with_it():
    with pytest.raises(RequestError) as refused:
        READER.read({"top_p": 2}, where="options.")
    assert refused.value.param == "options.top_p"


def test_a_reader_that_says_more_is_heard():
    with pytest.raises(RequestError) as refused:
        READER.read({"logit_bias": {"5": None}})
    assert str(refused.value) == (
        "logit_bias must give token 5 a number from -100 to 100, or false, not null"
    )


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from([f.name for f in (*SAMPLING, *DRAWING)]), json_values
    )
)
def test_any_value_is_read_or_refused_with_its_name(body):
    values, refused = read_or_refused(body)
    if refused is None:
        assert set(values) <= set(body)
    else:
        assert refused.param in body
        assert str(refused).startswith(refused.param or "?")


def read_or_refused(body):
    try:
        return READER.read(body), None
    except RequestError as refused:
        return {}, refused


# --- What sampling is asked for -----------------------------------------------------


def test_fields_not_given_are_the_models():
    model = SamplingParams(temperature=0.3, top_k=7, samplers=("top_k",))
    found = sampling_params({"top_p": 0.5}, facts(sampling=model))
    assert (found.temperature, found.top_k, found.top_p) == (0.3, 7, 0.5)
    assert found.samplers == ("top_k",)


def test_a_seed_that_is_given_stays_and_one_that_is_not_is_drawn():
    assert sampling_params({"seed": 0}, facts()).seed == 0
    drawn = {sampling_params({}, facts()).seed for _ in range(20)}
    assert len(drawn) > 1
    assert all(0 <= seed <= readers.SEED_MAX for seed in drawn)


def test_biases_by_text_are_biases_of_each_of_its_tokens():
    values = READER.read({"logit_bias": {"ab": 2, "97": 1, "98": False}})
    found = sampling_params(values, facts())
    assert found.logit_bias == ((97, 3.0), (98, -math.inf))


@pytest.mark.parametrize("key", ["100", "-1", "999999999", str(10**19)])
def test_biases_of_unknown_tokens_are_refused(key):
    values = READER.read({"logit_bias": {key: 1}})
    with pytest.raises(RequestError) as refused:
        sampling_params(values, facts())
    assert refused.value.param == "logit_bias"
    assert "0 to 99" in str(refused.value)


def test_a_bias_of_a_text_without_tokens_is_refused():
    with pytest.raises(RequestError):
        sampling_params(READER.read({"logit_bias": {" ": 1}}), facts())


# --- Misspelt names -----------------------------------------------------------------

KNOWN = ("temperature", "top_p", "top_k", "max_tokens", "stop", "n", "seed")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("temprature", "temperature"),
        ("tempertaure", "temperature"),
        ("Temperature", "temperature"),
        ("topP", "top_p"),
        ("top-k", "top_k"),
        ("maxTokens", "max_tokens"),
        ("max_token", "max_tokens"),
        ("stops", "stop"),
        ("sead", "seed"),
    ],
)
def test_a_slip_of_the_finger_is_noticed(name, meant):
    assert misspelt(name, KNOWN) == meant


@pytest.mark.parametrize("name", ["m", "step_size", "options", "x", "", "foo", "top"])
def test_other_names_are_no_slips(name):
    assert misspelt(name, KNOWN) is None


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ("", "", 0),
        ("ab", "ba", 1),
        ("ab", "abc", 1),
        ("abc", "axc", 1),
        ("abcd", "badc", 2),
    ],
)
def test_edit_distance_counts_swaps_once(one, other, distance):
    assert edit_distance(one, other, 5) == distance
    assert edit_distance(other, one, 5) == distance


def test_field_names_and_spellings_are_unique():
    for table in (SAMPLING, DRAWING):
        spellings = [s for field in table for s in field.spellings]
        assert len(spellings) == len(set(spellings))
        assert all(isinstance(field, Field) for field in table)
