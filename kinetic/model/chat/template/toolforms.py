"""Plainer forms of tool definitions, for templates that trip over the client's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_MAX_DEPTH: Final = 32


def tool_forms(
    tools: Sequence[Mapping[str, Any]],
) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield the tools as they are and then in ever plainer forms."""
    yield tools
    if tools:
        yield completed_tools(tools)
        yield simplified_tools(tools)


def completed_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools with every object schema spelled out.

    For templates that read `properties` or `additionalProperties` without asking first.
    """
    return [_with_parameters(tool, _completed) for tool in tools]


def simplified_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools with schemas of one type each and no references.

    For templates that cannot print a list of types, or run in circles over one.
    """
    return [_with_parameters(tool, _simplified) for tool in tools]


def _with_parameters(tool: Mapping[str, Any], change: Any) -> dict[str, Any]:
    function = dict(tool["function"])
    function["parameters"] = change(function["parameters"], 0)
    return {**tool, "function": function}


def _completed(schema: Any, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return schema
    changed = dict(schema)
    properties = schema.get("properties")
    if isinstance(properties, Mapping) or schema.get("type") == "object":
        named = properties if isinstance(properties, Mapping) else {}
        changed["properties"] = {
            name: _completed(value, depth + 1) for name, value in named.items()
        }
        changed.setdefault("type", "object")
        changed.setdefault("required", [])
        changed.setdefault("additionalProperties", True)
    if isinstance(schema.get("items"), Mapping):
        changed["items"] = _completed(schema["items"], depth + 1)
    return changed


def _simplified(schema: Any, depth: int) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return {"type": "string"}
    kinds = schema.get("type")
    if isinstance(kinds, Sequence) and not isinstance(kinds, str):
        kinds = next((kind for kind in kinds if kind != "null"), None)
    properties = schema.get("properties")
    has_properties = isinstance(properties, Mapping)
    kind = kinds if isinstance(kinds, str) else "object" if has_properties else "string"
    description = schema.get("description")
    simple: dict[str, Any] = {
        "type": kind,
        "description": description if isinstance(description, str) else "",
    }
    if isinstance(schema.get("enum"), list):
        simple["enum"] = [str(value) for value in schema["enum"]]
    if kind == "array":
        simple["items"] = _simplified(schema.get("items"), depth + 1)
    if kind == "object":
        named = properties if isinstance(properties, Mapping) else {}
        simple["properties"] = {
            str(name): _simplified(value, depth + 1) for name, value in named.items()
        }
        required = schema.get("required")
        simple["required"] = required if isinstance(required, list) else []
        simple["additionalProperties"] = True
    return simple
