"""Made-up JSON Schemas, and an independent judge of what they allow."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema

PATTERNS = (
    r"\S",
    "^id",
    "z$",
    "[a-z]+",
    r"^\d{2,4}-\w+$",
    "(?i)x",
    "^a|b$",
    "^[^a-z]$",
    "^(a|b)*c?$",
    r"^\w{1,3}$",
    "a.c",
    "^$",
    r"\.",
    r"^\s*$",
    r"[\d-]",
    r"^[\w.-]+@[\w.-]+$",
    "é",
    "^.{0,3}$",
    "(ab)?c{2}",
)
FORMATS = (
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
    "uri",
)
_KEYS = ("a", "b", "c", "name", "x y", "é", 'q"t', "0", "a/b", "~t")
_NUMBERS = (0, 1, -1, 3, 7, 13, 99, 1001, -5, 0.5, 2.25, -1.5, 10, 100, 255, 1e3)
_VALUES = ("a", "b", "", 1, 2.5, None, False, [1], {"k": "v"}, "é", -7)
_CONSTANTS: tuple[Any, ...] = (
    1,
    "x",
    None,
    True,
    {"a": [1]},
    [1, "b"],
    0.5,
    -3,
    'a"b\\c\n',
    {},
)
_TREE = {
    "type": "object",
    "properties": {
        "v": {"type": "integer"},
        "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2},
    },
    "required": ["v"],
}
_CLOCK = re.compile(
    r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
)
_judge_formats = jsonschema.FormatChecker()
# The library's own is a draft 3 "time", which has no offset.
_judge_formats.checkers = {
    **_judge_formats.checkers,
    "time": (
        lambda text: not isinstance(text, str) or bool(_CLOCK.fullmatch(text)),
        (),
    ),
}


def errors(schema: Any, value: Any) -> list[str]:
    """What jsonschema has against a value."""
    judge = jsonschema.Draft202012Validator(schema, format_checker=_judge_formats)
    try:
        return [error.message for error in judge.iter_errors(value)]
    except OverflowError:
        # A number like 1e999, which Python reads as infinite: nothing can be said.
        return []


def errors_of_text(schema: Any, text: str) -> list[str]:
    """The same for JSON text."""
    try:
        return errors(schema, json.loads(text))
    except ValueError as error:
        return [f"no JSON: {error}"]


def random_schema(rng: random.Random) -> dict[str, Any]:
    """A schema with definitions, that may be empty or in parts unsupported."""
    schema: Any = True
    while not isinstance(schema, dict):
        schema = _schema(rng, rng.randint(0, 3))
    definitions = {"t": _schema(rng, 1), "u": _schema(rng, 1), "tree": _TREE}
    return {**schema, "$defs": definitions}


def _schema(rng: random.Random, depth: int) -> Any:
    kind = rng.random()
    if depth <= 0 or kind < 0.45:
        return _simple(rng)
    if kind < 0.68:
        return _object(rng, depth)
    if kind < 0.82:
        return _array(rng, depth)
    if kind < 0.94:
        return _combined(rng, depth)
    return {"$ref": rng.choice(["#/$defs/t", "#/$defs/u", "#", "#/$defs/tree"])}


def _simple(rng: random.Random) -> Any:
    match rng.randrange(10):
        case 0 | 1:
            return _string(rng)
        case 2:
            return {"type": rng.choice(["integer", "number", "boolean", "null"])}
        case 3 | 4:
            return _number(rng)
        case 5:
            return {"const": rng.choice(_CONSTANTS)}
        case 6:
            return {"enum": rng.sample(_VALUES, rng.randint(1, 4))}
        case 7:
            return rng.choice([True, {}, {"title": "t", "x-note": 1}])
        case 8:
            names = [
                "string",
                "integer",
                "null",
                "boolean",
                "array",
                "object",
                "number",
            ]
            return {"type": rng.sample(names, 2)}
        case _:
            return {"type": "string"}


def _string(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    kind = rng.random()
    if kind < 0.35:
        schema["pattern"] = rng.choice(PATTERNS)
    elif kind < 0.6:
        schema["format"] = rng.choice(FORMATS)
    if rng.random() < 0.3:
        schema["minLength"] = rng.randint(0, 4)
    if rng.random() < 0.3:
        schema["maxLength"] = schema.get("minLength", 0) + rng.randint(0, 6)
    return schema


def _number(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": rng.choice(["integer", "number"])}
    for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if rng.random() < 0.3:
            schema[keyword] = rng.choice(_NUMBERS)
    if rng.random() < 0.2:
        schema["multipleOf"] = rng.choice([1, 2, 5, 0.5, 0.25, 10, 3])
    return schema


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"} if rng.random() < 0.85 else {}
    keys = rng.sample(_KEYS, rng.randint(0, 4))
    if keys or rng.random() < 0.5:
        schema["properties"] = {key: _schema(rng, depth - 1) for key in keys}
    if keys and rng.random() < 0.7:
        schema["required"] = rng.sample(keys, rng.randint(1, len(keys)))
    if rng.random() < 0.1:
        schema.setdefault("required", []).append("zz")
    kind = rng.random()
    if kind < 0.3:
        schema["additionalProperties"] = False
    elif kind < 0.5:
        schema["additionalProperties"] = _schema(rng, depth - 1)
    if rng.random() < 0.12:
        pattern = rng.choice(["^p_", "^[k-m]$", r"\d$"])
        schema["patternProperties"] = {pattern: _schema(rng, depth - 1)}
    if rng.random() < 0.1:
        schema["minProperties"] = rng.randint(0, 2)
    if rng.random() < 0.1:
        schema["maxProperties"] = rng.randint(0, 3)
    return schema


def _array(rng: random.Random, depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    if rng.random() < 0.8:
        schema["items"] = _schema(rng, depth - 1)
    if rng.random() < 0.25:
        items = [_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]
        schema["prefixItems"] = items
    if rng.random() < 0.4:
        schema["minItems"] = rng.randint(0, 3)
    if rng.random() < 0.4:
        schema["maxItems"] = rng.randint(0, 4)
    if rng.random() < 0.1:
        schema["items"] = False
    return schema


def _combined(rng: random.Random, depth: int) -> dict[str, Any]:
    keyword = rng.choice(["anyOf", "oneOf", "allOf", "anyOf"])
    parts = [_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    schema: dict[str, Any] = {keyword: parts}
    beside = rng.random()
    if beside < 0.15:
        schema |= {"type": "object", "properties": {"a": _simple(rng)}}
    elif beside < 0.3 and isinstance(simple := _simple(rng), dict):
        schema |= simple
    return schema
