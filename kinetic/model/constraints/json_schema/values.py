"""Reads and bounds the values of single keywords."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kinetic.model.constraints.json_schema import formats, keywords
from kinetic.model.constraints.json_schema.errors import SchemaError, pointer
from kinetic.model.constraints.json_schema.numbers import SAFE_INTEGER, most_of, rounded
from kinetic.model.constraints.json_schema.pattern import PatternError, rewritten

_LIMITS: Final = {
    "minLength": 10_000,
    "maxLength": 1_000_000,
    "minItems": 2_000,
    "maxItems": 1_000_000,
    "minProperties": 1_000,
    "maxProperties": 1_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaLimits:
    """How large a client's schema may be."""

    max_bytes: int = 256 << 10
    max_schemas: int = 5_000
    """Schemas in it, counting all that it refers to once."""
    max_depth: int = 40
    """Schemas inside each other, references not counted."""
    max_properties: int = 1_000
    """Of one object; the cost grows with their square."""
    max_values: int = 10_000
    """Values of all `enum`s and `const`s, those inside each counted."""


def parsed(source: str, limits: SchemaLimits) -> Any:
    """The schema's JSON; raises SchemaError."""
    n_bytes = len(source.encode("utf-8", "surrogatepass"))
    if n_bytes > limits.max_bytes:
        reason = f"the schema has {n_bytes} bytes; the limit is {limits.max_bytes}"
        raise SchemaError(reason, "")
    try:
        return json.loads(source, parse_constant=_no_constant)
    except RecursionError as error:
        reason = f"the schema nests deeper than {limits.max_depth} schemas"
        raise SchemaError(reason, "") from error
    except ValueError as error:
        raise SchemaError(f"the schema is not JSON: {error}", "") from error


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def types(value: Any, path: str) -> tuple[str, ...]:
    """The types that `type` names."""
    names = value if isinstance(value, list) else [value]
    if not names:
        raise SchemaError('"type" names no type', path)
    for name in names:
        if name not in keywords.TYPES:
            shown = json.dumps(name)[:60]
            reason = f'"type" must be one or several of {", ".join(keywords.TYPES)}'
            raise SchemaError(f"{reason}, not {shown}", path)
    return tuple(dict.fromkeys(names))


def numbers(
    schema: Mapping[str, Any], path: str, allowed: tuple[str, ...]
) -> dict[str, Any]:
    """Bounds of numbers, as the narrowest that say the same within 2**53.

    Args:
        schema: What it says; draft 4's flags become bounds.
        path: Where it stands.
        allowed: The types that it allows, none meaning all.

    Raises SchemaError for an empty range.
    """
    given: dict[str, Any] = {}
    for keyword in keywords.NUMBER:
        value = schema.get(keyword)
        if value is None:
            continue
        flag = keyword.startswith("exclusive") and isinstance(value, bool)
        if not flag and not (keywords.is_number(value) and keywords.is_finite(value)):
            raise SchemaError(f'"{keyword}" must be a number', pointer(path, keyword))
        given[keyword] = value
    for side, exclusive in (
        ("minimum", "exclusiveMinimum"),
        ("maximum", "exclusiveMaximum"),
    ):
        draft4 = given.get(exclusive)
        if isinstance(draft4, bool):
            del given[exclusive]
        if draft4 is True and side in given:
            given[exclusive] = given.pop(side)
    factor = given.get("multipleOf")
    if factor is not None and not 0 < factor <= SAFE_INTEGER:
        reason = f'"multipleOf" must be above 0 and at most {SAFE_INTEGER}'
        raise SchemaError(reason, pointer(path, "multipleOf"))
    _bound(given, path)
    is_number = bool(allowed) and set(allowed) <= {"integer", "number"}
    if is_number:
        _check_range(given, path, whole="number" not in allowed)
    told = dict(given)
    rounded(given)
    if is_number and _is_empty(given):
        raise _empty(told, path)
    return given


def _bound(given: dict[str, Any], path: str) -> None:
    most = most_of(given.get("multipleOf"))
    for keyword in ("minimum", "exclusiveMinimum"):
        if given.get(keyword, 0) > most:
            raise _beyond(keyword, given, path)
        if given.get(keyword, 0) < -most:
            given[keyword] = -most
    for keyword in ("maximum", "exclusiveMaximum"):
        if given.get(keyword, 0) < -most:
            raise _beyond(keyword, given, path)
        if given.get(keyword, 0) > most:
            given[keyword] = most


def _beyond(keyword: str, given: Mapping[str, Any], path: str) -> SchemaError:
    most = most_of(given.get("multipleOf"))
    limit = "2**53" if most == SAFE_INTEGER else f"{most} beside that multipleOf"
    reason = f'"{keyword}": {given[keyword]} is beyond {limit}, the limit of exact'
    return SchemaError(f"{reason} numbers", pointer(path, keyword))


def _check_range(given: Mapping[str, Any], path: str, *, whole: bool) -> None:
    empty = _is_empty(given)
    if whole and not empty:
        low, high = given.get("minimum", -math.inf), given.get("maximum", math.inf)
        above = given.get("exclusiveMinimum", -math.inf)
        below = given.get("exclusiveMaximum", math.inf)
        first = max(_ceil(low), _floor(above) + 1)
        last = min(_floor(high), _ceil(below) - 1)
        empty = first > last
    if empty:
        raise _empty(given, path)


def _is_empty(given: Mapping[str, Any]) -> bool:
    low, high = given.get("minimum", -math.inf), given.get("maximum", math.inf)
    above = given.get("exclusiveMinimum", -math.inf)
    below = given.get("exclusiveMaximum", math.inf)
    return bool(low > high or low >= below or above >= high or above >= below)


def _empty(given: Mapping[str, Any], path: str) -> SchemaError:
    bounds = ", ".join(f'"{k}": {v}' for k, v in given.items() if k != "multipleOf")
    return SchemaError(f"no number is within {bounds}", path)


def _ceil(value: float) -> float:
    return value if math.isinf(value) else math.ceil(value)


def _floor(value: float) -> float:
    return value if math.isinf(value) else math.floor(value)


def counts(
    schema: Mapping[str, Any], path: str, least: str, most: str
) -> dict[str, int]:
    """A pair of counts such as minItems and maxItems; raises SchemaError.

    An upper bound that no answer reaches is left out.
    """
    given: dict[str, int] = {}
    for keyword in (least, most):
        if keyword not in schema:
            continue
        value = schema[keyword]
        if not keywords.is_count(value):
            reason = f'"{keyword}" must be a whole number from 0 on'
            raise SchemaError(reason, pointer(path, keyword))
        if value > _LIMITS[keyword] and keyword == most:
            continue
        if value > _LIMITS[keyword]:
            reason = f'"{keyword}": {value} is above the limit of {_LIMITS[keyword]}'
            raise SchemaError(reason, pointer(path, keyword))
        given[keyword] = int(value)
    if most in given and given.get(least, 0) > given[most]:
        reason = f'"{least}" {given[least]} is above "{most}" {given[most]}'
        raise SchemaError(reason, path)
    return given


def text_patterns(schema: Mapping[str, Any], path: str) -> tuple[list[str], str | None]:
    """Patterns that a string must match, and a format that llguidance knows."""
    patterns: list[str] = []
    native = None
    if "pattern" in schema:
        patterns.append(pattern(schema["pattern"], pointer(path, "pattern")))
    if "format" in schema:
        name = schema["format"]
        if not isinstance(name, str):
            raise SchemaError('"format" must be a string', pointer(path, "format"))
        # Any other is a note to people: JSON Schema's vocabulary 7.2.1.
        if name in formats.PATTERNS:
            patterns.append(rewritten(formats.PATTERNS[name]))
        elif name in formats.NATIVE:
            native = name
    return patterns, native


def pattern(value: Any, path: str) -> str:
    """A pattern in the dialect that llguidance reads; raises SchemaError."""
    if not isinstance(value, str):
        raise SchemaError("a pattern must be a string", path)
    try:
        return rewritten(value)
    except PatternError as error:
        shown = json.dumps(value, ensure_ascii=False)[:100]
        raise SchemaError(f'"pattern" {shown}: {error}', path) from error


@dataclass(slots=True)
class Literals:
    """Checks the values of `enum` and `const`, and counts them."""

    limits: SchemaLimits
    n_values: int = field(default=0)

    def checked(self, value: Any, path: str) -> Any:
        """The value as it is to be written; raises SchemaError."""
        todo = [value]
        while todo:
            inner = todo.pop()
            self.n_values += 1
            if self.n_values > self.limits.max_values:
                reason = f"there are more than {self.limits.max_values} values"
                raise SchemaError(reason, path)
            if isinstance(inner, dict):
                todo += [*inner.values(), *inner]
            elif isinstance(inner, list):
                todo += inner
            elif isinstance(inner, str):
                check_text(inner, path)
            elif keywords.is_number(inner) and not abs(inner) <= SAFE_INTEGER:
                reason = f"{inner} is beyond 2**53, the limit of exact numbers"
                raise SchemaError(reason, path)
        # JSON's -0 is 0, which answers spell without a sign.
        return 0 if keywords.is_number(value) and value == 0 else value


def check_text(text: str, path: str) -> None:
    """Raise SchemaError for characters that answers cannot hold in strings."""
    for character in text:
        is_control = character < " " and character not in "\b\t\n\f\r"
        if is_control or character == "\x7f" or "\ud800" <= character <= "\udfff":
            reason = f"U+{ord(character):04X} cannot be generated in a string"
            raise SchemaError(reason, path)
