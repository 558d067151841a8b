"""Single JSON values: what fits, what it becomes, and what is said of the rest."""

import math

import pytest

from kinetic.web.fields import readers
from kinetic.web.fields.readers import INT32_MAX, SEED_MAX, Unfit, number, shown, whole


@pytest.mark.parametrize(
    ("value", "read"), [(0, 0), (5, 5), (-3, -3), (2.0, 2), (10, 10)]
)
def test_a_whole_number_in_range_is_read(value, read):
    found = whole(-3, 10)(value)
    assert found == read
    assert type(found) is int


@pytest.mark.parametrize(
    "value", [True, False, "5", None, 2.5, 11, -4, [], {}, 10**400, 1e300]
)
def test_what_is_no_whole_number_in_range_is_unfit(value):
    with pytest.raises(Unfit):
        whole(-3, 10)(value)


@pytest.mark.parametrize("value", [True, "0.7", None, -0.1, 100.1, 10**400, [1], {}])
def test_what_is_no_number_in_range_is_unfit(value):
    with pytest.raises(Unfit):
        number(0, 100)(value)


def test_a_number_becomes_a_float():
    assert type(number(0, 100)(7)) is float


@pytest.mark.parametrize(
    ("value", "read"), [(0, 0), (1, 1), (10**9, 10**9), (10**25, INT32_MAX)]
)
def test_counts_beyond_the_engine_are_as_many_as_it_counts(value, read):
    assert readers.count(value) == read


def test_minus_one_counts_as_all_only_where_that_is_asked_for():
    assert readers.count_or_all(-1) == INT32_MAX
    for reader, value in ((readers.count, -1), (readers.count_or_all, -2)):
        with pytest.raises(Unfit):
            reader(value)


@pytest.mark.parametrize("value", [0, 1, "true", None, []])
def test_only_true_and_false_are_flags(value):
    with pytest.raises(Unfit):
        readers.flag(value)


def test_true_is_not_one():
    with pytest.raises(Unfit):
        readers.one_of(0, 1, 2)(True)
    assert readers.one_of(0, 1, 2)(1) == 1


# --- Stop strings -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("x", ("x",)),
        (["x", "y"], ("x", "y")),
        (["x", "x"], ("x",)),
        ([], ()),
        (["\n\n"], ("\n\n",)),
        ([str(i) for i in range(16)], tuple(str(i) for i in range(16))),
        ("漢字", ("漢字",)),
    ],
)
def test_stop_strings_are_read(value, read):
    assert readers.stops(value) == read


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "empty"),
        ([""], "[0]"),
        (["x", ""], "[1]"),
        ([1], "[0] is 1"),
        ([None], "[0] is null"),
        ([["x"]], "[0] is a list"),
        ([str(i) for i in range(17)], "0 to 16 strings, not 17"),
        (["x" * 1025], "1024 characters"),
        (5, ""),
        (True, ""),
        ({"a": 1}, ""),
    ],
)
def test_stop_strings_that_cannot_be_served_are_unfit(value, said):
    with pytest.raises(Unfit) as unfit:
        readers.stops(value)
    assert said in str(unfit.value)


# --- Seeds --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "read"),
    [(-1, None), (0, 0), (7, 7), (7.0, 7), (2**31, 2**31), (SEED_MAX, SEED_MAX)],
)
def test_seeds_are_read(value, read):
    assert readers.seed(value) == read


@pytest.mark.parametrize("value", [2**32 - 1, 2**32, 2**63, 2**64, -2, 1.5, "7", True])
def test_seeds_that_would_not_repeat_an_answer_are_unfit(value):
    with pytest.raises(Unfit):
        readers.seed(value)


# --- Logit biases -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({}, ()),
        ([], ()),
        ({"15": 1.5}, ((15, 1.5),)),
        ({"15": -100}, ((15, -math.inf),)),
        ({"15": 100}, ((15, 100.0),)),
        ({"15": False}, ((15, -math.inf),)),
        ({"-1": 1}, ((-1, 1.0),)),
        ({"Hello": -1}, (("Hello", -1.0),)),
        ({"²": 1}, (("²", 1.0),)),
        ([[15, -1.5]], ((15, -1.5),)),
        ([[15, False]], ((15, -math.inf),)),
        ([["Hello", -1]], (("Hello", -1.0),)),
        ([["15", 1]], (("15", 1.0),)),
    ],
)
def test_both_forms_of_logit_bias_are_read(value, read):
    assert readers.logit_bias()(value) == read


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"15": None}, "not null"),
        ({"15": True}, "not true"),
        ({"15": "1"}, 'not "1"'),
        ({"15": 101}, "from -100 to 100"),
        ({"": 1}, "1 to 256 characters"),
        ({"x" * 257: 1}, "1 to 256 characters"),
        ([15], "[0] is 15"),
        ([[15]], "[0] is a list"),
        ([[15, 1, 2]], "[0] is a list"),
        ([[1, 1], [True, 1]], "[1] has true"),
        ([[1.5, 1]], "[0] has 1.5"),
        ({str(i): 1 for i in range(10_001)}, "at most 10000 entries, not 10001"),
        ("15", ""),
        (5, ""),
    ],
)
def test_logit_biases_that_cannot_be_served_are_unfit(value, said):
    with pytest.raises(Unfit) as unfit:
        readers.logit_bias()(value)
    assert said in str(unfit.value)


def test_a_bias_of_five_thousand_tokens_is_read():
    assert len(readers.logit_bias()({str(i): -1 for i in range(5000)})) == 5000


# --- Samplers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ([], ()),
        (["top_k", "temperature"], ("top_k", "temperature")),
        (
            ["top-k", "temp", "nucleus", "typical"],
            ("top_k", "temperature", "top_p", "typ_p"),
        ),
        ("kt", ("top_k", "temperature")),
        (
            "edskypmxt",
            (
                "penalties",
                "dry",
                "top_n_sigma",
                "top_k",
                "typ_p",
                "top_p",
                "min_p",
                "xtc",
                "temperature",
            ),
        ),
    ],
)
def test_samplers_are_read_by_name_and_by_letter(value, read):
    assert readers.samplers(value) == read


@pytest.mark.parametrize("value", ["kq", ["nope"], ["top_k", "top_k"], [1], 5, {}])
def test_samplers_nobody_knows_are_unfit(value):
    with pytest.raises(Unfit):
        readers.samplers(value)


# --- Error texts --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.7", '"0.7"'),
        (True, "true"),
        (None, "null"),
        ({"secret": 1}, "an object"),
        ([1, 2], "a list"),
        (10**400, "a number of many digits"),
        ("é" * 100, '"' + "é" * 38 + "…"),
    ],
)
def test_wrong_values_are_shown_short_and_as_json(value, text):
    assert shown(value) == text
