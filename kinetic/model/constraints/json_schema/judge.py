"""Judges a finished answer by the whole schema, where decoding could not hold it.

The library's keywords are used, but for those that run regular expressions, which in
Python's engine may take for ever, and one that compares every item with every other.
Each look at a keyword costs from a budget, so that no answer takes long. References
lead nowhere but into the schema, as `check_schema` has made sure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Protocol

import jsonschema
from jsonschema.exceptions import ValidationError
from referencing import Registry

from kinetic.model.constraints.json_schema.pattern import rewritten

MOST_LOOKS: Final = 20_000
"""At keywords and values, for one answer; about 5 us each."""

BYTES_A_LOOK: Final = 4_000
"""Of the answer, for each of which a look costs one more: complaints quote values."""

MOST_SHOWN: Final = 200
"""Characters of a warning's path."""


class Matches(Protocol):
    """Whether a pattern, in the dialect of `pattern.rewritten`, is found in a text."""

    def __call__(self, pattern: str, text: str) -> bool:
        """In bounded time; raises an error where it is too much."""


class TooMuchError(Exception):
    """The budget is spent."""


@dataclass(slots=True)
class _Case:
    """One answer being judged."""

    matches: Matches
    cost: int
    """Of each look."""
    n_left: int = MOST_LOOKS

    def spend(self, looks: int) -> None:
        self.n_left -= looks + self.cost
        if self.n_left < 0:
            raise TooMuchError


_case: ContextVar[_Case] = ContextVar("_case")

Found = Iterator[ValidationError]
Check = Callable[[Any, Any, Any, Any], Found | None]


@dataclass(frozen=True, slots=True)
class Judge:
    """A client's schema for finished answers. Thread: any."""

    source: str
    """The schema as JSON text, checked."""
    matches: Matches
    _judge: Any = field(init=False)

    def __post_init__(self) -> None:
        schema = _modern(_read(self.source))
        made = _JUDGE(schema, registry=Registry())
        object.__setattr__(self, "_judge", made)

    def complaint(self, text: str) -> str | None:
        """What the schema has against an answer; None if it matches.

        Args:
            text: The whole answer, JSON.
        """
        token = _case.set(_Case(self.matches, len(text) // BYTES_A_LOOK))
        try:
            error = next(self._judge.iter_errors(_read(text)), None)
        except TooMuchError:
            return "it was not judged by the whole schema: that would take too long"
        except Exception as problem:  # noqa: BLE001 - a guest's schema, and a library
            return f"it was not judged by the whole schema: {type(problem).__name__}"
        finally:
            _case.reset(token)
        if error is None:
            return None
        # A schema of `false` is no keyword: the one that it stands in tells more.
        steps = [error.validator, *reversed(error.absolute_schema_path), "false"]
        keyword = next(step for step in steps if isinstance(step, str))
        where = _pointer(error.absolute_path)
        return f'it breaks "{keyword}" of the schema, at {where}'


def _pointer(path: Any) -> str:
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in path)
    return ("".join(f"/{step}" for step in steps) or "/")[:MOST_SHOWN]


def _read(text: str) -> Any:
    """JSON with exact fractions: for doubles 0.59 is no multiple of 0.01."""
    return json.loads(text, parse_float=_number)


def _number(text: str) -> int | Decimal:
    exact = Decimal(text)
    return int(exact) if exact == exact.to_integral_value() else exact


# --- The schema -----------------------------------------------------------------------

_ONE: Final = frozenset(
    [
        *("not", "if", "then", "else", "contains", "propertyNames", "items"),
        *("additionalProperties", "unevaluatedItems", "unevaluatedProperties"),
    ]
)
_SEVERAL: Final = frozenset(["allOf", "anyOf", "oneOf", "prefixItems"])
_NAMED: Final = frozenset(
    ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"]
)


def _modern(schema: Any) -> Any:
    """The schema in draft 2020-12's keywords, without those that are null."""
    if not isinstance(schema, Mapping):
        return schema
    given = {k: v for k, v in schema.items() if v is not None or k == "const"}
    given.pop("$schema", None)
    if isinstance(given.get("items"), list):
        given["prefixItems"] = given.pop("items")
        if "additionalItems" in given:
            given["items"] = given.pop("additionalItems")
    for side, exclusive in (
        ("minimum", "exclusiveMinimum"),
        ("maximum", "exclusiveMaximum"),
    ):
        if isinstance(given.get(exclusive), bool) and given.pop(exclusive):
            given[exclusive] = given.pop(side, None)
    for key, part in given.pop("dependencies", {}).items():
        is_names = isinstance(part, list | str)
        keyword = "dependentRequired" if is_names else "dependentSchemas"
        names = [part] if isinstance(part, str) else part
        given[keyword] = {**given.get(keyword, {}), key: names}
    out: dict[str, Any] = {}
    for keyword, value in given.items():
        if keyword in _ONE:
            out[keyword] = _modern(value)
        elif keyword in _SEVERAL and isinstance(value, list):
            out[keyword] = [_modern(part) for part in value]
        elif keyword in _NAMED and isinstance(value, Mapping):
            out[keyword] = {key: _modern(part) for key, part in value.items()}
        else:
            out[keyword] = value
    return out


# --- Keywords -------------------------------------------------------------------------


def _found(pattern: str, text: str) -> bool:
    case = _case.get()
    case.spend(50 + len(text) // 10)
    return case.matches(rewritten(pattern), text)


def _pattern(judge: Any, pattern: Any, value: Any, schema: Any) -> Found:
    del schema
    if judge.is_type(value, "string") and not _found(pattern, value):
        yield ValidationError("pattern")


def _pattern_properties(judge: Any, patterns: Any, value: Any, schema: Any) -> Found:
    del schema
    if judge.is_type(value, "object"):
        for pattern, part in patterns.items():
            for key, item in value.items():
                if _found(pattern, key):
                    yield from judge.descend(item, part, path=key, schema_path=pattern)


def _additional_properties(judge: Any, part: Any, value: Any, schema: Any) -> Found:
    if not judge.is_type(value, "object"):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for key, item in value.items():
        if key not in named and not any(_found(pattern, key) for pattern in patterns):
            yield from judge.descend(item, part, path=key)


def _unique_items(judge: Any, wanted: Any, value: Any, schema: Any) -> Found:
    del schema
    if not wanted or not judge.is_type(value, "array"):
        return
    _case.get().spend(len(value))
    spelled = [json.dumps(item, sort_keys=True, default=_spelled) for item in value]
    if len(set(spelled)) < len(spelled):
        yield ValidationError("uniqueItems")


def _spelled(value: Decimal) -> str:
    return f"\0{value.normalize()}"


def _counted(check: Check) -> Check:
    def counted(judge: Any, asked: Any, value: Any, schema: Any) -> Found:
        size = len(asked) if isinstance(asked, list | dict) else 1
        _case.get().spend(size)
        return iter(check(judge, asked, value, schema) or ())

    return counted


_OWN: Final[Mapping[str, Check]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}
_DRAFT: Final = jsonschema.Draft202012Validator
_JUDGE: Final = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    _DRAFT,
    {name: _counted(check) for name, check in {**_DRAFT.VALIDATORS, **_OWN}.items()},
)
