"""Says in keywords that are held while decoding what other keywords ask for.

What cannot be said so, or not all of it, is *loose*: the answer is drawn from more than
the schema allows, and judged when it is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kinetic.model.constraints.json_schema.keywords import (
    COMBINING,
    OBJECT,
    TYPES,
    is_count,
)

MOST_CLAUSES: Final = 4
"""Dependencies of one schema that are held: each doubles what has to be looked at."""

MOST_DEEP: Final = 12
"""Schemas inside each other that are looked through for names."""

_NOTHING: Final[tuple[Any, ...]] = (True, {})
"""Schemas that forbid nothing."""


Found = Callable[[Any], Any]
"""The schema that a `$ref` leads to."""


@dataclass(slots=True)
class Rewritten:
    """A schema's keywords, as far as they are held."""

    says: dict[str, Any]
    found: Found
    alone: bool
    loose: list[str] = field(default_factory=list)
    is_never: bool = False
    """No value matches."""
    clauses: list[Any] = field(default_factory=list)
    """Schemas that the value has to match as well."""


def rewritten(given: Mapping[str, Any], found: Found, *, alone: bool) -> Rewritten:
    """Rewrite one schema; those inside it stay as they are.

    Args:
        given: The schema, without keywords that are null.
        found: Resolves a reference.
        alone: No other schema bears on the same value.
    """
    out = Rewritten(dict(given), found, alone)
    for keyword, rewrite in _REWRITES.items():
        if keyword in out.says and not out.is_never:
            rewrite(out, out.says.pop(keyword))
    beside = [out.says.pop(name, True) for name in ("then", "else")]
    for name in ("minContains", "maxContains"):
        out.says.pop(name, None)
    if alone and (out.clauses or "if" in out.loose):
        _close(out, [*out.clauses, *beside])
    if out.clauses:
        out.says["allOf"] = [*out.says.get("allOf", ()), *out.clauses]
    return out


def _close(out: Rewritten, beside: list[Any]) -> None:
    """Let an object be as closed as its properties alone would have it.

    What schemas beside it name is let in; where they leave names open, so is it.
    """
    says = out.says
    if "type" not in says and says.keys() <= set(OBJECT) and says:
        says["type"] = "object"
    if not {*COMBINING, "patternProperties", "additionalProperties"}.isdisjoint(says):
        return
    known = says.get("properties")
    if not isinstance(known, Mapping):
        return
    names = names_in({"allOf": beside}, out.found)
    if names is None:
        says["additionalProperties"] = True
        return
    says["properties"] = {**known, **{n: True for n in names if n not in known}}
    says["additionalProperties"] = False


def names_in(schema: Any, found: Found, depth: int = 0) -> dict[str, Any] | None:
    """Names that a schema gives an object's properties; None if it leaves them open."""
    if isinstance(schema, bool):
        return {}
    if not isinstance(schema, Mapping) or depth > MOST_DEEP:
        return None
    if any(schema.get(keyword, False) is not False for keyword in _OPENING):
        return None
    names = dict.fromkeys([*_keys(schema.get("properties")), *_names(schema)], True)
    parts = [schema[keyword] for keyword in ("if", "then", "else") if keyword in schema]
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts += _listed(schema.get(keyword, []))
    dependent = schema.get("dependentSchemas", {})
    parts += dependent.values() if isinstance(dependent, Mapping) else ()
    if "$ref" in schema:
        parts.append(found(schema["$ref"]))
    for part in parts:
        inner = names_in(part, found, depth + 1)
        if inner is None:
            return None
        names |= inner
    return names


_OPENING: Final = (
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "$dynamicRef",
)
"""Keywords that let in properties of other names."""


def _keys(value: Any) -> list[str]:
    return list(value) if isinstance(value, Mapping) else []


def _names(schema: Mapping[str, Any]) -> list[str]:
    given = _listed(schema.get("required", []))
    return [name for name in given if isinstance(name, str)]


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
    """Held where it looks at one property of known values; else loose."""
    says = out.says
    then, other = says.get("then", True), says.get("else", True)
    if then in _NOTHING and other in _NOTHING:
        return
    tag = _tag(value, says.get("properties", {}))
    is_object = out.alone or says.get("type") == "object"
    if tag is None or not is_object or len(out.clauses) >= MOST_CLAUSES:
        out.loose.append("if")
        return
    name, values, rest, is_asked = tag
    holds: dict[str, Any] = {"properties": {name: bool(values) and {"enum": values}}}
    fails: dict[str, Any] = {"properties": {name: bool(rest) and {"enum": rest}}}
    # Without the property, a condition that does not require it holds.
    (holds if is_asked else fails)["required"] = [name]
    clause = {"anyOf": [{"allOf": [holds, then]}, {"allOf": [fails, other]}]}
    if not rest and not is_asked:
        clause = {"allOf": [holds, then]}
    out.clauses.append(clause)
    says.pop("then", None)
    says.pop("else", None)


def _tag(
    condition: Any, properties: Any
) -> tuple[str, list[Any], list[Any], bool] | None:
    """A condition on one property.

    Its name, values for which it holds, those for which it does not, and whether it has
    to be there.
    """
    if not isinstance(condition, Mapping) or not isinstance(properties, Mapping):
        return None
    asked = condition.get("properties")
    required = condition.get("required", [])
    if not isinstance(asked, Mapping) or len(asked) != 1:
        return None
    (name, part), *_ = asked.items()
    known = _values(properties.get(name))
    wanted = _values(part)
    is_plain = condition.keys() <= {"type", "properties", "required"}
    is_plain = is_plain and condition.get("type", "object") == "object"
    if not is_plain or required not in ([], [name]) or known is None or wanted is None:
        return None
    return (
        name,
        [value for value in known if value in wanted],
        [value for value in known if value not in wanted],
        bool(required),
    )


def _values(schema: Any) -> list[Any] | None:
    """The strings that a schema allows, if it lists them."""
    if not isinstance(schema, Mapping):
        return None
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    is_text = isinstance(listed, list) and all(isinstance(v, str) for v in listed)
    return listed if is_text and schema.keys() <= _LISTING else None


_LISTING: Final = frozenset(
    ["type", "const", "enum", "title", "description", "default"]
)


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
    clauses = out.clauses
    for key, schema in schemas.items():
        if len(clauses) >= MOST_CLAUSES:
            out.loose.append(keyword)
            return
        absent = {"properties": {key: False}}
        is_there = key in _listed(out.says.get("required", []))
        clauses.append(schema if is_there else {"anyOf": [absent, schema]})


def _unevaluated_properties(out: Rewritten, value: Any) -> None:
    if value in _NOTHING:
        return
    if _is_plain(out):
        out.says.setdefault("additionalProperties", value)
        return
    out.loose.append("unevaluatedProperties")
    whole = {**out.says, "allOf": [*_listed(out.says.get("allOf", [])), *out.clauses]}
    names = names_in(whole, out.found)
    if names is not None and "if" not in out.loose:
        rest = {"properties": names, "additionalProperties": value}
        out.clauses.append(rest)


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
    is_single = set(COMBINING).isdisjoint(out.says) and not out.clauses
    return is_single and "if" not in out.loose and "dependentSchemas" not in out.loose


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
