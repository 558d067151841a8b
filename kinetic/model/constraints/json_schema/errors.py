"""What can be wrong with a schema."""

from __future__ import annotations


class SchemaError(ValueError):
    """A schema that cannot be enforced, and where in it the reason stands."""

    def __init__(self, reason: str, path: str, *, field: str | None = None) -> None:
        super().__init__(f"{reason}, at {path or '/'}")
        self.field = field
        """The request's field that the schema came from, if the caller was told."""


def pointer(path: str, *steps: str | int) -> str:
    """A JSON pointer (RFC 6901) to something below another."""
    escaped = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join([path, *(f"/{step}" for step in escaped)])
