"""Vectors cut, scaled and written."""

import base64
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from kinetic.web.fields.normalise import scaled, sigmoid, written

VECTORS = arrays(
    np.float32, st.integers(1, 40), elements=st.floats(-1e6, 1e6, width=32)
)


def of(*numbers):
    return np.array(numbers, np.float32)


@given(VECTORS)
def test_vectors_have_unit_length_unless_they_are_zero(vector):
    length = float(np.linalg.norm(scaled(vector).astype(np.float64)))
    expected = 0.0 if not vector.any() else 1.0
    assert math.isclose(length, expected, abs_tol=1e-5)


@given(VECTORS, st.integers(-1, 1000))
def test_no_scaling_ever_gives_what_is_no_number(vector, norm):
    made = scaled(vector, norm=norm)
    assert np.isfinite(made).all()
    assert made.dtype == np.float32
    assert made.shape == vector.shape


def test_raw_vectors_are_not_touched():
    vector = of(3, 4)
    assert scaled(vector, norm=-1) is vector


def test_the_largest_number_becomes_that_of_a_short_integer():
    assert scaled(of(1, -4, 2), norm=0).tolist() == [8190.0, -32760.0, 16380.0]


@pytest.mark.parametrize(
    ("norm", "expected"), [(1, 1 / 7), (2, 1 / 5), (3, 91 ** (-1 / 3))]
)
def test_the_norms_are_those_of_their_power(norm, expected):
    made = scaled(of(3, -4), norm=norm)
    assert np.allclose(made, of(3, -4) * expected, rtol=1e-6)


def test_a_high_power_does_not_overflow():
    assert scaled(of(1e30, -1e30), norm=1000)[0] == pytest.approx(2 ** (-1 / 1000))


def test_cut_vectors_are_scaled_again():
    made = scaled(of(3, 4, 12), dimensions=2)
    assert np.allclose(made, [0.6, 0.8])


def test_every_tokens_vector_is_scaled_by_itself():
    made = scaled(np.array([[3, 4], [0, 0], [0, 2]], np.float32))
    assert np.allclose(made, np.array([[0.6, 0.8], [0, 0], [0, 1]]))


@given(VECTORS)
def test_base64_decodes_to_exactly_the_numbers(vector):
    text = str(written(vector, as_base64=True))
    numbers = written(vector, as_base64=False)
    assert np.frombuffer(base64.b64decode(text), "<f4").tolist() == numbers
    assert numbers == vector.tolist()


def test_the_logistic_function_keeps_the_order_and_the_bounds():
    scores = [-1e4, -3.0, 0.0, 2.5, 1e4]
    found = [sigmoid(score) for score in scores]
    assert found == sorted(found)
    assert found[2] == 0.5
    assert found[0] == 0.0
    assert found[-1] == 1.0
    assert sigmoid(1.0) == pytest.approx(1 / (1 + math.exp(-1)))
