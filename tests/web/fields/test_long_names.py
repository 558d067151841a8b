"""Names of megabytes, which no error repeats."""

import json

import pytest

from kinetic.errors import RequestError
from kinetic.web.fields.tables import misspelt, path_text
from kinetic.web.http import body as json_body

LONG = "a" * 1_000_000


def test_a_name_of_megabytes_is_no_near_miss():
    assert misspelt("temper-ature", ["temperature"]) == "temperature"
    assert misspelt("temperature" + "-" * 1_000_000, ["temperature"]) is None


def test_a_place_is_cut_where_its_names_are_long():
    assert path_text(["a", 0, "b" * 80]) == f"a[0].{'b' * 80}"
    assert path_text([LONG, 0, LONG]) == f"{'a' * 80}…[0].{'a' * 80}…"


@pytest.mark.parametrize("body", [{LONG: "\ud800"}, {LONG: {"\ud800": 1}}])
def test_an_error_of_a_long_name_is_short(body):
    with pytest.raises(RequestError, match="half of a surrogate pair") as refused:
        json_body.parse(json.dumps(body).encode())
    assert len(str(refused.value)) < 200
    assert refused.value.param is None or len(refused.value.param) < 100
