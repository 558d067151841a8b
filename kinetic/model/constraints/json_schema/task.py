"""A walk's tasks, and what those who describe one kind of value need of the walk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kinetic.model.constraints.json_schema.values import SchemaLimits


@dataclass(slots=True)
class Task:
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
    is_aside: bool = False
    """Only read, for its faults: what it asks for is judged at the end."""
    number: int = field(default=0)


class Walk(Protocol):
    """The walk that a task belongs to."""

    limits: SchemaLimits
    bound_blanks: bool
    """Blanks of free texts are kept short."""
    has_far_bounds: bool
    """A bound was dropped that hardly any answer reaches."""

    def below(
        self, task: Task, raw: Any, into: Any, at: Any, *steps: str | int
    ) -> None:
        """Add a schema for a part of the value."""

    def leave(self, task: Task, keyword: str, given: Mapping[str, Any]) -> None:
        """Leave a keyword to the judge; what it says is read for its faults alone."""

    def narrow(self, out: dict[str, Any], keyword: str) -> None:
        """Remember a keyword that the client did not write."""
