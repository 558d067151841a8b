"""JSON objects inside running text: where they end, and what they hold.

Strict JSON but for raw control characters in strings, which models write often. An
object is followed character by character, so that text which is no JSON is known as
such at once; a whole object is then decoded by the library.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

from kinetic.model.chat.reply.source import Mismatch, Reading, Source, skip_blanks

MAX_DEPTH = 64
"""Deeper nesting is not read as a call: no tool asks for it, and decoding recurses."""

STRING_RUN = re.compile(r'[^"\\]+')
NUMBER_RUN = re.compile(r"[-+0-9.eE]+")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
NUMBER_STARTS = frozenset("-0123456789")
ESCAPES = frozenset('"\\/bfnrt')
HEX = frozenset("0123456789abcdefABCDEF")
N_HEX = 4
ESCAPED_SURROGATE = re.compile(r"\\u[dD][89abcdefABCDEF]")

Watch = Callable[[str, str | None], None]
"""Is told of the outermost object's keys as they come, each with None, then again with
its value if that is a string; may raise Mismatch, which ends the reading."""


def read_object(source: Source, watch: Watch | None = None) -> Reading[dict[str, Any]]:
    """Reads one object from its opening brace to its closing brace.

    Raises:
        Mismatch: What is there cannot become an object that JSON can hand on.
    """
    if (yield from source.peek()) != "{":
        raise Mismatch
    text = yield from _read_object(source, watch, depth=1)
    value = decode(text)
    if not isinstance(value, dict):
        raise Mismatch
    return value


def read_container(source: Source) -> Reading[str]:
    """Reads one object or array from its opening to its closing bracket, as text.

    Raises:
        Mismatch: There is none.
    """
    char = yield from source.peek()
    if char == "[":
        return (yield from _read_array(source, depth=1))
    if char != "{":
        raise Mismatch
    return (yield from _read_object(source, None, depth=1))


def loads(text: str, *, strict: bool = False) -> Any:
    """The value of JSON text that somebody else wrote, read as leniently as is safe.

    Half of a surrogate pair, which UTF-8 cannot carry, is U+FFFD, and without `strict`
    raw control characters may stand in strings. Numbers are finite: a template would
    print "Infinity" for 1e999.

    Raises:
        ValueError: It is no JSON, or holds a number that cannot be kept.
        RecursionError: It nests too deep.
    """
    value = json.loads(
        text,
        strict=strict,
        parse_int=_whole,
        parse_float=_finite,
        parse_constant=_refuse,
    )
    if ESCAPED_SURROGATE.search(text):
        whole = whole_characters(json.dumps(value, ensure_ascii=False))
        value = json.loads(whole)
    return value


def decode(text: str) -> Any:
    """The value that `text` is.

    Raises:
        Mismatch: It is no JSON, or holds what JSON cannot hand on: a number beyond a
            float's range, or too deep a nesting.
    """
    try:
        value = json.loads(
            text, strict=False, parse_float=_finite, parse_constant=_refuse
        )
    except (ValueError, RecursionError) as error:
        raise Mismatch from error
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for item in level for child in _children(item)]
        if not level:
            return value
    raise Mismatch


def encode(value: Any) -> str:
    """JSON text as clients get it: Unicode as it is, but for halves of characters."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return whole_characters(text)


def whole_characters(text: str) -> str:
    """Joins surrogate pairs and replaces halves, which UTF-8 cannot carry."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def finite(text: str) -> float:
    """A float that JSON can write.

    Raises:
        Mismatch: The number is beyond a float's range.
    """
    try:
        return _finite(text)
    except ValueError as error:
        raise Mismatch from error


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is no finite number")
    return value


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        # Python reads no more than some thousands of digits.
        raise ValueError(f"a number of {len(text)} digits is too long") from None


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _read_object(source: Source, watch: Watch | None, depth: int) -> Reading[str]:
    parts = [source.take(1)]
    separator = ""
    while True:
        char = yield from skip_blanks(source)
        if char == "}" and not separator:
            return "".join([*parts, source.take(1)])
        if char != '"':
            raise Mismatch
        quoted = yield from _read_string(source)
        key = json.loads(quoted, strict=False) if watch else ""
        if watch:
            watch(key, None)
        yield from skip_blanks(source)
        yield from source.expect(":")
        char = yield from skip_blanks(source)
        value = yield from _read_value(source, char, depth)
        if watch and char == '"':
            watch(key, json.loads(value, strict=False))
        yield from skip_blanks(source)
        separator = yield from source.expect(",", "}")
        parts += quoted, ":", value, separator
        if separator == "}":
            return "".join(parts)


def _read_array(source: Source, depth: int) -> Reading[str]:
    parts = [source.take(1)]
    separator = ""
    while True:
        char = yield from skip_blanks(source)
        if char == "]" and not separator:
            return "".join([*parts, source.take(1)])
        value = yield from _read_value(source, char, depth)
        yield from skip_blanks(source)
        separator = yield from source.expect(",", "]")
        parts += value, separator
        if separator == "]":
            return "".join(parts)


def _read_value(source: Source, char: str, depth: int) -> Reading[str]:
    if char == '"':
        return (yield from _read_string(source))
    if char == "{" and depth < MAX_DEPTH:
        return (yield from _read_object(source, None, depth + 1))
    if char == "[" and depth < MAX_DEPTH:
        return (yield from _read_array(source, depth + 1))
    if char in NUMBER_STARTS:
        number = yield from source.read_run(NUMBER_RUN)
        if not NUMBER.fullmatch(number):
            raise Mismatch
        return number
    return (yield from source.expect("true", "false", "null"))


def _read_string(source: Source) -> Reading[str]:
    """Reads a string with its quotes and escapes."""
    parts = [source.take(1)]
    while True:
        parts.append(source.run(STRING_RUN))
        char = source.now or (yield from source.peek())
        if not char:
            raise Mismatch
        if char == '"':
            return "".join([*parts, source.take(1)])
        if char == "\\":
            parts.append((yield from _read_escape(source)))


def _read_escape(source: Source) -> Reading[str]:
    escape = source.take(1)
    char = yield from source.peek()
    if char in ESCAPES:
        return escape + source.take(1)
    if char != "u":
        raise Mismatch
    escape += source.take(1)
    for _ in range(N_HEX):
        if (yield from source.peek()) not in HEX:
            raise Mismatch
        escape += source.take(1)
    return escape
