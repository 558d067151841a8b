"""From what a model wrote to a call: known tools, typed values, one JSON object."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from kinetic.model.chat.reply.jsontext import decode, encode
from kinetic.model.chat.reply.source import Mismatch

CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
CALL_KEYS = frozenset(("name", "type", "function", "parameters", "arguments", "id"))
"""The keys of a call object in any of its spellings."""
ARGUMENT_KEYS = ("arguments", "parameters")
PYTHON_CONSTANTS: Mapping[str, bool | None] = {
    "True": True,
    "False": False,
    "None": None,
}
MAX_SCHEMAS = 256
"""How many subschemas are followed to find a value's types."""

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FoundCall:
    """A call as read from the text."""

    name: str
    arguments: Mapping[str, Any]
    id: str | None = None
    """The model's own id, if it wrote a usable one."""

    def to_json(self) -> str:
        """The arguments as clients get them."""
        return encode(dict(self.arguments))


class Tools:
    """The functions that one request lets the model call."""

    def __init__(self, definitions: Iterable[Mapping[str, Any]]) -> None:
        self._parameters: dict[str, Schema] = {}
        for definition in definitions:
            function = definition.get("function")
            if isinstance(function, Mapping) and isinstance(function.get("name"), str):
                schema = function.get("parameters")
                known = schema if isinstance(schema, Mapping) else {}
                self._parameters[function["name"]] = known

    def __contains__(self, name: object) -> bool:
        return name in self._parameters

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def parameters(self, function: str) -> frozenset[str] | None:
        """The parameters that a tool's schema names; None if any name is as good."""
        schema = self._parameters[function]
        names = declared_parameters(schema)
        others = schema.get("additionalProperties", False)
        is_open = others is not False or bool(schema.get("patternProperties"))
        return None if is_open or not names else frozenset(names)

    def may_be_json(self, function: str, parameter: str) -> bool:
        """Whether a parameter's bare text may stand for an object or an array."""
        types = self._types(function, parameter)
        return types is None or not types.isdisjoint(("array", "object"))

    def typed(self, function: str, parameter: str, text: str) -> Any:
        """The value that a tool's schema makes of a parameter written as bare text."""
        if self._schema(function, parameter) is None:
            return _undeclared(text)
        return typed(text, self._types(function, parameter))

    def _types(self, function: str, parameter: str) -> frozenset[str] | None:
        schema = self._schema(function, parameter)
        return allowed_types(schema, self._parameters[function])

    def _schema(self, function: str, parameter: str) -> Any:
        return parameter_schema(self._parameters[function], parameter)


def call_from_object(
    fields: Mapping[str, Any], tools: Tools, *, with_arguments: bool = False
) -> FoundCall:
    """The call that a JSON object tells, in any of the usual spellings.

    Args:
        fields: The object: name beside arguments or parameters, or both of them inside
            `function`; arguments may be an object or its JSON text.
        tools: The functions there are.
        with_arguments: Refuse an object that has none, not even empty ones.

    Raises:
        Mismatch: It is no call of one of the tools.
    """
    inner = fields.get("function")
    call = inner if isinstance(inner, Mapping) else fields
    name = call.get("name", inner)
    if not isinstance(name, str) or name not in tools:
        raise Mismatch
    key = next((key for key in ARGUMENT_KEYS if key in call), None)
    if key is None and with_arguments:
        raise Mismatch
    arguments = call[key] if key is not None else None
    if isinstance(arguments, str):
        arguments = decode(arguments) if arguments.strip() else None
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise Mismatch
    return FoundCall(name, arguments, usable_id(fields.get("id", call.get("id"))))


def usable_id(value: Any) -> str | None:
    """The id, if it is one that templates and clients take."""
    if isinstance(value, str) and CALL_ID.fullmatch(value):
        return value
    return None


def allowed_types(schema: Any, root: Schema) -> frozenset[str] | None:
    """The JSON types that a schema allows; None if it does not say.

    Follows `$ref` inside the tool's own schema, `anyOf`, `oneOf`, `allOf`, `enum` and
    `const`. A schema that goes in circles, or on for ever, does not say.
    """
    types: set[str] = set()
    waiting = [schema]
    for _ in range(MAX_SCHEMAS):
        if not waiting:
            return frozenset(types)
        current = waiting.pop()
        if not isinstance(current, Mapping):
            return None
        if current.get("nullable") is True:
            types.add("null")
        own = _own_types(current)
        if own:
            types |= own
            continue
        alternatives = _alternatives(current, root)
        if not alternatives:
            return None
        waiting += alternatives
    return None


def declared_parameters(schema: Any) -> dict[str, bool]:
    """The parameters that a tool's schema names, each with whether it is required.

    Also those of schemas that it refers to, joins or chooses from; what one of several
    choices requires is not required.
    """
    found: dict[str, bool] = {}
    required: set[str] = set()
    for current, is_sure in _parts(schema):
        names = _properties(current)
        found |= {name: False for name in names if name not in found}
        if is_sure:
            required.update(_names(current.get("required")))
    found |= {name: False for name in sorted(required) if name not in found}
    return {name: name in required for name in found}


def parameter_schema(schema: Schema, name: str) -> Any:
    """What a tool's schema says of a parameter; None if nothing.

    Said in several places, it is a choice of those: the reader looks for types alone.
    """
    own = _properties(schema)
    if name in own:
        return own[name]
    found = [
        properties[name]
        for part, _ in _parts(schema)
        if name in (properties := _properties(part))
    ]
    if found:
        return found[0] if len(found) == 1 else {"anyOf": found}
    others = schema.get("additionalProperties")
    return others if isinstance(others, Mapping) else None


def _properties(schema: Schema) -> Schema:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _parts(schema: Any) -> Iterator[tuple[Schema, bool]]:
    """The schemas that bear on a tool's arguments, each with whether it surely does."""
    waiting = [(schema, True)]
    for _ in range(MAX_SCHEMAS):
        if not waiting:
            break
        current, is_sure = waiting.pop(0)
        if not isinstance(current, Mapping):
            continue
        yield current, is_sure
        if isinstance(current.get("$ref"), str):
            waiting.append((resolve(current["$ref"], schema), is_sure))
        for keyword in ("allOf", "anyOf", "oneOf"):
            parts = current.get(keyword)
            if isinstance(parts, list):
                waiting += [(part, is_sure and keyword == "allOf") for part in parts]


def _names(value: Any) -> list[str]:
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]


def _own_types(schema: Schema) -> set[str]:
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return {name for name in declared if isinstance(name, str)}
    if isinstance(schema.get("enum"), list):
        return {type_of(value) for value in schema["enum"]}
    return {type_of(schema["const"])} if "const" in schema else set()


def _alternatives(schema: Schema, root: Schema) -> list[Any]:
    if isinstance(schema.get("$ref"), str):
        return [resolve(schema["$ref"], root)]
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            return list(schema[keyword])
    # Of schemas that all hold, the first that tells types will do.
    parts = schema.get("allOf")
    for part in parts if isinstance(parts, list) else []:
        if isinstance(part, Mapping) and part:
            return [part]
    return []


def resolve(reference: str, root: Schema) -> Any:
    """What a reference inside the tool's schema points to; None if there is nothing."""
    if not reference.startswith("#"):
        return None
    here: Any = root
    for step in reference[1:].split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping):
            here = here.get(name)
        elif isinstance(here, list) and name.isdecimal() and int(name) < len(here):
            here = here[int(name)]
        else:
            return None
    return here


def typed(text: str, types: frozenset[str] | None) -> Any:
    """Reads bare text by the types allowed; what does not fit stays the text it is."""
    if types == frozenset(("string",)):
        return text
    try:
        value = _constant_or_json(text)
    except Mismatch:
        return text
    if types is None or "string" in types:
        # Text between quotes is a string that has quotes: templates print them so.
        is_fit = not isinstance(value, str) and (types is None or _fits(value, types))
        return value if is_fit else text
    return value


def _undeclared(text: str) -> Any:
    try:
        value = decode(text)
    except Mismatch:
        return text
    return value if isinstance(value, dict | list) else text


def _constant_or_json(text: str) -> Any:
    """JSON, or a constant as Python spells it, since templates print those."""
    bare = text.strip()
    return PYTHON_CONSTANTS[bare] if bare in PYTHON_CONSTANTS else decode(bare)


def _fits(value: Any, types: frozenset[str]) -> bool:
    name = type_of(value)
    if name == "integer":
        return not types.isdisjoint(("integer", "number"))
    return name in types


def type_of(value: Any) -> str:
    """The JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
