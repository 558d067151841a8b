"""The fields of requests as data: what each is called, takes, means and comes from.

One table serves three ends. The voluptuous schema that reads a body is built from it,
so is the text of every error about a field, and docs/api.md repeats it row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import voluptuous as vol

from kinetic.errors import RequestError
from kinetic.web.fields import readers
from kinetic.web.fields.readers import Reader, Unfit, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a request."""

    name: str
    read: Reader
    """Gives the value that the server works with, or raises Unfit."""
    range: str
    """What fits, in words that read on behind "must be"."""
    default: str
    """What an absent field, or null, means."""
    source: str
    """Whose name and meaning it is."""
    meaning: str
    aliases: tuple[str, ...] = ()
    """Other spellings; two of them in one body must agree."""

    @property
    def spellings(self) -> tuple[str, ...]:
        """The name and the aliases."""
        return (self.name, *self.aliases)


LLAMA = "llama-server"
OPENAI = "OpenAI"
KINETIC = "Kinetic"

RECEIPT = Field(
    name="receipt",
    read=readers.flag,
    range="true or false",
    default="false",
    source=KINETIC,
    meaning="Adds a receipt that `kinetic verify-receipt` can rerun.",
)
"""Every route that generates takes it."""


# --- Reading ------------------------------------------------------------------------


def checked(field: Field) -> Callable[[Any], Any]:
    """A field's reader for a voluptuous schema; null passes as "not given"."""

    def validate(value: Any) -> Any:
        if value is None:
            return None
        try:
            return field.read(value)
        except Unfit as unfit:
            said = str(unfit) or f"must be {field.range}, not {shown(value)}"
            raise vol.Invalid(said) from None

    return validate


def schema_of(table: Iterable[Field]) -> vol.Schema:
    """The schema of a flat object; keys that the table does not have pass unread."""
    return vol.Schema(
        {
            vol.Optional(spelling): checked(field)
            for field in table
            for spelling in field.spellings
        },
        extra=vol.ALLOW_EXTRA,
    )


@dataclass(frozen=True, slots=True)
class FieldReader:
    """Reads the fields of one table out of bodies."""

    table: tuple[Field, ...]
    schema: vol.Schema

    @classmethod
    def of(cls, table: Iterable[Field]) -> FieldReader:
        """Build the schema, once."""
        kept = tuple(table)
        return cls(kept, schema_of(kept))

    def read(self, body: Mapping[str, Any], *, where: str = "") -> dict[str, Any]:
        """The fields that were given, by their names; null counts as not given.

        Raises RequestError naming field, value and limit. `where` stands before the
        names, for objects inside a body ("options.").
        """
        values = validated(self.schema, body, where=where)
        found: dict[str, Any] = {}
        for field in self.table:
            given = [s for s in field.spellings if values.get(s) is not None]
            if not given:
                continue
            first, *others = given
            for other in others:
                if values[other] != values[first]:
                    message = (
                        f"{where}{first} is {shown(body[first])} and {where}{other},"
                        f" which means the same, is {shown(body[other])}"
                    )
                    raise RequestError(message, param=f"{where}{other}")
            found[field.name] = values[first]
        return found


def validated(schema: vol.Schema, value: object, *, where: str = "") -> Any:
    """Run a schema; its first error as a RequestError that names the place."""
    try:
        return schema(value)
    except vol.MultipleInvalid as invalid:
        first = invalid.errors[0]
        name = where + path_text(first.path)
        raise RequestError(f"{name} {_said(first)}", param=name) from None


def path_text(path: Sequence[object]) -> str:
    """A place inside a body as JavaScript would write it: messages[0].content.

    Names of a client's own are cut where they are long: errors repeat the place.
    """
    text = ""
    for step in path:
        if isinstance(step, str) and len(step) > _NAME_CHARS_MAX:
            step = f"{step[:_NAME_CHARS_MAX]}…"  # noqa: PLW2901
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else f"{step}"
    return text


def _said(error: vol.Invalid) -> str:
    match error:
        case vol.RequiredFieldInvalid():
            return "is missing"
        case vol.DictInvalid():
            return "must be an object"
        case vol.SequenceTypeInvalid():
            return "must be a list"
        case _:
            return str(error.msg)


# --- Names nobody knows -------------------------------------------------------------

_NAME_CHARS_MAX = 80
"""No field's name is longer, whatever is put between its letters."""

_NEAR_SHORT = 1
_NEAR_LONG = 2
_LONG_NAME = 8
_SHORT_NAME = 4


def misspelt(name: str, known: Iterable[str]) -> str | None:
    """The known name that an unknown one was probably meant to be.

    One slip of the finger in a name of 4 to 7 characters, two in a longer one, or
    other case and separators (topP, max-tokens).
    """
    if len(name) > _NAME_CHARS_MAX:
        return None
    plain = _plain(name)
    for other in known:
        if _plain(other) == plain:
            return other
    if len(name) < _SHORT_NAME:
        return None
    slips = _NEAR_LONG if len(name) >= _LONG_NAME else _NEAR_SHORT
    near = [(d, o) for o in known if (d := edit_distance(name, o, slips)) <= slips]
    return min(near)[1] if near else None


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def edit_distance(one: str, other: str, limit: int) -> int:
    """Insertions, deletions, changes and swaps of neighbours between two names.

    Exact up to `limit`, anything above it beyond.
    """
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
