"""Readers of JSON values that anybody may have written; each says what would fit.

A reader takes one decoded JSON value and returns what the rest works with, or raises
voluptuous' Invalid with words that read on after the field's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import voluptuous as vol

from kinetic.receipts import signing

Reader = Callable[[Any], Any]

INT32_MAX: Final = 2**31 - 1
TOKENS_MAX: Final = 1 << 22
CHARS_MAX: Final = 16 << 20


def whole(least: int, most: int) -> Reader:
    """A whole number in a closed range; 3.0 is one, true is none."""

    def read(value: Any) -> int:
        is_whole = isinstance(value, int) or (
            isinstance(value, float) and value.is_integer()
        )
        if isinstance(value, bool) or not is_whole or not least <= value <= most:
            raise vol.Invalid(f"must be a whole number from {least} to {most}")
        return int(value)

    return read


def number(least: float, most: float) -> Reader:
    """A number in a closed range."""

    def read(value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:
            raise vol.Invalid(f"must be a number from {least:g} to {most:g}")
        return float(value)

    return read


def text(most: int = CHARS_MAX) -> Reader:
    """A string of at most so many characters."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or len(value) > most:
            raise vol.Invalid(f"must be a string of at most {most} characters")
        return value

    return read


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise vol.Invalid("must be true or false")
    return value


def hex_of(n_bytes: int) -> Reader:
    """Lower-case hex digits of so many bytes."""

    def read(value: Any) -> str:
        if not signing.is_hex(value, n_bytes):
            raise vol.Invalid(f"must be {2 * n_bytes} lower-case hex digits")
        return str(value)

    return read


def one_of(*values: object) -> Reader:
    """One of a few values; true is not 1."""

    def read(value: Any) -> Any:
        for known in values:
            if type(value) is type(known) and value == known:
                return known
        named = ", ".join(map(str, values))
        raise vol.Invalid(f"must be one of: {named}")

    return read


def listed(item: Reader, most: int, *, least: int = 0) -> Reader:
    """A list of so many items, as a tuple."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise vol.Invalid(f"must be a list of {least} to {most} items")
        found = []
        for i, entry in enumerate(value):
            try:
                found.append(item(entry))
            except vol.Invalid as invalid:
                raise vol.Invalid(invalid.msg, path=[i, *invalid.path]) from None
        return tuple(found)

    return read


def tokens(value: Any) -> tuple[int, ...]:
    """Token ids; whether the model has them is seen later."""
    if not isinstance(value, list) or len(value) > TOKENS_MAX:
        raise vol.Invalid(f"must be a list of at most {TOKENS_MAX} token ids")
    for i, token in enumerate(value):
        if type(token) is not int or not 0 <= token <= INT32_MAX:
            raise vol.Invalid("must be a token id", path=[i])
    return tuple(value)


def maybe(reader: Reader) -> Reader:
    """The same, or null."""

    def read(value: Any) -> Any:
        return None if value is None else reader(value)

    return read


def object_of(readers: Mapping[str, Reader]) -> Reader:
    """An object of exactly these fields."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise vol.Invalid("must be an object")
        found: dict[str, Any] = schema(value)
        return found

    schema = vol.Schema(
        {vol.Required(name): reader for name, reader in readers.items()},
        extra=vol.PREVENT_EXTRA,
    )
    return read
