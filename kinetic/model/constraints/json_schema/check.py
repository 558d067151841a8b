"""Checks a client's JSON Schema, and rewrites it into what llguidance takes safely.

The result allows only answers that the schema allows, but for keywords that are left to
a judge. It holds the keywords that are enforced and nothing else: no notes, no `$id`,
no `x-guidance` of the client's. Every `$ref` leads to `#/$defs/<n>`; nothing is ever
fetched. The walk keeps a stack of its own, so that no schema exhausts Python's or the C
stack.

Some answers that a schema allows are left out, since nobody asks for them and models
go on making them up: properties that an object with `properties` does not name, values
that are no objects where only an object's keywords stand, and endless white space. That
is done only where a schema bears on a value alone; combined ones mean what they say.

Source: json-schema.org, draft 2020-12; llguidance, docs/json_schema.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kinetic.model.constraints.json_schema import blanks, values
from kinetic.model.constraints.json_schema.errors import SchemaError
from kinetic.model.constraints.json_schema.values import SchemaLimits
from kinetic.model.constraints.json_schema.walk import SchemaWalk

GUIDANCE: Final = "x-guidance"
ESCAPES: Final = 'nrbtf\\"'
r"""Without u: llguidance lets `"\u0061"` stand for a key that `"a"` may not."""

SPACING: Final = {"whitespace_flexible": True, "whitespace_pattern": blanks.BETWEEN}


@dataclass(frozen=True, slots=True)
class CheckedSchema:
    """A schema as llguidance is to get it."""

    schema: dict[str, Any]
    places: tuple[tuple[str, Any, Any], ...]
    """All schemas in it, outer ones first: the path in the client's, and a container
    with the key that it stands at there."""
    judged: str | None = None
    """The client's as JSON text, if this lets out answers that break it."""

    def parts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Schemas in it by the client's paths, inner ones first, each whole."""
        frame: dict[str, Any] = {
            key: self.schema[key] for key in ("$defs", GUIDANCE) if key in self.schema
        }
        for path, into, at in reversed(self.places):
            part = into[at]
            if isinstance(part, dict):
                yield path, {**part, **frame}


def check_schema(
    source: str,
    *,
    limits: SchemaLimits,
    bound_blanks: bool = True,
    spacing: Mapping[str, Any] = SPACING,
    strict: bool = False,
) -> CheckedSchema:
    """Check and rewrite a client's schema.

    Args:
        source: The client's schema as JSON text; the order of its keys is that of
            the answer's.
        limits: How large it may be.
        bound_blanks: Bound white space inside strings that the schema leaves free.
        spacing: llguidance's options for white space between JSON's tokens.
        strict: Refuse keywords that could only be judged.

    Raises SchemaError, naming the keyword and its place, for what is no schema, what
    is not served, and what no value can satisfy.
    """
    raw = values.parsed(source, limits)
    walk = SchemaWalk(raw, limits, bound_blanks=bound_blanks)
    checked = walk.schema()
    whole: dict[str, Any] = (
        checked if isinstance(checked, dict) else {"allOf": [checked]}
    )
    whole[GUIDANCE] = {**spacing, "json_allowed_escapes": ESCAPES}
    if strict:
        for path, keyword in sorted(walk.loose.items()):
            reason = (
                f'"{keyword}" cannot be held while decoding, and strict asks for it'
            )
            raise SchemaError(reason, path)
    is_judged = bool(walk.loose) or walk.has_far_bounds
    return CheckedSchema(whole, tuple(walk.places), source if is_judged else None)
