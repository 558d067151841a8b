"""Python-like values inside running text, as models write them, not as Python reads.

Python's own parser is no use here: it refuses reserved words as argument names, leading
zeros, raw newlines between quotes and JSON's `true`, and it cannot wait for more text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kinetic.model.chat.reply.jsontext import HEX, MAX_DEPTH, finite, whole_characters
from kinetic.model.chat.reply.source import Mismatch, Reading, Source, skip_blanks

KEY = re.compile(r"[\w.-]+")
WORD = re.compile(r"[-+.\w]+")
INTEGER = re.compile(r"[-+]?[0-9][0-9_]*")
FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
CONSTANTS: Mapping[str, bool | None] = {
    "True": True,
    "true": True,
    "False": False,
    "false": False,
    "None": None,
    "null": None,
}
PLAIN = {quote: re.compile(rf"[^{quote}\\]+") for quote in "\"'"}
ESCAPES: Mapping[str, str] = {
    "\n": "",
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "/": "/",
    "'": "'",
    '"': '"',
}
HEX_ESCAPES: Mapping[str, int] = {"x": 2, "u": 4, "U": 8}
MAX_CODE = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Place:
    """What may follow a value where it stands, and so whether a quote ends a string.

    Templates print strings between quotes without escaping the quotes inside, and
    models do as they see: a quote is the end only if the text then goes on as it must.
    """

    followers: str
    """Characters, one of which comes next, whitespace aside."""
    is_argument: bool = False
    """The value of a named argument: after its comma comes another name."""


ARGUMENT = Place(",)", is_argument=True)
ITEM = Place(",]")
TUPLE_ITEM = Place(",)")
DICT_KEY = Place(":")
DICT_VALUE = Place(",}")
CALL_FOLLOWERS = "]<;"
"""What may stand after a call's closing parenthesis, beside the end of the text."""


def read_arguments(source: Source) -> Reading[dict[str, Any]]:
    """Reads `name=value, …)` after a call's opening parenthesis.

    Raises:
        Mismatch: What is there is not that.
    """
    arguments: dict[str, Any] = {}
    while True:
        char = yield from skip_blanks(source)
        if char == ")":
            source.take(1)
            return arguments
        key = yield from source.read_run(KEY)
        if not key:
            raise Mismatch
        yield from skip_blanks(source)
        yield from source.expect("=")
        arguments[key] = yield from read_value(source, ARGUMENT)
        if (yield from _read_separator(source, ")")):
            return arguments


def read_dict(source: Source, depth: int = 1) -> Reading[dict[str, Any]]:
    """Reads a dict, keys in either quotes.

    Raises:
        Mismatch: What is there is not that.
    """
    yield from source.expect("{")
    entries: dict[str, Any] = {}
    while True:
        char = yield from skip_blanks(source)
        if char == "}":
            source.take(1)
            return entries
        if char not in PLAIN:
            raise Mismatch
        key = yield from _read_string(source, DICT_KEY)
        yield from skip_blanks(source)
        yield from source.expect(":")
        entries[key] = yield from read_value(source, DICT_VALUE, depth)
        if (yield from _read_separator(source, "}")):
            return entries


def read_value(source: Source, place: Place, depth: int = 0) -> Reading[Any]:
    """Reads a string, number, constant, list, tuple or dict.

    Raises:
        Mismatch: What is there is none of these, or is nested too deep.
    """
    if depth == MAX_DEPTH:
        raise Mismatch
    char = yield from skip_blanks(source)
    if char in PLAIN:
        return (yield from _read_string(source, place))
    if char == "{":
        return (yield from read_dict(source, depth + 1))
    if char == "[":
        return (yield from _read_items(source, "]", ITEM, depth + 1))
    if char == "(":
        return (yield from _read_items(source, ")", TUPLE_ITEM, depth + 1))
    return _scalar((yield from source.read_run(WORD)))


def _read_items(
    source: Source, closer: str, place: Place, depth: int
) -> Reading[list[Any]]:
    source.take(1)
    items: list[Any] = []
    while (yield from skip_blanks(source)) != closer:
        items.append((yield from read_value(source, place, depth)))
        if (yield from _read_separator(source, closer)):
            return items
    source.take(1)
    return items


def _read_separator(source: Source, closer: str) -> Reading[bool]:
    """Reads the comma after a value, or the closer: then True."""
    yield from skip_blanks(source)
    return (yield from source.expect(",", closer)) == closer


def _scalar(word: str) -> bool | float | None:
    if word in CONSTANTS:
        return CONSTANTS[word]
    digits = word.replace("_", "")
    if INTEGER.fullmatch(word):
        try:
            return int(digits)
        except ValueError as error:  # more digits than Python converts
            raise Mismatch from error
    if FLOAT.fullmatch(word):
        return finite(digits)
    raise Mismatch


def _read_string(source: Source, place: Place) -> Reading[str]:
    char = yield from source.peek()
    quote = yield from source.expect(char * 3, char)
    parts: list[str] = []
    while True:
        parts.append(source.run(PLAIN[char]))
        here = source.now or (yield from source.peek())
        if not here:
            raise Mismatch
        if here == "\\":
            parts.append((yield from _read_escape(source)))
        elif here == char:
            if (yield from _is_end(source, quote, place)):
                yield from source.expect(quote)
                return whole_characters("".join(parts))
            parts.append(source.take(1))


def _is_end(source: Source, quote: str, place: Place) -> Reading[bool]:
    """Looks ahead whether the quote here ends the string; reads nothing."""
    start = source.mark()
    try:
        if not (yield from source.accept(quote)):
            return False
        char = yield from skip_blanks(source)
        if not char or char not in place.followers:
            return False
        return not place.is_argument or (yield from _goes_on(source, ")", "="))
    finally:
        source.rewind(start)
        source.release()


def _goes_on(source: Source, closer: str, sign: str) -> Reading[bool]:
    """Looks whether arguments, or calls, go on or end here as they must."""
    is_end = source.take(1) == closer
    char = yield from skip_blanks(source)
    if is_end:
        if closer == ")" and char == ",":
            return (yield from _goes_on(source, "]", "("))
        return not char or char in CALL_FOLLOWERS
    if char == closer or (char == "{" and closer == "]"):
        return True
    key = yield from source.read_run(KEY)
    return bool(key) and (yield from skip_blanks(source)) == sign


def _read_escape(source: Source) -> Reading[str]:
    """Reads a backslash and what it escapes; an unknown escape stays as it is."""
    source.take(1)
    char = yield from source.peek()
    source.take(1)
    if char in ESCAPES:
        return ESCAPES[char]
    n_digits = HEX_ESCAPES.get(char, 0)
    digits = ""
    while len(digits) < n_digits and (yield from source.peek()) in HEX:
        digits += source.take(1)
    if digits and len(digits) == n_digits and int(digits, 16) <= MAX_CODE:
        return chr(int(digits, 16))
    return f"\\{char}{digits}"
