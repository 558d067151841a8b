"""A request's body as JSON, with every limit checked before anyone looks at it."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from kinetic.errors import RequestError
from kinetic.web.fields.tables import path_text

MAX_DEPTH = 128
"""Nesting of brackets; templates and schemas walk what comes through here."""

MAX_FIELDS = 256
"""Fields of the body itself: each that nobody knows is compared with all known ones."""


def parse(body: bytes) -> dict[str, Any]:
    """Parse a body into an object.

    Raises RequestError, whose text repeats nothing of the body but names, for anything
    that is not one JSON object in UTF-8 (a BOM is accepted) of at most MAX_FIELDS
    fields and MAX_DEPTH levels, without NaN, Infinity or half surrogate pairs.
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
                if not all(map(_is_whole, value)):
                    raise _half(root)
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, str):
                if not _is_whole(value):
                    raise _half(root)
            elif isinstance(value, float) and value in {float("inf"), float("-inf")}:
                raise RequestError("the body holds a number that is too large")
        level = below


def _is_whole(text: str) -> bool:
    """Whether UTF-8 can carry a text: it holds no half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _half(root: object) -> RequestError:
    """The error that names the first text with half a pair, or the object's key."""
    level: list[tuple[object, tuple[object, ...]]] = [(root, ())]
    for value, path in level:
        where = path_text(path)
        if isinstance(value, dict):
            if not all(map(_is_whole, value)):
                where = f"a name in {where or 'the body'}"
                break
            level += ((inner, (*path, key)) for key, inner in value.items())
        elif isinstance(value, list):
            level += ((inner, (*path, i)) for i, inner in enumerate(value))
        elif isinstance(value, str) and not _is_whole(value):
            break
    message = f"{where} holds half of a surrogate pair (\\ud800 to \\udfff)"
    return RequestError(message, param=path_text(path) or None)
