"""How long a client wants the model kept: seconds, or a duration as Go writes it."""

from __future__ import annotations

import math
import re
from typing import Any

from kinetic.web.fields.readers import Unfit

# Go takes both of the letters that look like a Greek mu.
_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_LONGEST_TEXT = 64


def keep_alive(value: Any) -> float:
    """Seconds; infinite for anything negative, 0 to unload.

    Takes numbers, Go's durations ("300ms", "1.5h", "2h45m") and, beyond what Ollama
    takes, numbers in a string. Raises Unfit.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Unfit
    try:
        seconds = _seconds(value) if isinstance(value, str) else float(value)
    except OverflowError:
        raise Unfit from None
    return math.inf if seconds < 0 else seconds


def _seconds(text: str) -> float:
    if len(text) > _LONGEST_TEXT:
        raise Unfit
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if _NUMBER.fullmatch(rest):
        return sign * float(rest)
    parts = _PART.findall(rest)
    if not parts or "".join(number + unit for number, unit in parts) != rest:
        raise Unfit
    return sign * sum(float(number) * _UNITS[unit] for number, unit in parts)
