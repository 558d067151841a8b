"""JSON Schema's keywords: what is held, what is judged, what is refused.

llguidance refuses most of what it does not know, but only by the schema's own draft: a
keyword that came with a later draft than `$schema` names is passed over, and so are
draft 3's. Here a keyword of any draft that can forbid an answer is held while decoding,
or the whole answer is judged by it, or it is refused.
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
HELD: Final = ("type", "enum", "const", *COMBINING, *NUMBER, *STRING, *ARRAY, *OBJECT)
ENFORCED: Final = frozenset(HELD)

JUDGED: Final = (
    "not",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "uniqueItems",
    "propertyNames",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
)
"""Held as far as `rewrites` can say them in others, and judged at the end."""

LIMITS: Final[Mapping[str, str]] = {
    "oneOf": "where an answer might match two of its schemas, held as `anyOf`, judged",
    "pattern": "no look-around, back-references or word boundaries: those are a 400",
    "format": "date, time, date-time, duration, email, hostname, ipv4, ipv6, uri, uuid;"
    " any other is a note",
    "minLength": "at most 10000",
    "maxLength": "from 1000001 on as none",
    "minItems": "at most 2000",
    "maxItems": "from 1000001 on as none",
    "minProperties": "at most 1000; judged from two more than `required` has on",
    "maxProperties": "judged where some named ones are not required, and above 1000",
    "multipleOf": "beside one with a fraction, numbers have at most 15 digits",
    "$ref": "inside the schema",
    "not": "types are held",
    "if": "held where it asks for values of one property that lists its own",
    "contains": "`minContains` is held as `minItems`",
    "uniqueItems": "an `enum` of items bounds their number",
    "propertyNames": "`pattern`, `enum` and `const` are held for maps",
    "dependentRequired": "four are held",
    "dependentSchemas": "four are held",
    "dependencies": "as the two above",
    "unevaluatedProperties": "held as far as names are known; no `patternProperties`",
    "unevaluatedItems": "held where no keyword combines schemas",
}
"""What is to be known of single keywords, for people."""

REFUSED: Final = (
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
)


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
