"""A request's body as JSON, with every limit checked before anyone looks at it."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from kinetic.errors import RequestError

MAX_DEPTH = 128
"""Nesting of brackets; templates and schemas walk what comes through here."""

MAX_FIELDS = 256
"""Fields of the body itself: each that nobody knows is compared with all known ones."""


def parse(body: bytes) -> dict[str, Any]:
    """Parse a body into an object.

    Raises RequestError, whose text repeats nothing of the body, for anything that is
    not one JSON object in UTF-8 (a BOM is accepted) of at most MAX_FIELDS fields and
    MAX_DEPTH levels, without NaN, Infinity or half surrogate pairs.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"the body is not UTF-8: byte {error.start} cannot be decoded"
        raise RequestError(message) from None
    try:
        found = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise RequestError(_too_deep()) from None
    except json.JSONDecodeError as error:
        message = (
            f"the body is not valid JSON: {error.msg} at line {error.lineno},"
            f" column {error.colno}"
        )
        raise RequestError(message) from None
    except ValueError:
        # Python refuses integers of thousands of digits with a plain ValueError.
        raise RequestError("the body holds a number that is too long") from None
    if not isinstance(found, dict):
        raise RequestError("the body must be a JSON object")
    if len(found) > MAX_FIELDS:
        message = f"the body has {len(found)} fields; at most {MAX_FIELDS} are read"
        raise RequestError(message)
    _check(found)
    return found


def _refuse(constant: str) -> NoReturn:
    raise RequestError(f"{constant} is not a JSON number")


def _too_deep() -> str:
    return f"the body is nested more than {MAX_DEPTH} levels deep"


def _check(root: object) -> None:
    """Walk without recursion: depth, and halves of surrogate pairs."""
    level: list[object] = [root]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise RequestError(_too_deep())
        below: list[object] = []
        for value in level:
            if isinstance(value, dict):
                for key in value:
                    _check_text(key)
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, str):
                _check_text(value)
            elif isinstance(value, float) and value in {float("inf"), float("-inf")}:
                raise RequestError("the body holds a number that is too large")
        level = below


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            message = "the body holds half of a surrogate pair (\\ud800 to \\udfff)"
            raise RequestError(message) from None
