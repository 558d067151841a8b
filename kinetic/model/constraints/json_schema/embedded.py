"""Checks the schemas of clients that stand inside grammars of our own making."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kinetic.model.constraints.json_schema import numbers
from kinetic.model.constraints.json_schema.check import (
    GUIDANCE,
    SPACING,
    CheckedSchema,
    check_schema,
)
from kinetic.model.constraints.json_schema.errors import SchemaError
from kinetic.model.constraints.json_schema.values import SchemaLimits

# Strings and regular expressions may hold what looks like a schema.
_PIECE: Final = re.compile(
    r'"(?:\\.|[^"\\\n])*"|//[^\n]*|\#[^\n]*|/(?:\\.|[^/\\\n])+/|(%json)\b'
    r"|^([a-z_][\w-]*)(?=[\[:])",
    re.MULTILINE,
)
_OPTIONS: Final = frozenset(
    ["whitespace_flexible", "whitespace_pattern", "item_separator", "key_separator"]
)


@dataclass(frozen=True, slots=True)
class CheckedLark:
    """A grammar with checked schemas in it."""

    text: str
    bounds: str
    """The same with any JSON of short numbers in place of each schema; "" where none
    lets out numbers that are not bounded by itself."""
    schemas: tuple[tuple[str, CheckedSchema], ...]
    """Each with the request's field that it came from."""


def checked_lark(
    text: str, *, param: str, fields: Mapping[str, str], limits: SchemaLimits
) -> CheckedLark:
    """Check and rewrite the `%json` schemas of Lark text.

    Args:
        text: The grammar. What a schema's top-level `x-guidance` says of white space
            is taken for ours and kept.
        param: The request's field, for errors.
        fields: The request's field of a schema, by the rule which it stands in.
        limits: How large each schema may be.

    Raises SchemaError for a schema that cannot be enforced.
    """
    decoder = json.JSONDecoder()
    out: list[str] = []
    bounds: list[str] = []
    schemas: list[tuple[str, CheckedSchema]] = []
    at = 0
    rule = ""
    while (found := _PIECE.search(text, at)) is not None:
        out.append(text[at : found.end()])
        bounds.append(text[at : found.start(1)] if found[1] else out[-1])
        at = found.end()
        rule = found[2] or rule
        if found[1] is None:
            continue
        try:
            start = re.compile(r"\s*").match(text, at)
            begin = start.end() if start is not None else at
            schema, at = decoder.raw_decode(text, begin)
        except (RecursionError, ValueError) as error:
            deep = isinstance(error, RecursionError)
            reason = "the schema nests too deep" if deep else "the schema is not JSON"
            raise SchemaError(reason, "", field=fields.get(rule, param)) from error
        try:
            checked = check_schema(
                text[begin:at],
                limits=limits,
                bound_blanks=False,
                spacing=_spacing(schema),
            )
        except SchemaError as error:
            error.field = fields.get(rule, param)
            raise
        out.append(f" {json.dumps(checked.schema)}")
        bounds.append(numbers.RULE)
        schemas.append((fields.get(rule, param), checked))
    rules = numbers.beside(checked.schema for _, checked in schemas)
    twin = "".join([*bounds, text[at:], rules]) if rules else ""
    return CheckedLark("".join([*out, text[at:]]), twin, tuple(schemas))


def _spacing(schema: object) -> Mapping[str, object]:
    given = schema.get(GUIDANCE) if isinstance(schema, dict) else None
    if not isinstance(given, dict):
        return SPACING
    return {key: value for key, value in given.items() if key in _OPTIONS}
