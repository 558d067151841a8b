import math

import pytest

from kinetic.web.fields.readers import Unfit
from kinetic.web.ollama.keep_alive import keep_alive


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0),
        (3.5, 3.5),
        (1800, 1800),
        (-1, math.inf),
        (-0.5, math.inf),
        ("0", 0),
        ("0s", 0),
        ("5m", 300),
        ("300ms", 0.3),
        ("1.5h", 5400),
        ("2h45m", 9900),
        ("1h0m.5s", 3600.5),
        ("10us", 1e-5),
        ("10µs", 1e-5),
        ("+5m", 300),
        ("-1m", math.inf),
        ("-1", math.inf),
        ("300", 300),
    ],
)
def test_seconds_and_durations_as_go_writes_them(value, seconds):
    assert keep_alive(value) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value",
    [
        "abc",
        "",
        "m",
        "5 m",
        "5m ",
        "1d",
        "--5m",
        "5m-",
        "1e3s",
        "٥m",
        "1" * 99,
        10**400,
        -(10**400),
        True,
        [],
        {},
    ],
)
def test_anything_else_does_not_fit(value):
    with pytest.raises(Unfit):
        keep_alive(value)
