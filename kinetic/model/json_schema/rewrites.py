"""Says in keywords that are held while decoding what other keywords ask for.

What cannot be said so, or not all of it, is *loose*: the answer is drawn from more than
the schema allows, and judged when it is whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kinetic.model.json_schema.keywords import COMBINING, OBJECT, TYPES, is_count

MOST_CLAUSES: Final = 4
"""Dependencies of one schema that are held: each doubles what has to be looked at."""

_NOTHING: Final[tuple[Any, ...]] = (True, {})
"""Schemas that forbid nothing."""


@dataclass(slots=True)
class Rewritten:
    """A schema's keywords, as far as they are held."""

    says: dict[str, Any]
    loose: list[str] = field(default_factory=list)
    is_never: bool = False
    """No value matches."""


def rewritten(given: Mapping[str, Any], *, alone: bool) -> Rewritten:
    """Rewrite one schema; those inside it stay as they are.

    Args:
        given: The schema, without keywords that are null.
        alone: No other schema bears on the same value.
    """
    out = Rewritten(dict(given))
    for keyword, rewrite in _REWRITES.items():
        if keyword in out.says and not out.is_never:
            rewrite(out, out.says.pop(keyword))
    for name in ("then", "else", "minContains", "maxContains"):
        out.says.pop(name, None)
    clauses = out.says.pop(_CLAUSES, [])
    if clauses:
        _close(out.says, clauses, alone=alone)
        out.says["allOf"] = [*out.says.get("allOf", ()), *clauses]
    return out


_CLAUSES: Final = "\0clauses"


def _not(out: Rewritten, value: Any) -> None:
    says = out.says
    if value in _NOTHING:
        out.is_never = True
    elif value is False or value == {"not": {}}:
        pass
    elif isinstance(value, Mapping) and value.keys() == {"type"}:
        names = _listed(value["type"])
        if "integer" in names and "number" not in names:
            out.loose.append("not")
            return
        gone = {*names, "integer"} if "number" in names else set(names)
        left = [name for name in _listed(says.get("type", TYPES)) if name not in gone]
        says["type"] = left
        out.is_never = not left
    else:
        out.loose.append("not")


def _if(out: Rewritten, value: Any) -> None:
    del value
    if out.says.get("then", True) not in _NOTHING or (
        out.says.get("else", True) not in _NOTHING
    ):
        out.loose.append("if")


def _contains(out: Rewritten, value: Any) -> None:
    del value
    least, most = out.says.get("minContains", 1), out.says.get("maxContains")
    if least == 0 and most is None:
        return
    out.loose.append("contains")
    if is_count(least) and is_count(out.says.get("minItems", 0)) and least:
        out.says["minItems"] = max(least, out.says.get("minItems", 0))


def _unique_items(out: Rewritten, value: Any) -> None:
    says, items = out.says, out.says.get("items")
    if value is False or says.get("maxItems", 2) in {0, 1}:
        return
    out.loose.append("uniqueItems")
    values = items.get("enum") if isinstance(items, Mapping) else None
    if isinstance(values, list) and "prefixItems" not in says:
        says["maxItems"] = min(says.get("maxItems", len(values)), len(values))


def _property_names(out: Rewritten, value: Any) -> None:
    says = out.says
    if value in _NOTHING or value == {"type": "string"}:
        return
    is_open = "properties" not in says or "additionalProperties" in says
    rest = says.get("additionalProperties", True)
    asked = value if isinstance(value, Mapping) else {}
    kinds = asked.keys() - {"type"}
    if "patternProperties" in says or not is_open:
        out.loose.append("propertyNames")
    elif kinds == {"pattern"}:
        says["patternProperties"] = {asked["pattern"]: rest}
        says["additionalProperties"] = False
        if says.get("properties"):
            out.loose.append("propertyNames")
    elif kinds in ({"enum"}, {"const"}):
        names = asked["enum"] if "enum" in asked else [asked["const"]]
        known = says.get("properties", {})
        names = [name for name in _listed(names) if isinstance(name, str)]
        says["properties"] = {name: known.get(name, rest) for name in names}
        says["additionalProperties"] = False
    else:
        out.loose.append("propertyNames")


def _dependencies(out: Rewritten, value: Any) -> None:
    """Drafts before 2019-09 have one keyword for both kinds."""
    if not isinstance(value, Mapping):
        out.loose.append("dependencies")
        return
    for key, part in value.items():
        is_names = isinstance(part, list | str)
        keyword = "dependentRequired" if is_names else "dependentSchemas"
        asked = _listed(part) if is_names else part
        out.says[keyword] = {**out.says.get(keyword, {}), key: asked}


def _dependent_required(out: Rewritten, value: Any) -> None:
    if isinstance(value, Mapping):
        value = {key: {"required": names} for key, names in value.items()}
    _depend(out, "dependentRequired", value)


def _dependent_schemas(out: Rewritten, value: Any) -> None:
    _depend(out, "dependentSchemas", value)


def _depend(out: Rewritten, keyword: str, schemas: Any) -> None:
    """Each property is absent, or its schema holds."""
    if not isinstance(schemas, Mapping):
        out.loose.append(keyword)
        return
    clauses = out.says.setdefault(_CLAUSES, [])
    for key, schema in schemas.items():
        if len(clauses) >= MOST_CLAUSES:
            out.loose.append(keyword)
            return
        absent = {"properties": {key: False}}
        is_there = key in _listed(out.says.get("required", []))
        clauses.append(schema if is_there else {"anyOf": [absent, schema]})


def _close(says: dict[str, Any], clauses: list[Any], *, alone: bool) -> None:
    """Leave an object that names its properties as closed as without the clauses."""
    if not alone or not {*COMBINING, "patternProperties"}.isdisjoint(says):
        return
    if "type" not in says and says.keys() <= set(OBJECT):
        says["type"] = "object"
    if "properties" not in says or "additionalProperties" in says:
        return
    names: dict[str, Any] = {}
    for clause in clauses:
        part = clause["anyOf"][1] if "anyOf" in clause else clause
        if not isinstance(part, Mapping) or not part.keys() <= {
            "type",
            "properties",
            "required",
        }:
            return
        names |= dict.fromkeys(_listed(part.get("required", [])), True)
        names |= dict.fromkeys(part.get("properties", ()), True)
    known = says["properties"]
    if isinstance(known, Mapping):
        says["properties"] = {**known, **{n: True for n in names if n not in known}}
        says["additionalProperties"] = False


def _unevaluated_properties(out: Rewritten, value: Any) -> None:
    if value in _NOTHING:
        return
    if not _is_plain(out):
        out.loose.append("unevaluatedProperties")
    else:
        out.says.setdefault("additionalProperties", value)


def _unevaluated_items(out: Rewritten, value: Any) -> None:
    if value in _NOTHING:
        return
    if (
        not _is_plain(out)
        or "contains" in out.loose
        or (isinstance(out.says.get("items"), list))
    ):
        out.loose.append("unevaluatedItems")
    else:
        out.says.setdefault("items", value)


def _is_plain(out: Rewritten) -> bool:
    """Whether nothing beside says what a value's parts are."""
    beside = {*COMBINING, "if", "dependentSchemas", _CLAUSES}
    return beside.isdisjoint(out.says) and "if" not in out.loose


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


_REWRITES: Final = {
    "not": _not,
    "if": _if,
    "contains": _contains,
    "uniqueItems": _unique_items,
    "propertyNames": _property_names,
    "dependencies": _dependencies,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
    "unevaluatedProperties": _unevaluated_properties,
    "unevaluatedItems": _unevaluated_items,
}


_WITH_SCHEMA: Final = frozenset(
    ["not", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"]
)


def inner(keyword: str, given: Mapping[str, Any]) -> list[tuple[tuple[str, ...], Any]]:
    """Schemas of a loose keyword, by the steps to them."""
    value = given.get(keyword)
    if keyword == "if":
        names = [name for name in ("if", "then", "else") if name in given]
        return [((name,), given[name]) for name in names]
    if keyword in {"dependencies", "dependentSchemas"} and isinstance(value, Mapping):
        parts = [(key, part) for key, part in value.items() if not _is_names(part)]
        return [((keyword, key), part) for key, part in parts]
    return [((keyword,), value)] if keyword in _WITH_SCHEMA else []


def _is_names(value: Any) -> bool:
    return isinstance(value, list | str)


def is_strange(keyword: str, value: Any) -> bool:
    """Whether a loose keyword's value is none that it may have."""
    match keyword:
        case "uniqueItems":
            return not isinstance(value, bool)
        case "dependentRequired" | "dependencies" | "dependentSchemas":
            return not isinstance(value, Mapping)
        case _:
            return False
