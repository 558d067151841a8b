"""What a parameter's value may be where calls are written as tags.

A string stands there bare, every other value as JSON. The reader tells the two apart by
the schema alone, so a bare text that it would read as something else is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kinetic.model.chat.reply.arguments import Schema, allowed_types, resolve, typed
from kinetic.model.constraints import lark
from kinetic.model.constraints.json_schema import keywords, values

MAX_SCHEMAS = 256
"""How many references and choices are followed to a value's own keywords."""

_OTHER_TYPES = tuple(name for name in keywords.TYPES if name != "string")
_BLANKS = r"[\s\x{1c}-\x{1f}]*"
_LOOKS: Mapping[str, str] = {
    "null": rf"{_BLANKS}(?:null|None){_BLANKS}",
    "boolean": rf"{_BLANKS}(?:true|false|True|False){_BLANKS}",
    "integer": rf"{_BLANKS}[-0-9](?s:.*)",
    "number": rf"{_BLANKS}[-0-9](?s:.*)",
    "array": rf"{_BLANKS}\[(?s:.*)",
    "object": rf"{_BLANKS}\{{(?s:.*)",
}
"""Bare texts that may be read as a value of each type. Of those that go on, the first
character decides, so that a text is never the beginning of both."""


@dataclass(frozen=True, slots=True)
class Values:
    """The forms of one value; an empty one is any text."""

    texts: tuple[str, ...] = ()
    """Strings, as they stand."""
    patterns: tuple[tuple[str, ...], ...] = ()
    """Regular expressions, all of which a whole string matches, for each form."""
    unlike: tuple[str, ...] = ()
    """Regular expressions of texts that none of `patterns` may be."""
    schemas: tuple[Mapping[str, Any], ...] = ()
    """What is written as JSON."""


def values_of(schema: Any, root: Schema) -> Values:
    """The values that a parameter's schema allows.

    Args:
        schema: The parameter's.
        root: The tool's, which references lead into.

    Raises:
        ValueError: A string's schema cannot be held to in this form.
    """
    types = allowed_types(schema, root)
    if types is not None and "string" not in types:
        return Values(schemas=(_standing_alone(schema, root),))
    texts: list[str] = []
    patterns: list[tuple[str, ...]] = []
    others: list[Mapping[str, Any]] = []
    for leaf in _leaves(schema, root):
        literals = leaf.get("enum", [leaf["const"]] if "const" in leaf else None)
        if _is_no_string(leaf):
            others.append(leaf)
        elif isinstance(literals, list):
            texts += [text for text in literals if isinstance(text, str)]
            rest = [value for value in literals if not isinstance(value, str)]
            others += [{"enum": rest}] if rest else []
        else:
            patterns.append(_patterns(leaf))
            others += _without_strings(leaf)
    is_free = () in patterns
    if is_free and all(
        keywords.ENFORCED & other.keys() <= {"type"} for other in others
    ):
        # Whatever such a text is read as fits.
        return Values()
    kinds = [allowed_types(other, root) or _OTHER_TYPES for other in others]
    looks = {_LOOKS[name] for names in kinds for name in names if name in _LOOKS}
    told = [text for text in dict.fromkeys(texts) if typed(text, types) == text]
    if not (told or patterns or others):
        raise ValueError("has no value that can be written as a tag's text")
    return Values(
        texts=tuple(told),
        patterns=tuple(dict.fromkeys(patterns)),
        unlike=tuple(sorted(looks)),
        schemas=tuple(_standing_alone(other, root) for other in others),
    )


def _leaves(schema: Any, root: Schema) -> Iterator[dict[str, Any]]:
    """Schemas without choices and references, of which a value matches one."""
    waiting: list[tuple[Any, frozenset[str]]] = [(schema, frozenset())]
    for _ in range(MAX_SCHEMAS):
        if not waiting:
            return
        current, followed = waiting.pop(0)
        if not isinstance(current, Mapping):
            if current is not False:
                yield {}
            continue
        own = {
            key: value
            for key, value in current.items()
            if key in keywords.ENFORCED and (value is not None or key == "const")
        }
        keyword = next((key for key in keywords.COMBINING if key in own), None)
        if _is_no_string(own):
            yield own
            continue
        refused = next((key for key in keywords.REFUSED if key in current), None)
        if refused is not None:
            raise ValueError(f"has {refused!r}, which is not supported for a text")
        if keyword is None:
            yield own
            continue
        given = own.pop(keyword)
        if keyword == "$ref":
            if given in followed:
                yield {}  # a schema in circles tells nothing
                continue
            followed |= {str(given)}
        parts = _parts(keyword, given, root)
        joined = [_joined(own, part) if own else part for part in parts]
        waiting = [*((part, followed) for part in joined), *waiting]
    raise ValueError("has too many choices or references")


def _parts(keyword: str, given: Any, root: Schema) -> list[Any]:
    """The schemas of a keyword that combines some: a value matches one of them."""
    if keyword == "$ref":
        return [resolve(str(given), root)]
    if not isinstance(given, list) or not given:
        raise ValueError(f"has a {keyword!r} that is no list of schemas")
    if keyword != "allOf":
        return given
    whole: dict[str, Any] = {}
    for part in given:
        whole = _joined(whole, part)
    return [whole]


def _joined(one: Mapping[str, Any], other: Any) -> dict[str, Any]:
    """One schema of two that both hold."""
    if other is True:
        return dict(one)
    if not isinstance(other, Mapping):
        raise ValueError("combines schemas of texts")  # noqa: TRY004 - a 400 as well
    for key in one.keys() & other.keys() & keywords.ENFORCED:
        if one[key] != other[key]:
            raise ValueError(f"combines schemas of texts that differ in {key!r}")
    return {**one, **other}


def _is_no_string(leaf: Mapping[str, Any]) -> bool:
    """Whether a schema's own keywords leave strings out."""
    kind = leaf.get("type")
    if kind is not None:
        return kind != "string" and "string" not in kind
    # Who describes an object's properties alone means an object.
    return bool(leaf) and any(
        leaf.keys() <= set(words) for words in (keywords.OBJECT, keywords.ARRAY)
    )


def _without_strings(leaf: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    kind = leaf.get("type", keywords.TYPES)
    names = [kind] if isinstance(kind, str) else list(kind)
    rest = {key: v for key, v in leaf.items() if key not in keywords.STRING}
    # One at a time: what is said of numbers says nothing of lists.
    return [{**rest, "type": name} for name in names if name != "string"]


def _patterns(leaf: Mapping[str, Any]) -> tuple[str, ...]:
    """What a whole string matches; nothing if that is any."""
    lengths = values.counts(leaf, "", "minLength", "maxLength")
    written, native = values.text_patterns(leaf, "")
    if native is not None:
        written.append(_NATIVE[native])
    found = [_anywhere(pattern) for pattern in written]
    if lengths:
        least, most = lengths.get("minLength", 0), lengths.get("maxLength", "")
        found.append(rf"(?s:.{{{least},{most}}})")
    return tuple(found)


_HEX = "[0-9a-fA-F]"
_H16 = f"{_HEX}{{1,4}}"
_URI_CHAR = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-F][0-9A-F])"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL}){{0,3}}"
_TIME = r"T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DAYS = r"(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_NATIVE: Mapping[str, str] = {
    "duration": rf"^P(?:{_DAYS}(?:{_TIME})?|{_TIME}|[0-9]+W)$",
    "hostname": rf"^{_HOST}$",
    "ipv4": rf"^{_OCTET}(?:\.{_OCTET}){{3}}$",
    "ipv6": rf"^(?:{_H16}:){{7}}{_H16}$|^::(?:{_H16}:){{0,5}}{_H16}$",
    "uri": rf"^https?://{_HOST}(?::[0-9]{{1,4}})?(?:/{_URI_CHAR}*)?(?:\?{_URI_CHAR}*)?$",
    "uuid": rf"^{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}$",
}
"""Formats that llguidance knows only inside JSON: no text that is none of them."""

_SLASH = re.compile(r"(?<!\\)((?:\\\\)*)/")
_TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|.", re.DOTALL)


def _anywhere(pattern: str) -> str:
    """A pattern that is looked for in a text, as one of the whole text."""
    branches: list[list[str]] = [[]]
    depth = 0
    for token in _TOKEN.findall(pattern):
        depth += (token == "(") - (token == ")")
        if token == "|" and depth == 0:
            branches.append([])
        else:
            branches[-1].append(token)
    return f"(?:{'|'.join(map(_whole, branches))})"


def _whole(branch: list[str]) -> str:
    any_text = "(?s:.*)"
    start, end = branch[:1] == ["^"], branch[-1:] == ["$"]
    inner = branch[start : len(branch) - end]
    if "^" in inner or "$" in inner:
        raise ValueError("has a pattern with ^ or $ inside it")
    text = _SLASH.sub(r"\1\/", "".join(inner))
    return f"{'' if start else any_text}(?:{text}){'' if end else any_text}"


def _standing_alone(schema: Any, root: Schema) -> Mapping[str, Any]:
    """A schema whose references lead into a copy of the root."""
    if not isinstance(schema, Mapping):
        return {"allOf": [schema]}
    if '"$ref"' not in json.dumps(schema):
        return schema
    moved = _moved(schema)
    return {**moved, "$defs": {**moved.get("$defs", {}), _BASE: _moved(root)}}


_BASE = "tool"


def _moved(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: f"#/$defs/{_BASE}{item[1:]}"
            if key == "$ref" and isinstance(item, str) and item.startswith("#")
            else _moved(item)
            for key, item in value.items()
        }
    return [_moved(item) for item in value] if isinstance(value, list) else value


def terminal(patterns: tuple[str, ...], unlike: tuple[str, ...], end: str) -> str:
    """A terminal for a bare text and the newline behind it, up to its closing tag.

    Args:
        patterns: What the text matches.
        unlike: What it must not match.
        end: The closing tag; it is a part of the terminal, or `""` and stands in none.
    """
    tag = lark.escaped("</parameter>")
    closer = lark.escaped(end)
    parts = [f"/{pattern}\\n{closer}/" for pattern in patterns or ("(?s:.*)",)]
    parts += [f"~/{pattern}\\n{closer}/" for pattern in unlike]
    parts.append(f"~/(?s:.*){tag}(?s:.{'+' if end else '*'})/")
    return f"({' & '.join(parts)})"
