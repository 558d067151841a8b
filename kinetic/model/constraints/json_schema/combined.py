"""Bounds how many patterns may have to match one text at once.

llguidance intersects them, and looks for a text that matches them all: with 15 patterns
in 0.1 s, with 20 in 6 s, with 30 in hours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kinetic.model.constraints.json_schema.errors import SchemaError

MAX_PATTERNS: Final = 8
ANYWHERE: Final = "*"
"""Name of values whose own name is open."""


@dataclass(slots=True)
class Patterns:
    """Counts patterns of checked schemas, which must not refer to themselves."""

    defs: Mapping[str, Any]
    _known: dict[int, int] = field(default_factory=dict)

    def check(self, schemas: Iterable[tuple[str, Any, str]]) -> None:
        """Raise SchemaError if too many patterns may bear on one text.

        Args:
            schemas: Each schema by the last step to its value, such as a property's
                name, and with its path. Values of one name may be one value, and those
                named `ANYWHERE` any.
        """
        totals = {ANYWHERE: 0}
        for name, schema, path in schemas:
            totals[name] = totals.get(name, 0) + self._of(schema)
            anywhere = 0 if name == ANYWHERE else totals[ANYWHERE]
            if totals[name] + anywhere > MAX_PATTERNS:
                reason = f'more than {MAX_PATTERNS} of "pattern" and "format" may have'
                raise SchemaError(f"{reason} to match one text", path)

    def _of(self, schema: Any) -> int:
        """Patterns that a schema holds one value to."""
        todo: list[Any] = [schema]
        while todo:
            top = todo[-1]
            missing = [s for s in self._beside(top) if self._lacks(s)]
            if missing:
                todo += missing
                continue
            todo.pop()
            if isinstance(top, dict):
                own = ("pattern" in top) + ("format" in top)
                self._known[id(top)] = own + self._inner(top)
        return self._known.get(id(schema), 0)

    def _inner(self, schema: Mapping[str, Any]) -> int:
        all_of = list(schema.get("allOf", ()))
        if "$ref" in schema:
            all_of.append(self._target(schema))
        total = sum(self._known.get(id(part), 0) for part in all_of)
        for keyword in ("anyOf", "oneOf"):
            parts = (self._known.get(id(part), 0) for part in schema.get(keyword, ()))
            total += max(parts, default=0)
        return total

    def _target(self, schema: Mapping[str, Any]) -> Any:
        return self.defs[schema["$ref"].removeprefix("#/$defs/")]

    def _lacks(self, schema: Any) -> bool:
        return isinstance(schema, dict) and id(schema) not in self._known

    def _beside(self, schema: Any) -> list[Any]:
        if not isinstance(schema, dict):
            return []
        found = [*schema.get("allOf", ())]
        for keyword in ("anyOf", "oneOf"):
            found += schema.get(keyword, ())
        if "$ref" in schema:
            found.append(self._target(schema))
        return found
