"""What an answer is held to, from every spelling that the three APIs have for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kinetic.errors import RequestError
from kinetic.types import ConstraintSpec
from kinetic.web.fields.readers import shown


def gbnf(source: str, *, param: str = "grammar") -> ConstraintSpec | None:
    """A grammar in llama.cpp's syntax; an empty one is none, as in llama-server."""
    if not source.strip():
        return None
    return ConstraintSpec(kind="gbnf", source=source, param=param)


def any_json(*, param: str) -> ConstraintSpec:
    """JSON mode: any JSON object, as in every API that has it."""
    return ConstraintSpec(kind="json_object", param=param)


def json_of(schema: object, *, param: str, strict: bool = False) -> ConstraintSpec:
    """JSON that matches a schema; raises RequestError for what is no schema.

    A `strict` one is refused where decoding alone cannot hold an answer to it.
    """
    if not isinstance(schema, Mapping):
        message = f"{param} must be an object, a JSON Schema, not {shown(schema)}"
        raise RequestError(message, param=param)
    # Keys keep their order: it is the order in which properties are generated.
    source = json.dumps(schema, ensure_ascii=False)
    return ConstraintSpec(kind="json_schema", source=source, param=param, strict=strict)


def response_format(value: Mapping[str, Any]) -> ConstraintSpec | None:
    """OpenAI's response_format; raises RequestError.

    The schema may stand in `json_schema.schema`, or bare in `schema` beside either JSON
    type, as llama-server takes it.
    """
    kind = value.get("type")
    bare = value.get("schema")
    if kind == "text":
        return None
    if kind == "json_object":
        if bare is None or bare == {}:
            return any_json(param="response_format")
        return json_of(bare, param="response_format.schema")
    if kind != "json_schema":
        message = (
            'response_format.type must be "text", "json_object" or "json_schema",'
            f" not {shown(kind)}"
        )
        raise RequestError(message, param="response_format.type")
    wrapper = value.get("json_schema")
    if wrapper is None and bare is not None:
        return json_of(bare, param="response_format.schema")
    where = "response_format.json_schema"
    if not isinstance(wrapper, Mapping):
        message = f"{where} must be an object with a schema, not {shown(wrapper)}"
        raise RequestError(message, param=where)
    _check_wrapper(wrapper, where)
    if wrapper.get("schema") is None:
        raise RequestError(f"{where}.schema is missing", param=f"{where}.schema")
    strict = wrapper.get("strict") is True
    return json_of(wrapper["schema"], param=f"{where}.schema", strict=strict)


def _check_wrapper(wrapper: Mapping[str, Any], where: str) -> None:
    name, strict = wrapper.get("name"), wrapper.get("strict")
    if name is not None and not isinstance(name, str):
        message = f"{where}.name must be a string, not {shown(name)}"
        raise RequestError(message, param=f"{where}.name")
    if strict is not None and not isinstance(strict, bool):
        message = f"{where}.strict must be true or false, not {shown(strict)}"
        raise RequestError(message, param=f"{where}.strict")


def only_one(given: Mapping[str, ConstraintSpec | None]) -> ConstraintSpec | None:
    """The one constraint among the fields given; raises RequestError for two."""
    found = {name: spec for name, spec in given.items() if spec is not None}
    if len(found) > 1:
        first, second, *_ = found
        message = f"{first} and {second} are both given: an answer can be held to one"
        raise RequestError(message, param=second)
    return next(iter(found.values()), None)
