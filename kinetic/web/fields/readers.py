"""Readers of JSON values: each gives back the value, or says that it does not fit.

A reader takes one decoded JSON value and returns what the rest of the server works
with. What fits is told in words by the `Field` that a reader stands in; a reader that
knows more than that, such as which item of a list is wrong, says so in its `Unfit`.
All three APIs read with these.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

Reader = Callable[[Any], Any]

SHOWN_CHARS = 40
"""How much of a wrong value an error message repeats."""

INT32_MAX = 2**31 - 1
"""The engine counts in C's 32-bit integers."""

SEED_MAX = 2**32 - 2
"""One below the largest: llama.cpp takes 2**32 - 1 itself as "draw a seed"."""

BANNED = -math.inf
"""Added to a logit, it keeps the token from ever being drawn."""


class Unfit(ValueError):
    """A value that does not fit; the text, if any, says more than the range does."""


def shown(value: object) -> str:
    """A wrong value as an error message repeats it: as JSON, cut where it is long."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return "a number of many digits"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def whole(least: int, most: int = INT32_MAX) -> Reader:
    """A whole number; 3.0 is one, true and "3" are none."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Unfit
        if isinstance(value, float) and not value.is_integer():
            raise Unfit
        if not least <= value <= most:
            raise Unfit
        return int(value)

    return read


def count(value: Any) -> int:
    """How many tokens at most: anything above what the engine counts to is that."""
    read: int = whole(0, most=10**30)(value)
    return min(read, INT32_MAX)


def count_or_all(value: Any) -> int:
    """As `count`; -1 is more than any context holds."""
    return INT32_MAX if whole(-1, most=10**30)(value) == -1 else count(value)


def number(least: float, most: float) -> Reader:
    """A number in a closed range; true and "1" are none."""

    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Unfit
        if not least <= value <= most:
            raise Unfit
        return float(value)

    return read


def flag(value: Any) -> bool:
    """True or false; 0, 1 and "true" are neither."""
    if not isinstance(value, bool):
        raise Unfit
    return value


def text(value: Any) -> str:
    """Any string."""
    if not isinstance(value, str):
        raise Unfit
    return value


def mapping(value: Any) -> dict[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise Unfit
    return value


def one_of(*values: object) -> Reader:
    """One of a few values; true is not 1."""

    def read(value: Any) -> Any:
        for known in values:
            if value == known and isinstance(value, bool) == isinstance(known, bool):
                return known
        raise Unfit

    return read


def texts(*, most: int, most_chars: int, least: int = 0) -> Reader:
    """A list of strings, none of them empty, as a tuple."""

    def read(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise Unfit
        if not least <= len(value) <= most:
            raise Unfit(f"must hold {least} to {most} strings, not {len(value)}")
        for i, item in enumerate(value):
            if not isinstance(item, str):
                raise Unfit(f"must hold strings, and [{i}] is {shown(item)}")
            if not item:
                raise Unfit(f"must hold no empty string, and [{i}] is one")
            if len(item) > most_chars:
                raise Unfit(
                    f"must hold strings of at most {most_chars} characters, and [{i}]"
                    f" has {len(item)}"
                )
        return tuple(value)

    return read


BREAKERS_RANGE = "a list of 1 to 32 strings of 1 to 40 bytes, without NUL"
_BREAKER_BYTES_MAX = 40  # the engine cuts what is longer, and at a NUL

_breaker_list = texts(least=1, most=32, most_chars=_BREAKER_BYTES_MAX)


def breakers(value: Any) -> tuple[str, ...]:
    """DRY's sequence breakers, each of a length that the engine takes whole."""
    read: tuple[str, ...] = _breaker_list(value)
    for i, text in enumerate(read):
        if "\0" in text:
            raise Unfit(f"must hold strings without NUL, and [{i}] has one")
        n_bytes = len(text.encode())
        if n_bytes > _BREAKER_BYTES_MAX:
            raise Unfit(
                f"must hold strings of at most {_BREAKER_BYTES_MAX} bytes in UTF-8, and"
                f" [{i}] has {n_bytes}"
            )
    return read


STOPS_MAX = 16
STOP_CHARS_MAX = 1024

_stop_list = texts(most=STOPS_MAX, most_chars=STOP_CHARS_MAX)


def stops(value: Any) -> tuple[str, ...]:
    """One stop string or a list of them, without repeats; an empty list is none."""
    if isinstance(value, str):
        if not value:
            raise Unfit("must not be an empty string")
        value = [value]
    read: tuple[str, ...] = _stop_list(value)
    return tuple(dict.fromkeys(read))


def seed(value: Any) -> int | None:
    """A seed that repeats its answer; None, for -1, asks for a fresh one."""
    read: int = whole(-1, SEED_MAX)(value)
    return None if read == -1 else read


BIASES_MAX = 10_000
BIAS_TEXT_CHARS_MAX = 256

Bias = tuple[int | str, float]


def logit_bias(least: float = -100, most: float = 100) -> Reader:
    """What to add to which logits, from the object form or the list form.

    {"15": -1.5, "Hello": 2} or [[15, -1.5], ["Hello", false]]; an object's key that is
    a whole number is a token id, any other text stands for each of its tokens. `least`
    and false ban a token.

    Source: the two forms and the meaning of texts and false are llama-server's, -100 as
    a ban is OpenAI's.
    """

    def read(value: Any) -> tuple[Bias, ...]:
        if isinstance(value, dict):
            pairs = [(_bias_key(key), bias) for key, bias in value.items()]
        elif isinstance(value, list):
            pairs = [_bias_pair(pair, i) for i, pair in enumerate(value)]
        else:
            raise Unfit
        if len(pairs) > BIASES_MAX:
            raise Unfit(f"must hold at most {BIASES_MAX} entries, not {len(pairs)}")
        return tuple((key, _bias(key, bias, least, most)) for key, bias in pairs)

    return read


def _bias_key(key: str) -> int | str:
    digits = key.removeprefix("-")
    # A longer number is no token's id; int() refuses thousands of digits.
    if digits.isascii() and digits.isdigit() and len(digits) <= 20:  # noqa: PLR2004
        return int(key)
    return key


def _bias_pair(pair: Any, i: int) -> tuple[int | str, Any]:
    if not isinstance(pair, list) or len(pair) != 2:  # noqa: PLR2004 - it is a pair
        raise Unfit(f"must hold pairs of token and bias, and [{i}] is {shown(pair)}")
    key, bias = pair
    if isinstance(key, bool) or not isinstance(key, int | str):
        raise Unfit(f"must name a token by id or text, and [{i}] has {shown(key)}")
    return key, bias


def _bias(key: int | str, bias: Any, least: float, most: float) -> float:
    if isinstance(key, str) and not 0 < len(key) <= BIAS_TEXT_CHARS_MAX:
        raise Unfit(
            f"must name tokens by texts of 1 to {BIAS_TEXT_CHARS_MAX} characters, and"
            f" one has {len(key)}"
        )
    if bias is False:
        return BANNED
    try:
        read: float = number(least, most)(bias)
    except Unfit:
        raise Unfit(
            f"must give token {shown(key)} a number from {least:g} to {most:g}, or"
            f" false, not {shown(bias)}"
        ) from None
    return BANNED if read == least else read


_SAMPLER_LETTERS = {
    "e": "penalties",
    "d": "dry",
    "s": "top_n_sigma",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "m": "min_p",
    "x": "xtc",
    "t": "temperature",
}
_SAMPLER_SPELLINGS = {
    "temp": "temperature",
    "nucleus": "top_p",
    "typ": "typ_p",
    "typical": "typ_p",
    "typical_p": "typ_p",
}


def samplers(value: Any) -> tuple[str, ...]:
    """The filters to run, in order: names in a list, or letters in one string.

    Source: names, other spellings and letters are llama-server's.
    """
    known = tuple(_SAMPLER_LETTERS.values())
    if isinstance(value, str):
        names: Sequence[Any] = [_SAMPLER_LETTERS.get(c, c) for c in value]
    elif isinstance(value, list):
        names = value
    else:
        raise Unfit
    read = []
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise Unfit(f"must hold names of samplers, and [{i}] is {shown(name)}")
        tidy = name.replace("-", "_").lower()
        tidy = _SAMPLER_SPELLINGS.get(tidy, tidy)
        if tidy not in known:
            raise Unfit(
                f"must name samplers among {', '.join(known)}, and [{i}] is"
                f" {shown(name)}"
            )
        if tidy in read:
            raise Unfit(f"must name each sampler once, and {tidy} stands there twice")
        read.append(tidy)
    return tuple(read)
