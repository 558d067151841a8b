"""Checks a client's JSON Schema, and rewrites it into what llguidance takes safely.

The result allows only answers that the schema allows. It holds the keywords that are
enforced and nothing else: no notes, no `$id`, no `x-guidance` of the client's. Every
`$ref` leads to `#/$defs/<n>`; nothing is ever fetched. The walk keeps a stack of its
own, so that no schema exhausts Python's or the C stack.

Some answers that a schema allows are left out, since nobody asks for them and models
go on making them up: properties that an object with `properties` does not name, values
that are no objects where only an object's keywords stand, and endless white space. That
is done only where a schema bears on a value alone; combined ones mean what they say.

Source: json-schema.org, draft 2020-12; llguidance, docs/json_schema.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kinetic.model.json_schema import blanks, keywords, values
from kinetic.model.json_schema.combined import ANYWHERE, Patterns
from kinetic.model.json_schema.errors import SchemaError, pointer
from kinetic.model.json_schema.references import References, check_circles
from kinetic.model.json_schema.unions import Unions
from kinetic.model.json_schema.values import Literals, SchemaLimits

GUIDANCE: Final = "x-guidance"
ESCAPES: Final = 'nrbtf\\"'
r"""Without u: llguidance lets `"\u0061"` stand for a key that `"a"` may not."""

SPACING: Final = {"whitespace_flexible": True, "whitespace_pattern": blanks.BETWEEN}

Schema = dict[str, Any] | bool


@dataclass(frozen=True, slots=True)
class CheckedSchema:
    """A schema as llguidance is to get it."""

    schema: dict[str, Any]
    places: tuple[tuple[str, Any, Any], ...]
    """All schemas in it, outer ones first: the path in the client's, and a container
    with the key that it stands at there."""

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
) -> CheckedSchema:
    """Check and rewrite a client's schema.

    Args:
        source: The client's schema as JSON text; the order of its keys is that of
            the answer's.
        limits: How large it may be.
        bound_blanks: Bound white space inside strings that the schema leaves free.
        spacing: llguidance's options for white space between JSON's tokens.

    Raises SchemaError, naming the keyword and its place, for what is no schema, what
    cannot be enforced, and what no value can satisfy.
    """
    raw = values.parsed(source, limits)
    walk = _Walk(raw, limits, bound_blanks=bound_blanks)
    checked = walk.schema()
    whole: dict[str, Any] = (
        checked if isinstance(checked, dict) else {"allOf": [checked]}
    )
    whole[GUIDANCE] = {**spacing, "json_allowed_escapes": ESCAPES}
    return CheckedSchema(whole, tuple(walk.places))


@dataclass(slots=True)
class _Task:
    """A schema to be looked at, and where its result is to go."""

    raw: Any
    path: str
    depth: int
    alone: bool
    """No other schema bears on the same value."""
    into: dict[str, Any] | list[Any]
    at: Any
    in_resource: bool = False
    """Below a nested `$id`, where `#` means something else."""
    number: int = field(default=0)


class _Walk:
    def __init__(self, raw: Any, limits: SchemaLimits, *, bound_blanks: bool) -> None:
        self._raw = raw
        self._limits = limits
        self._bound_blanks = bound_blanks
        self._literals = Literals(limits)
        self._references = References(raw)
        self._defs: dict[str, Any] = {}
        self._names: dict[tuple[str, bool], str] = {}
        self._todo: list[_Task] = []
        self.places: list[tuple[str, Any, Any]] = []
        self._same_value: dict[int, list[tuple[int | str, str]]] = {}
        """By task: tasks and definitions that bear on the same value, with paths."""
        self._def_tasks: dict[str, int] = {}
        self._one_ofs: list[tuple[dict[str, Any], str]] = []
        self._narrowed: dict[int, frozenset[str]] = {}
        self._shared: list[tuple[str, Any, Any, str]] = []
        """Where schemas stand that may share a value with others: by name and path."""

    def schema(self) -> Schema:
        """The whole result."""
        box: dict[str, Any] = {}
        self._add(_Task(self._raw, "", 1, alone=True, into=box, at="root"))
        while self._todo:
            task = self._todo.pop()
            checked = self._checked(task)
            task.into[task.at] = checked
            if isinstance(checked, dict) and not checked.keys().isdisjoint(
                keywords.COMBINING
            ):
                own_name = f"\0{task.number}"
                self._shared.append((own_name, task.into, task.at, task.path))
        check_circles(self._same_value, self._def_tasks)
        Patterns(self._defs).check(
            (name, into[at], path) for name, into, at, path in self._shared
        )
        unions = Unions(self._defs, self._narrowed)
        for schema, path in self._one_ofs:
            _decide(schema, path, unions)
        root: Schema = box["root"]
        if self._defs:
            root = {**root, "$defs": self._defs} if isinstance(root, dict) else root
        return root

    def _add(self, task: _Task) -> int:
        self.places.append((task.path, task.into, task.at))
        if len(self.places) > self._limits.max_schemas:
            reason = f"there are more than {self._limits.max_schemas} schemas in it"
            raise SchemaError(reason, task.path)
        if task.depth > self._limits.max_depth:
            reason = f"schemas nest deeper than {self._limits.max_depth}"
            raise SchemaError(reason, task.path)
        task.number = len(self.places)
        self._todo.append(task)
        return task.number

    def _below(
        self, task: _Task, raw: Any, into: Any, at: Any, *steps: str | int
    ) -> None:
        """Add a schema for a part of the value."""
        path = pointer(task.path, *steps)
        if not task.alone:
            name = str(at) if steps[0] == "properties" else ANYWHERE
            self._shared.append((name, into, at, path))
        self._add(
            _Task(
                raw,
                path,
                task.depth + 1,
                alone=task.alone,
                into=into,
                at=at,
                in_resource=task.in_resource,
            )
        )

    def _beside(
        self, task: _Task, raw: Any, into: Any, at: Any, alone: bool, *steps: str | int
    ) -> None:
        """Add a schema for the same value."""
        path = pointer(task.path, *steps)
        inner = _Task(
            raw,
            path,
            task.depth + 1,
            alone=alone,
            into=into,
            at=at,
            in_resource=task.in_resource,
        )
        number = self._add(inner)
        self._same_value.setdefault(task.number, []).append((number, path))

    def _checked(self, task: _Task) -> Schema:
        raw = task.raw
        if isinstance(raw, bool):
            return self._any(task) if raw else False
        if not isinstance(raw, dict):
            reason = (
                f"a schema must be an object or a boolean, not {json.dumps(raw)[:60]}"
            )
            raise SchemaError(reason, task.path)
        if task.path and isinstance(raw.get("$id", raw.get("id")), str):
            task.in_resource = True
        keyword = keywords.refused(raw)
        if keyword is not None:
            reason = f'the keyword "{keyword}" is not supported'
            raise SchemaError(reason, pointer(task.path, keyword))
        if "$schema" in raw and not isinstance(raw["$schema"], str):
            raise SchemaError('"$schema" must be a string', task.path)
        says = {
            keyword: value for keyword, value in raw.items() if _says(keyword, value)
        }
        if not says:
            return self._any(task)
        return self._object_schema(task, says)

    def _any(self, task: _Task) -> Schema:
        if not (task.alone and self._bound_blanks):
            return True
        self._defs.setdefault(blanks.ANY, blanks.any_value())
        return {"$ref": f"#/$defs/{blanks.ANY}"}

    def _object_schema(self, task: _Task, says: dict[str, Any]) -> Schema:
        combining = [keyword for keyword in keywords.COMBINING if keyword in says]
        # `{"allOf": [x]}` and `{"anyOf": [...]}` by themselves add nothing.
        rest = [keyword for keyword in says if keyword not in {*combining, "type"}]
        single = len(combining) == 1 and not rest
        if single and combining == ["allOf"]:
            single = isinstance(says["allOf"], list) and len(says["allOf"]) == 1
        inner_alone = task.alone and single
        task.alone = task.alone and not combining
        out: dict[str, Any] = {}
        allowed = self._types(task, says, out)
        for keyword, value in says.items():
            # In the order of the client's keys, which decides that of properties.
            match keyword:
                case "$ref":
                    self._reference(task, says, out, inner_alone)
                case "allOf" | "anyOf" | "oneOf":
                    self._combined(task, keyword, value, out, inner_alone)
                case "const":
                    path = pointer(task.path, "const")
                    out["const"] = self._literals.checked(value, path)
                case "enum":
                    out["enum"] = self._enum(task, value)
                case _:
                    pass
        if _may_be(allowed, "integer", "number"):
            out |= values.numbers(says, task.path, allowed, alone=task.alone)
        if _may_be(allowed, "string"):
            self._string(
                task, says, out, free="enum" not in says and "const" not in says
            )
        if _may_be(allowed, "array"):
            self._array(task, says, out)
        if _may_be(allowed, "object"):
            self._object(task, says, out)
        return out

    def _types(
        self, task: _Task, says: Mapping[str, Any], out: dict[str, Any]
    ) -> tuple[str, ...]:
        """The types allowed; none named means all."""
        if "type" in says:
            names = values.types(says["type"], pointer(task.path, "type"))
            out["type"] = names[0] if len(names) == 1 else list(names)
            return names
        # Who describes an object's properties alone means an object.
        for name, words in (("object", keywords.OBJECT), ("array", keywords.ARRAY)):
            if task.alone and says.keys() <= set(words):
                out["type"] = name
                self._narrow(out, "type")
                return (name,)
        return ()

    def _narrow(self, out: dict[str, Any], keyword: str) -> None:
        known = self._narrowed.get(id(out), frozenset())
        self._narrowed[id(out)] = known | {keyword}

    def _enum(self, task: _Task, given: Any) -> list[Any]:
        path = pointer(task.path, "enum")
        if not isinstance(given, list) or not given:
            raise SchemaError('"enum" must be a list of values, at least one', path)
        return [
            self._literals.checked(v, pointer(path, i)) for i, v in enumerate(given)
        ]

    # --- Several schemas for one value ----------------------------------------------

    def _reference(
        self, task: _Task, says: Mapping[str, Any], out: dict[str, Any], alone: bool
    ) -> None:
        path = pointer(task.path, "$ref")
        target, where, in_resource = self._references.found(
            says["$ref"], path, in_resource=task.in_resource
        )
        key = (where, alone)
        if key not in self._names:
            name = f"d{len(self._names)}"
            self._names[key] = name
            self._defs[name] = None
            self._def_tasks[name] = self._add(
                _Task(
                    target,
                    where,
                    1,
                    alone=alone,
                    into=self._defs,
                    at=name,
                    in_resource=in_resource,
                )
            )
        name = self._names[key]
        out["$ref"] = f"#/$defs/{name}"
        self._same_value.setdefault(task.number, []).append((name, path))

    def _combined(
        self, task: _Task, keyword: str, given: Any, out: dict[str, Any], alone: bool
    ) -> None:
        path = pointer(task.path, keyword)
        if not isinstance(given, list) or not given:
            raise SchemaError(
                f'"{keyword}" must be a list of schemas, at least one', path
            )
        out[keyword] = [None] * len(given)
        for i, raw in enumerate(given):
            self._beside(task, raw, out[keyword], i, alone, keyword, i)
        if keyword == "oneOf":
            self._one_ofs.append((out, path))

    # --- One type's keywords --------------------------------------------------------

    def _string(
        self, task: _Task, says: Mapping[str, Any], out: dict[str, Any], *, free: bool
    ) -> None:
        lengths = values.counts(says, task.path, "minLength", "maxLength")
        patterns, native = values.text_patterns(says, task.path)
        bound = self._bound_blanks and task.alone and free
        fits = lengths.get("minLength", 0) <= blanks.LONG
        is_short = lengths.get("maxLength", math.inf) <= blanks.SHORT
        if bound and fits and not (patterns or native or is_short):
            patterns.append(blanks.INSIDE)
        out |= lengths
        if native is not None:
            out["format"] = native
        if patterns:
            out["pattern"], *others = patterns
            for other in others:
                out.setdefault("allOf", []).append({"pattern": other})

    def _array(self, task: _Task, says: Mapping[str, Any], out: dict[str, Any]) -> None:
        out |= values.counts(says, task.path, "minItems", "maxItems")
        prefix, prefix_key = says.get("prefixItems"), "prefixItems"
        rest, rest_key = says.get("items"), "items"
        if isinstance(rest, list) and prefix is None:
            # Before 2020-12: `items` for the first ones, `additionalItems` for more.
            prefix, prefix_key = rest, "items"
            rest, rest_key = says.get("additionalItems"), "additionalItems"
        if prefix is not None:
            if not isinstance(prefix, list) or not prefix:
                path = pointer(task.path, prefix_key)
                raise SchemaError(f'"{prefix_key}" must be a list of schemas', path)
            out["prefixItems"] = [None] * len(prefix)
            for i, raw in enumerate(prefix):
                self._below(task, raw, out["prefixItems"], i, prefix_key, i)
        if rest is not None:
            self._below(task, rest, out, "items", rest_key)
        elif task.alone and self._bound_blanks and "type" in out:
            self._below(task, True, out, "items", "items")

    def _object(
        self, task: _Task, says: Mapping[str, Any], out: dict[str, Any]
    ) -> None:
        counts = values.counts(says, task.path, "minProperties", "maxProperties")
        named = self._schemas(task, says, "properties")
        by_pattern = self._schemas(task, says, "patternProperties")
        required = self._required(task, says)
        n_least = counts.get("minProperties", 0)
        is_open = "additionalProperties" in says or bool(by_pattern)
        closed = task.alone and not is_open and "properties" in says
        closed = closed and n_least <= len({*named, *required})
        if n_least > len(required) + 1 and not closed:
            # Keys that no keyword names may come twice, which counts as one.
            reason = f'"minProperties": {n_least} is only supported up to one more than'
            path = pointer(task.path, "minProperties")
            raise SchemaError(f'{reason} "required" names', path)
        out |= counts
        if "properties" in says or (closed and required):
            missing = dict.fromkeys(key for key in required if key not in named)
            names = [*named, *(missing if closed else ())]
            out["properties"] = dict.fromkeys(names)
            for name in names:
                raw = named.get(name, True)
                self._below(task, raw, out["properties"], name, "properties", name)
        if required:
            out["required"] = required
        if by_pattern:
            out["patternProperties"] = {}
            for key, raw in by_pattern.items():
                path = pointer(task.path, "patternProperties", key)
                written = values.pattern(key, path)
                if written in out["patternProperties"]:
                    raise SchemaError("two patterns are the same", path)
                out["patternProperties"][written] = None
                into = out["patternProperties"]
                self._below(task, raw, into, written, "patternProperties", key)
        if "additionalProperties" in says:
            rest = says["additionalProperties"]
            self._rest(task, rest, out, is_map=not (named or required or by_pattern))
        elif closed:
            out["additionalProperties"] = False
            self._narrow(out, "additionalProperties")
        elif task.alone and self._bound_blanks and not by_pattern and "type" in out:
            self._rest(task, True, out, is_map=not (named or required))

    def _rest(
        self, task: _Task, raw: Any, out: dict[str, Any], *, is_map: bool
    ) -> None:
        """Properties that are not named; keys of plain maps have bounded blanks."""
        if is_map and raw is not False and task.alone and self._bound_blanks:
            out["patternProperties"] = {blanks.INSIDE: None}
            out["additionalProperties"] = False
            into, at = out["patternProperties"], blanks.INSIDE
        else:
            into, at = out, "additionalProperties"
        self._below(task, raw, into, at, "additionalProperties")

    def _schemas(
        self, task: _Task, says: Mapping[str, Any], keyword: str
    ) -> dict[str, Any]:
        given = says.get(keyword, {})
        path = pointer(task.path, keyword)
        if not isinstance(given, dict):
            raise SchemaError(f'"{keyword}" must be an object of schemas', path)
        limit = self._limits.max_properties
        if len(given) > limit:
            reason = f'"{keyword}" has {len(given)} entries; the limit is {limit}'
            raise SchemaError(reason, path)
        for key in given:
            values.check_text(key, path)
        return given

    def _required(self, task: _Task, says: Mapping[str, Any]) -> list[str]:
        given = says.get("required", [])
        path = pointer(task.path, "required")
        if isinstance(given, bool):
            # Draft 3 says it in the property; its own object decides.
            reason = '"required" must be a list of names (a boolean is draft 3\'s form)'
            raise SchemaError(reason, path)
        if not isinstance(given, list) or not all(
            isinstance(key, str) for key in given
        ):
            raise SchemaError('"required" must be a list of names', path)
        for key in given:
            values.check_text(key, path)
        return list(dict.fromkeys(given))


def _says(keyword: str, value: Any) -> bool:
    """Whether a keyword is enforced and not plainly without effect."""
    if keyword not in keywords.ENFORCED:
        return False
    return not (keyword == "format" and value is None)


def _may_be(allowed: tuple[str, ...], *names: str) -> bool:
    return not allowed or any(name in allowed for name in names)


def _decide(schema: dict[str, Any], path: str, unions: Unions) -> None:
    """Take oneOf for anyOf where no answer can match two of its schemas."""
    options = schema["oneOf"]
    pair = unions.first_pair(options)
    if pair is not None:
        reason = (
            f'"oneOf" is not supported here: schemas {pair[0]} and {pair[1]} are not'
            ' plainly exclusive (use "anyOf", or a "const" that differs)'
        )
        raise SchemaError(reason, path)
    if "anyOf" in schema:
        schema.setdefault("allOf", []).append({"anyOf": schema.pop("oneOf")})
        return
    schema["anyOf"] = schema.pop("oneOf")
