"""Finds what `$ref`s lead to, inside the schema alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from kinetic.model.constraints.json_schema.errors import SchemaError, pointer

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class References:
    """The places of one schema that a `$ref` can name."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._named: dict[str, list[str]] = {}
        """Paths by `#anchor` or by `$id`; several if a name was given twice."""
        self._resources: set[str] = set()
        """Paths of schemas below the root that have an `$id` of their own."""
        self._scan()

    def _scan(self) -> None:
        todo: list[tuple[Any, str]] = [(self._raw, "")]
        while todo:
            inner, path = todo.pop()
            if isinstance(inner, dict):
                anchor, name = inner.get("$anchor"), inner.get("$id", inner.get("id"))
                if isinstance(anchor, str):
                    self._named.setdefault(f"#{anchor}", []).append(path)
                if isinstance(name, str):
                    self._named.setdefault(name.rstrip("#"), []).append(path)
                    if path and not name.startswith("#"):
                        self._resources.add(path)
                todo += [(value, pointer(path, key)) for key, value in inner.items()]
            elif isinstance(inner, list):
                todo += [(value, pointer(path, i)) for i, value in enumerate(inner)]

    def found(self, ref: Any, path: str, *, in_resource: bool) -> tuple[Any, str, bool]:
        """The schema that a `$ref` names, where it stands, and if below an `$id`.

        Raises SchemaError for what is not in this schema: nothing is ever fetched.
        """
        if not isinstance(ref, str):
            raise SchemaError('"$ref" must be a string', path)
        shown = json.dumps(ref)[:100]
        base, _, fragment = ref.partition("#")
        if base:
            start = self._resource(base, shown, path)
        elif in_resource:
            reason = f'"$ref" {shown} below a nested "$id" is not supported'
            raise SchemaError(reason, path)
        else:
            start = ""
        if fragment.startswith("/") or not fragment:
            where = start + unquote(fragment)
            target = self._at(where, shown, path)
        else:
            where = self._one(f"#{fragment}", shown, path)
            target = self._at(where, shown, path)
        below = any(where == p or where.startswith(f"{p}/") for p in self._resources)
        return target, where, below

    def _resource(self, base: str, shown: str, path: str) -> str:
        if base not in self._named:
            reason = f'"$ref" {shown} leads out of the schema; nothing is fetched'
            raise SchemaError(reason, path)
        return self._one(base, shown, path)

    def _one(self, name: str, shown: str, path: str) -> str:
        places = self._named.get(name, [])
        if len(places) != 1:
            reason = f'"$ref" {shown} leads to {len(places) or "no"} places'
            raise SchemaError(reason, path)
        return places[0]

    def _at(self, where: str, shown: str, path: str) -> Any:
        target = self._raw
        for step in where.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and key in target:
                target = target[key]
            elif isinstance(target, list) and _INDEX.fullmatch(key):
                if int(key) >= len(target):
                    raise SchemaError(f'"$ref" {shown} leads to nothing', path)
                target = target[int(key)]
            else:
                raise SchemaError(f'"$ref" {shown} leads to nothing', path)
        return target


def check_circles(
    same_value: Mapping[int, list[tuple[int | str, str]]], tasks: Mapping[str, int]
) -> None:
    """Raise SchemaError if a schema bears on a value by way of itself.

    Args:
        same_value: By schema: those that bear on the same value, by number or by name
            of a definition, with the path of what says so.
        tasks: Numbers of the definitions' schemas.
    """
    done: set[int] = set()
    for start in same_value:
        walk = [(start, iter(same_value[start]))] if start not in done else []
        on_way = {start}
        while walk:
            number, rest = walk[-1]
            for other, path in rest:
                after = tasks[other] if isinstance(other, str) else other
                if after in on_way:
                    raise SchemaError('"$ref" leads in a circle', path)
                if after not in done and after in same_value:
                    on_way.add(after)
                    walk.append((after, iter(same_value[after])))
                    break
            else:
                walk.pop()
                on_way.discard(number)
                done.add(number)
