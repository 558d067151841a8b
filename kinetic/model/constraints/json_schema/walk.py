"""Walks a schema with a stack of its own, and builds its checked form."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kinetic.model.constraints.json_schema import (
    blanks,
    keywords,
    kinds,
    rewrites,
    values,
)
from kinetic.model.constraints.json_schema.combined import ANYWHERE, Patterns
from kinetic.model.constraints.json_schema.errors import SchemaError, pointer
from kinetic.model.constraints.json_schema.numbers import most_of
from kinetic.model.constraints.json_schema.references import References, check_circles
from kinetic.model.constraints.json_schema.task import Task
from kinetic.model.constraints.json_schema.unions import Unions
from kinetic.model.constraints.json_schema.values import Literals, SchemaLimits

Schema = dict[str, Any] | bool


class SchemaWalk:
    """One schema being checked and rewritten; raises SchemaError throughout."""

    def __init__(self, raw: Any, limits: SchemaLimits, *, bound_blanks: bool) -> None:
        self._raw = raw
        self.limits = limits
        self.bound_blanks = bound_blanks
        self._literals = Literals(limits)
        self._references = References(raw)
        self._defs: dict[str, Any] = {}
        self._names: dict[tuple[str, bool], str] = {}
        self._todo: list[Task] = []
        self.places: list[tuple[str, Any, Any]] = []
        self._n_schemas = 0
        self.loose: dict[str, str] = {}
        """Keywords that are not held, or not wholly, by their paths."""
        self._has_patterns = False
        """Some object's properties are told by patterns."""
        self.has_far_bounds = False
        """A bound was dropped that hardly any answer reaches."""
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
        self._add(Task(self._raw, "", 1, alone=True, into=box, at="root"))
        while self._todo:
            task = self._todo.pop()
            checked = self._checked(task)
            task.into[task.at] = checked
            is_combined = isinstance(checked, dict) and not (
                checked.keys().isdisjoint(keywords.COMBINING)
            )
            if is_combined and not task.is_aside:
                own_name = f"\0{task.number}"
                self._shared.append((own_name, task.into, task.at, task.path))
        check_circles(self._same_value, self._def_tasks)
        Patterns(self._defs).check(
            (name, into[at], path) for name, into, at, path in self._shared
        )
        unions = Unions(self._defs, self._narrowed)
        for schema, path in self._one_ofs:
            if not _decide(schema, unions):
                self.loose[path] = "oneOf"
        for path, keyword in self.loose.items():
            if keyword == "unevaluatedProperties" and self._has_patterns:
                # Its judge would run the patterns in Python's engine.
                reason = f'"{keyword}" is not supported beside "patternProperties"'
                raise SchemaError(reason, path)
        root: Schema = box["root"]
        if self._defs:
            root = {**root, "$defs": self._defs} if isinstance(root, dict) else root
        return root

    def _add(self, task: Task) -> int:
        if not task.is_aside:
            self.places.append((task.path, task.into, task.at))
        self._n_schemas += 1
        if self._n_schemas > self.limits.max_schemas:
            reason = f"there are more than {self.limits.max_schemas} schemas in it"
            raise SchemaError(reason, task.path)
        if task.depth > self.limits.max_depth:
            reason = f"schemas nest deeper than {self.limits.max_depth}"
            raise SchemaError(reason, task.path)
        task.number = self._n_schemas
        self._todo.append(task)
        return task.number

    def below(
        self, task: Task, raw: Any, into: Any, at: Any, *steps: str | int
    ) -> None:
        """Add a schema for a part of the value."""
        path = pointer(task.path, *steps)
        if not task.alone and not task.is_aside:
            name = str(at) if steps[0] == "properties" else ANYWHERE
            self._shared.append((name, into, at, path))
        self._add(
            Task(
                raw,
                path,
                task.depth + 1,
                alone=task.alone,
                into=into,
                at=at,
                in_resource=task.in_resource,
                is_aside=task.is_aside,
            )
        )

    def leave(self, task: Task, keyword: str, given: Mapping[str, Any]) -> None:
        """Leave a keyword to the judge; what it says is read for its faults alone."""
        path = pointer(task.path, keyword)
        if rewrites.is_strange(keyword, given[keyword]):
            shown = json.dumps(given[keyword])[:60]
            raise SchemaError(f'"{keyword}" cannot be {shown}', path)
        self.loose[path] = keyword
        for steps, raw in rewrites.inner(keyword, given):
            into: dict[str, Any] = {}
            where = pointer(task.path, *steps)
            aside = Task(raw, where, task.depth + 1, alone=False, into=into, at="aside")
            aside.in_resource, aside.is_aside = task.in_resource, True
            self._add(aside)

    def _beside(
        self, task: Task, raw: Any, into: Any, at: Any, alone: bool, *steps: str | int
    ) -> None:
        """Add a schema for the same value."""
        path = pointer(task.path, *steps)
        inner = Task(
            raw,
            path,
            task.depth + 1,
            alone=alone,
            into=into,
            at=at,
            in_resource=task.in_resource,
            is_aside=task.is_aside,
        )
        number = self._add(inner)
        self._same_value.setdefault(task.number, []).append((number, path))

    def _checked(self, task: Task) -> Schema:
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
        # Generators of tool definitions write null for what they leave out.
        given = {k: v for k, v in raw.items() if v is not None or k == "const"}
        for keyword in keywords.REFUSED:
            if keyword in given:
                reason = f'the keyword "{keyword}" is not supported'
                raise SchemaError(reason, pointer(task.path, keyword))
        self._has_patterns |= "patternProperties" in given
        held = rewrites.rewritten(given, self._finder(task), alone=task.alone)
        if held.is_never:
            return False
        for keyword in held.loose:
            self.leave(task, keyword, given)
        says = {k: v for k, v in held.says.items() if k in keywords.ENFORCED}
        if not says:
            return self._any(task)
        return self._object_schema(task, says)

    def _finder(self, task: Task) -> Callable[[Any], Any]:
        path = pointer(task.path, "$ref")

        def found(ref: Any) -> Any:
            return self._references.found(ref, path, in_resource=task.in_resource)[0]

        return found

    def _any(self, task: Task) -> Schema:
        if not (task.alone and self.bound_blanks):
            return True
        self._defs.setdefault(blanks.ANY, blanks.any_value())
        return {"$ref": f"#/$defs/{blanks.ANY}"}

    def _object_schema(self, task: Task, says: dict[str, Any]) -> Schema:
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
            self._numbers(task, says, out, allowed)
        if _may_be(allowed, "string"):
            kinds.string(
                self, task, says, out, free="enum" not in says and "const" not in says
            )
        if _may_be(allowed, "array"):
            kinds.array(self, task, says, out)
        if _may_be(allowed, "object"):
            kinds.object_(self, task, says, out)
        # llguidance takes properties in the order in which keywords bring them.
        for keyword in sorted(out, key=_place(says)):
            out[keyword] = out.pop(keyword)
        return out

    def _types(
        self, task: Task, says: Mapping[str, Any], out: dict[str, Any]
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
                self.narrow(out, "type")
                return (name,)
        return ()

    def _numbers(
        self,
        task: Task,
        says: Mapping[str, Any],
        out: dict[str, Any],
        allowed: tuple[str, ...],
    ) -> None:
        """Add bounds; an open end would let out whole parts of any length."""
        bounds = values.numbers(says, task.path, allowed)
        out |= bounds
        most = most_of(bounds.get("multipleOf"))
        for keyword, limit in (("minimum", -most), ("maximum", most)):
            if bounds and keyword not in bounds:
                out[keyword] = limit
                self.narrow(out, keyword)

    def narrow(self, out: dict[str, Any], keyword: str) -> None:
        """Remember a keyword that the client did not write."""
        known = self._narrowed.get(id(out), frozenset())
        self._narrowed[id(out)] = known | {keyword}

    def _enum(self, task: Task, given: Any) -> list[Any]:
        path = pointer(task.path, "enum")
        if not isinstance(given, list) or not given:
            raise SchemaError('"enum" must be a list of values, at least one', path)
        return [
            self._literals.checked(v, pointer(path, i)) for i, v in enumerate(given)
        ]

    # --- Several schemas for one value ----------------------------------------------

    def _reference(
        self, task: Task, says: Mapping[str, Any], out: dict[str, Any], alone: bool
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
                Task(
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
        self, task: Task, keyword: str, given: Any, out: dict[str, Any], alone: bool
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


def _place(says: Mapping[str, Any]) -> Callable[[str], int]:
    """Where a keyword stands among the client's; what was added comes behind."""
    places = {keyword: i for i, keyword in enumerate(says)}
    return lambda keyword: places.get(keyword, len(places))


def _may_be(allowed: tuple[str, ...], *names: str) -> bool:
    return not allowed or any(name in allowed for name in names)


def _decide(schema: dict[str, Any], unions: Unions) -> bool:
    """Take oneOf for anyOf; whether plainly no answer matches two of its schemas."""
    is_exclusive = unions.first_pair(schema["oneOf"]) is None
    if "anyOf" in schema:
        schema.setdefault("allOf", []).append({"anyOf": schema.pop("oneOf")})
    for keyword in list(schema):
        name = "anyOf" if keyword == "oneOf" else keyword
        schema[name] = schema.pop(keyword)
    return is_exclusive
