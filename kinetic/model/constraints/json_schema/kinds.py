"""What strings, arrays and objects may be, by the keywords that describe them.

Each function adds what a schema says of one type to its checked form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kinetic.model.constraints.json_schema import blanks, values
from kinetic.model.constraints.json_schema.errors import SchemaError, pointer

if TYPE_CHECKING:
    from kinetic.model.constraints.json_schema.task import Task, Walk


def string(
    walk: Walk, task: Task, says: Mapping[str, Any], out: dict[str, Any], *, free: bool
) -> None:
    """Add what is said of strings; `free` ones get bounds on their blanks."""
    lengths = values.counts(says, task.path, "minLength", "maxLength")
    patterns, native = values.text_patterns(says, task.path)
    least = lengths.get("minLength", 0)
    is_bounded = patterns or native or least > 1 or "maxLength" in lengths
    if walk.bound_blanks and task.alone and free and not is_bounded:
        patterns.append(blanks.NOT_EMPTY if least else blanks.INSIDE)
        lengths = {}
    out |= lengths
    if native is not None:
        out["format"] = native
    if patterns:
        out["pattern"], *others = patterns
        for other in others:
            out.setdefault("allOf", []).append({"pattern": other})


def array(walk: Walk, task: Task, says: Mapping[str, Any], out: dict[str, Any]) -> None:
    """Add what is said of arrays, older drafts' `items` included."""
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
            walk.below(task, raw, out["prefixItems"], i, prefix_key, i)
    if rest is not None:
        walk.below(task, rest, out, "items", rest_key)
    elif task.alone and walk.bound_blanks and "type" in out:
        walk.below(task, True, out, "items", "items")


def object_(
    walk: Walk, task: Task, says: Mapping[str, Any], out: dict[str, Any]
) -> None:
    """Add what is said of objects, and close those that name their properties."""
    counts = values.counts(says, task.path, "minProperties", "maxProperties")
    named = _schemas(walk, task, says, "properties")
    by_pattern = _schemas(walk, task, says, "patternProperties")
    required = _required(task, says)
    n_least = counts.get("minProperties", 0)
    is_open = "additionalProperties" in says or bool(by_pattern)
    closed = task.alone and not is_open and "properties" in says
    closed = closed and n_least <= len({*named, *required})
    _counts(walk, task, says, counts, n_named=len({*named, *required}), closed=closed)
    out |= counts
    if "properties" in says or (closed and required):
        missing = dict.fromkeys(key for key in required if key not in named)
        names = [*named, *(missing if closed else ())]
        out["properties"] = dict.fromkeys(names)
        for name in names:
            raw = named.get(name, True)
            walk.below(task, raw, out["properties"], name, "properties", name)
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
            walk.below(task, raw, into, written, "patternProperties", key)
    if "additionalProperties" in says:
        rest = says["additionalProperties"]
        _rest(walk, task, rest, out, is_map=not (named or required or by_pattern))
    elif closed:
        out["additionalProperties"] = False
        walk.narrow(out, "additionalProperties")
    elif task.alone and walk.bound_blanks and not by_pattern and "type" in out:
        _rest(walk, task, True, out, is_map=not (named or required))


def _counts(
    walk: Walk,
    task: Task,
    says: Mapping[str, Any],
    counts: dict[str, int],
    *,
    n_named: int,
    closed: bool,
) -> None:
    """Leave counts of properties out where they say nothing, or cannot be held.

    llguidance counts properties only where all that are named are required, by schemas
    beside this one too, and takes a key that no keyword names for a second one where it
    comes twice.
    """
    n_required = len(set(says.get("required", [])))
    least, most = counts.get("minProperties", 0), counts.get("maxProperties")
    is_closed = closed or says.get("additionalProperties") is False
    is_closed = is_closed and "patternProperties" not in says
    if least <= n_required:
        counts.pop("minProperties", None)
    elif (
        not task.alone
        or least > n_required + 1
        or (n_named > n_required and not (least == 1 and is_closed))
    ):
        del counts["minProperties"]
        walk.leave(task, "minProperties", says)
    if "maxProperties" in says and most is None:
        walk.has_far_bounds = True
    elif most is not None and (n_named > n_required or not task.alone):
        del counts["maxProperties"]
        if not (is_closed and n_named <= most):
            walk.leave(task, "maxProperties", says)


def _rest(
    walk: Walk, task: Task, raw: Any, out: dict[str, Any], *, is_map: bool
) -> None:
    """Properties that are not named; keys of plain maps have bounded blanks."""
    if is_map and raw is not False and task.alone and walk.bound_blanks:
        out["patternProperties"] = {blanks.INSIDE: None}
        out["additionalProperties"] = False
        into, at = out["patternProperties"], blanks.INSIDE
    else:
        into, at = out, "additionalProperties"
    walk.below(task, raw, into, at, "additionalProperties")


def _schemas(
    walk: Walk, task: Task, says: Mapping[str, Any], keyword: str
) -> dict[str, Any]:
    given = says.get(keyword, {})
    path = pointer(task.path, keyword)
    if not isinstance(given, dict):
        raise SchemaError(f'"{keyword}" must be an object of schemas', path)
    limit = walk.limits.max_properties
    if len(given) > limit:
        reason = f'"{keyword}" has {len(given)} entries; the limit is {limit}'
        raise SchemaError(reason, path)
    for key in given:
        values.check_text(key, path)
    return given


def _required(task: Task, says: Mapping[str, Any]) -> list[str]:
    given = says.get("required", [])
    path = pointer(task.path, "required")
    if isinstance(given, bool):
        # Draft 3 says it in the property; its own object decides.
        reason = '"required" must be a list of names (a boolean is draft 3\'s form)'
        raise SchemaError(reason, path)
    if not isinstance(given, list) or not all(isinstance(key, str) for key in given):
        raise SchemaError('"required" must be a list of names', path)
    for key in given:
        values.check_text(key, path)
    return list(dict.fromkeys(given))
