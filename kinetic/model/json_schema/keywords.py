"""JSON Schema's keywords: what is enforced, what says nothing, what is refused.

llguidance refuses most of what it does not know, but only by the schema's own draft: a
keyword that came with a later draft than `$schema` names is passed over, and so are
draft 3's. Here a keyword of any draft that can forbid an answer is enforced or refused.
What no draft knows, such as `x-order`, is a note of the client's.

Source: json-schema.org, drafts 3 to 2020-12.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")

COMBINING: Final = ("$ref", "allOf", "anyOf", "oneOf")
"""Keywords by which several schemas bear on one value."""

NUMBER: Final = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
)
STRING: Final = ("minLength", "maxLength", "pattern", "format")
ARRAY: Final = ("items", "prefixItems", "additionalItems", "minItems", "maxItems")
OBJECT: Final = (
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
)
ENFORCED: Final = frozenset(
    ["type", "enum", "const", *COMBINING, *NUMBER, *STRING, *ARRAY, *OBJECT]
)

_REFUSED: Final = frozenset(
    [
        "not",
        "if",
        "contains",
        "uniqueItems",
        "propertyNames",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedItems",
        "unevaluatedProperties",
        "$dynamicRef",
        "$recursiveRef",
        # Draft 3.
        "extends",
        "disallow",
        "divisibleBy",
        # Ajv's, widely used.
        "formatMinimum",
        "formatMaximum",
        "formatExclusiveMinimum",
        "formatExclusiveMaximum",
    ]
)


def refused(schema: Mapping[str, Any]) -> str | None:
    """A keyword that could forbid an answer and cannot be enforced, if there is one."""
    for keyword in schema:
        if keyword in _REFUSED and not _forbids_nothing(keyword, schema):
            return keyword
    return None


def _forbids_nothing(keyword: str, schema: Mapping[str, Any]) -> bool:
    value = schema[keyword]
    match keyword:
        case "not":
            return value is False
        case "if":
            return "then" not in schema and "else" not in schema
        case "contains":
            return schema.get("minContains", 1) == 0 and "maxContains" not in schema
        case "uniqueItems":
            most = schema.get("maxItems")
            return value is False or (is_count(most) and most in {0, 1})
        case "propertyNames":
            return value is True or value in ({}, {"type": "string"})
        case "dependencies" | "dependentRequired" | "dependentSchemas":
            return bool(value == {})
        case "unevaluatedItems" | "unevaluatedProperties":
            return value is True or value == {}
        case _:
            return False


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(value: float) -> bool:
    """Whether a number is not infinite; a whole one may have any number of digits."""
    return isinstance(value, int) or math.isfinite(value)


def is_count(value: Any) -> bool:
    """Whether a JSON value is a whole number from 0 on, 3.0 included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return is_finite(value) and value >= 0 and value == int(value)
