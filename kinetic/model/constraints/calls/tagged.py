r"""Grammars of values that stand between tags, as the reader takes them.

A string is its text; anything else is JSON. Where a schema allows both, text that the
reader would take for JSON is no string. A raw value ends with the next closing tag that
a further tag follows, so no value holds that. What cannot be held of a raw text is left
to the judge: `not`, patterns with anchors in groups, some formats.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

from kinetic.model.chat.reply.arguments import Schema, resolve, type_of, typed
from kinetic.model.constraints import lark
from kinetic.model.constraints.json_schema import formats
from kinetic.model.constraints.json_schema.keywords import NUMBER, STRING, TYPES
from kinetic.model.constraints.json_schema.pattern import PatternError, rewritten

MAX_SCHEMAS: Final = 1_000
"""How many are looked through for one value."""
MAX_LEAVES: Final = 1_000
MAX_DEPTH: Final = 80
"""Of a schema's text; what is deeper is refused when it is checked."""
MOST_COUNTED: Final = 64
"""Characters that are counted beside what shuts texts out; more is judged."""
LARGEST: Final = 1_000_000
"""Bounds of lengths above it are left to the judge."""

ALL: Final = tuple(name for name in TYPES if name != "integer")
_ANY: Final = "(?s:.*)"
_PAD: Final = r"[\s\x1c-\x1f]*"
"""What the reader strips off JSON."""
_INTEGER: Final = "-?(0|[1-9][0-9]{0,14})"
_SCALARS: Final = {
    "null": "null",
    "boolean": "true|false",
    "integer": _INTEGER,
    "number": rf"{_INTEGER}(\.[0-9]{{1,9}})?",
}
_READ_AS: Final = {
    "null": f"{_PAD}(null|None){_PAD}",
    "boolean": f"{_PAD}(true|false|True|False){_PAD}",
    "number": f"{_PAD}-?[0-9][-+0-9.eE]*{_PAD}",
    "array": rf"{_PAD}[\[{{](?s:.*)",
    "string": f'{_PAD}"(?s:.*)',
}
"""Texts that are read as other than strings; more than there are."""
_BEGINS_AS_NUMBER: Final = f"{_PAD}[-0-9](?s:.*)"
_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_FORMATS: Final = {
    **formats.PATTERNS,
    "uuid": r"^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
    "ipv4": rf"^{_OCTET}(?:\.{_OCTET}){{3}}$",
}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One type that a value may have, and the schemas that all hold for it."""

    type: str
    schemas: tuple[Schema, ...] = ()

    def listed(self) -> list[Any] | None:
        """The values that are listed, if they are."""
        lists = [
            [part["const"]] if "const" in part else part["enum"]
            for part in self.schemas
            if "const" in part or isinstance(part.get("enum"), list)
        ]
        if not lists:
            return None
        first, *others = lists
        return [
            value
            for value in first
            if _meet(type_of(value), self.type)
            and all(any(_same(value, v) for v in other) for other in others)
        ]

    def json(self) -> dict[str, Any]:
        """One schema that says the same."""
        if len(self.schemas) == 1:
            return {**self.schemas[0], "type": self.type}
        return {"type": self.type, **({"allOf": self.schemas} if self.schemas else {})}


@dataclass(frozen=True, slots=True)
class Value:
    """What may stand between the tags: raw texts, JSON, or either."""

    raw: str
    """A terminal's body; "" if none."""
    schema: Any
    """What JSON has to follow; None if there is none."""
    ends_early: bool = False
    """Any closing tag ends the raw texts: to shut out only those that the reader takes
    for an end costs too much beside a long bound."""


def value(
    schema: Any, root: Schema, types: frozenset[str] | None, *, end: str
) -> Value:
    """What a parameter's value may be.

    Args:
        schema: The parameter's own.
        root: The tool's whole, which references are resolved in.
        types: Those that the reader takes the text for; None for any.
        end: A regular expression that no raw text may hold.

    Raises:
        ValueError: No text is read as a value that the schema allows.
    """
    whole = self_contained(schema, root)
    try:
        known = _Leaves(whole if isinstance(whole, Mapping) else {}).of(whole)
    except _UnclearError:
        known = [Leaf(name) for name in ALL]
    strings = [leaf for leaf in known if leaf.type == "string"]
    if not strings:
        return Value("", whole)
    others = [leaf for leaf in known if leaf.type != "string"]
    if not others and types == frozenset(("string",)) and len(strings) == 1:
        most = _most(strings[0])
        if most is not None:
            return Value(f"/(?s:.{{0,{most}}})/", None, ends_early=True)
    scalars = [_scalar(leaf) for leaf in others]
    as_json = [leaf for leaf in others if _scalar(leaf) is None]
    banned = list(_read_as(types))
    if any(leaf.type in {"integer", "number"} for leaf in as_json):
        banned.append(_BEGINS_AS_NUMBER)
    texts = [text for leaf in strings if (text := _string(leaf, types, end, banned))]
    texts += [f"/{text}/" for text in scalars if text]
    if not texts and not as_json:
        raise ValueError(f"no text is a value of {json.dumps(schema)[:100]}")
    parts = [leaf.json() for leaf in as_json]
    inner: Any = None
    if parts:
        inner = parts[0] if len(parts) == 1 else {"anyOf": parts}
        if isinstance(whole, Mapping) and "$defs" in whole:
            inner = {**inner, "$defs": whole["$defs"]}
    return Value(" | ".join(f"({text})" for text in dict.fromkeys(texts)), inner)


def _read_as(types: frozenset[str] | None) -> Iterator[str]:
    kinds = set(TYPES) if types is None else types
    if kinds == {"string"}:
        return
    yield from (_READ_AS[name] for name in ("null", "boolean") if name in kinds)
    if kinds & {"integer", "number"}:
        yield _READ_AS["number"]
    if kinds & {"array", "object"}:
        yield _READ_AS["array"]
    if "string" not in kinds:
        yield _READ_AS["string"]


def _scalar(leaf: Leaf) -> str | None:
    """A regular expression of a value without parts; None if only JSON says it."""
    listed = leaf.listed()
    is_bounded = any(not part.keys().isdisjoint(NUMBER) for part in leaf.schemas)
    if leaf.type not in _SCALARS or (is_bounded and leaf.type in {"integer", "number"}):
        return None
    if listed is None:
        return _SCALARS[leaf.type]
    return "|".join(lark.escaped(json.dumps(item)) for item in listed)


def _string(
    leaf: Leaf, types: frozenset[str] | None, end: str, banned: Sequence[str]
) -> str:
    """Raw texts that are a string; "" if there are none."""
    asked = [text for part in leaf.schemas for text in _asked(part)]
    listed = leaf.listed()
    if listed is None:
        # What a text cannot hold is not shut out: that alone may cost 30 ms a step.
        if all(_may_hold_tag(text) for text in asked):
            banned = [f"(?s:.*){end}(?s:.*)", *banned]
        kept = [f"/{text}/" for text in asked or [_ANY]]
        return " & ".join([*kept, *(f"~/{text}/" for text in banned)])
    inner = re.compile(end)
    texts = [
        lark.escaped(text)
        for text in listed
        if typed(text, types) == text and not inner.search(text) and _is_whole(text)
    ]
    alone = f"/(?:{'|'.join(texts)})/"
    return " & ".join([alone, *(f"/{text}/" for text in asked)]) if texts else ""


def _is_whole(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _asked(schema: Schema) -> Iterator[str]:
    """Regular expressions of whole texts, for what can be said so of a string."""
    least = _length(schema.get("minLength")) or 0
    most = _length(schema.get("maxLength"))
    least = least if least <= MOST_COUNTED else 0
    most = most if most is not None and most <= MOST_COUNTED else None
    if least or most is not None:
        yield f"(?s:.{{{least},{'' if most is None else most}}})"
    for pattern in (schema.get("pattern"), _FORMATS.get(str(schema.get("format")))):
        found = whole_texts(pattern) if isinstance(pattern, str) else None
        if found is not None and _counts(found) > MOST_COUNTED and _may_hold_tag(found):
            # How often is left to the judge.
            found = _TIMES.sub(lambda times: "+" if int(times[1]) else "*", found)
        if found is not None:
            yield found


_TIMES: Final = re.compile(r"(?<!\\x)(?<!\\[pP])\{([0-9]+)(?:,([0-9]*))?\}")


def _counts(text: str) -> int:
    """How far an expression has to count at most."""
    return prod(int(most or least) or 1 for least, most in _TIMES.findall(text))


def _most(leaf: Leaf) -> int | None:
    """The upper bound of a string's length, if nothing else is said of it."""
    said = [part for part in leaf.schemas if not part.keys().isdisjoint(_TELLING)]
    if len(said) != 1 or not said[0].keys().isdisjoint(_TELLING - {"maxLength"}):
        return None
    return _length(said[0]["maxLength"])


_TELLING: Final = frozenset(["maxLength", "minLength", "pattern", "enum", "const"]) | {
    "format"
}


def _length(value: Any) -> int | None:
    """A bound that can be held; None if it is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value <= LARGEST else None


def whole_texts(pattern: str) -> str | None:
    """Texts that a pattern is found in, as an expression without anchors.

    None where it is no pattern that can be held, or has anchors inside groups.
    """
    try:
        spelled = rewritten(pattern)
    except PatternError:
        return None
    options = []
    for option in _options(spelled):
        body = option.removeprefix("^")
        before = "" if body != option else "(?s:.*)"
        inner = body.removesuffix("$")
        after = "" if inner != body else "(?s:.*)"
        if any(piece in {"^", "$"} for piece in _pieces(inner)):
            return None
        options.append(f"{before}(?:{inner}){after}")
    return "|".join(options)


_PIECE: Final = re.compile(r"\[[^\]]*\]|\\.|.", re.DOTALL)


def _pieces(pattern: str) -> list[str]:
    return _PIECE.findall(pattern)


_CODE: Final = re.compile(r"\\x\{([0-9a-f]+)\}")


def _may_hold_tag(text: str) -> bool:
    """Whether a "<" may be in texts that a rewritten expression matches."""
    for piece in _pieces(text):
        if piece == "." or piece[0] == "\\":
            return True
        if piece[0] == "[":
            members = _CODE.sub(lambda code: f"\\U{int(code[1], 16):08x}", piece)
            try:
                if re.fullmatch(members, "<"):
                    return True
            except re.error:
                return True
    return False


def _options(pattern: str) -> list[str]:
    """A rewritten pattern's alternatives."""
    options, depth = [""], 0
    for piece in _pieces(pattern):
        depth += (piece == "(") - (piece == ")")
        if piece == "|" and not depth:
            options.append("")
        else:
            options[-1] += piece
    return options


class _UnclearError(Exception):
    """A schema is too large to be looked through, or goes in circles."""


class _Leaves:
    """The types of one value, each with what holds for it."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._n_seen = 0

    def of(self, schema: Any) -> list[Leaf]:
        """What a schema allows; raises _UnclearError."""
        self._n_seen += 1
        if self._n_seen > MAX_SCHEMAS:
            raise _UnclearError
        if schema is False:
            return []
        if not isinstance(schema, Mapping) or not schema:
            return [Leaf(name) for name in ALL]
        sets = [_own(schema)]
        if isinstance(schema.get("$ref"), str):
            sets.append(self._referred(schema["$ref"]))
        sets += [self.of(part) for part in _list(schema, "allOf")]
        for keyword in ("anyOf", "oneOf"):
            if parts := _list(schema, keyword):
                sets.append([leaf for part in parts for leaf in self.of(part)])
        found = sets[0]
        for other in sets[1:]:
            if len(found) * len(other) > 10 * MAX_LEAVES:
                raise _UnclearError
            found = _both(found, other)
        if len(found) > MAX_LEAVES:
            raise _UnclearError
        return found

    def _referred(self, reference: str) -> list[Leaf]:
        try:
            return self.of(resolve(reference, self._root))
        except RecursionError as error:
            raise _UnclearError from error


def _both(one: Sequence[Leaf], two: Sequence[Leaf]) -> list[Leaf]:
    return [
        Leaf(both, (*left.schemas, *right.schemas))
        for left, right in product(one, two)
        if (both := _meet(left.type, right.type))
    ]


_COMBINED: Final = frozenset(["$ref", "allOf", "anyOf", "oneOf", "$defs", "type"])


def _own(schema: Schema) -> list[Leaf]:
    """What a schema says by itself."""
    rest = {k: v for k, v in schema.items() if k not in _COMBINED}
    rest = {k: v for k, v in rest.items() if v is not None or k == "const"}
    rest.pop("nullable", None)
    given = schema.get("type")
    names: Sequence[Any] = ALL if given is None else given
    names = [names] if isinstance(names, str) else names
    listed = [rest["const"]] if "const" in rest else rest.get("enum")
    if isinstance(listed, list):
        kinds = dict.fromkeys(type_of(value) for value in listed)
        both = [_meet(kind, name) for name in names for kind in kinds]
        names = list(dict.fromkeys(name for name in both if name))
    kept = {"string": {*STRING, "enum", "const"}}
    return [
        Leaf(name, (said,) if (said := _said(rest, kept.get(name))) else ())
        for name in names
    ]


def _said(rest: Schema, keys: set[str] | None) -> Schema:
    return rest if keys is None else {k: v for k, v in rest.items() if k in keys}


def _list(schema: Schema, keyword: str) -> list[Any]:
    parts = schema.get(keyword)
    return parts if isinstance(parts, list) else []


def _meet(one: str, two: str) -> str | None:
    """The type that a value has which has both."""
    if one == two:
        return one
    return "integer" if {one, two} == {"integer", "number"} else None


def _same(one: Any, two: Any) -> bool:
    return one == two and isinstance(one, bool) == isinstance(two, bool)


def self_contained(schema: Any, root: Schema) -> Any:
    """A schema with all that it refers to in it."""
    names: dict[str, str] = {}
    waiting: list[str] = []

    def copied(part: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            return part
        if isinstance(part, list):
            return [copied(item, depth + 1) for item in part]
        if not isinstance(part, Mapping):
            return part
        out: dict[str, Any] = {}
        for key, inner in part.items():
            is_ref = key == "$ref" and isinstance(inner, str)
            if is_ref and (inner == "#" or inner.startswith("#/")):
                if inner not in names:
                    names[inner] = f"value_{len(names)}"
                    waiting.append(inner)
                out[key] = f"#/$defs/{names[inner]}"
            elif key == "enum" and isinstance(inner, list):
                out[key] = inner
            else:
                out[key] = copied(inner, depth + 1)
        return out

    whole = copied(schema, 0)
    defs: dict[str, Any] = {}
    while waiting:
        reference = waiting.pop()
        target = resolve(reference, root)
        defs[names[reference]] = True if target is None else copied(target, 0)
    if defs and isinstance(whole, dict):
        whole["$defs"] = {**whole.get("$defs", {}), **defs}
    return whole
