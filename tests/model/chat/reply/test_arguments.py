import json
from typing import Any

import pytest

from kinetic.model.chat.reply.arguments import (
    FoundCall,
    Tools,
    allowed_types,
    call_from_object,
    usable_id,
)
from kinetic.model.chat.reply.source import Mismatch
from tests.model.chat.output_cases import tools

TOOLS = Tools(tools("ping", "get_weather", "now"))


def test_tools_are_known_by_name():
    assert list(TOOLS) == ["ping", "get_weather", "now"]
    assert "ping" in TOOLS
    assert "pong" not in TOOLS


def test_a_sloppy_definition_is_a_tool_or_none():
    sloppy = Tools(
        [
            {"type": "function", "function": {"name": "a", "parameters": None}},
            {"type": "function", "function": {"name": "b", "description": None}},
            {"type": "function", "function": {"name": None}},
            {"type": "function"},
        ]
    )
    assert list(sloppy) == ["a", "b"]
    assert sloppy.typed("a", "x", "1") == "1"


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "ping", "arguments": {"a": 1}},
        {"name": "ping", "parameters": {"a": 1}},
        {"name": "ping", "arguments": '{"a": 1}'},
        {"function": "ping", "arguments": {"a": 1}},
        {"type": "function", "function": {"name": "ping", "arguments": {"a": 1}}},
    ],
)
def test_calls_are_read_in_every_spelling(fields: dict[str, Any]):
    assert call_from_object(fields, TOOLS) == FoundCall("ping", {"a": 1})


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"name": "pong", "arguments": {}},
        {"name": 1, "arguments": {}},
        {"name": ["ping"], "arguments": {}},
        {"name": "ping", "arguments": [1]},
        {"name": "ping", "arguments": 0},
        {"name": "ping", "arguments": False},
        {"name": "ping", "arguments": "x"},
        {"name": "ping", "arguments": "[1]"},
        {"function": {}, "name": "ping"},
    ],
)
def test_anything_else_is_no_call(fields: dict[str, Any]):
    with pytest.raises(Mismatch):
        call_from_object(fields, TOOLS)


@pytest.mark.parametrize("nothing", [None, "", "  ", {}, "{}"])
def test_no_arguments_are_an_empty_object(nothing):
    call = call_from_object({"name": "ping", "arguments": nothing}, TOOLS)
    assert call.to_json() == "{}"


def test_missing_arguments_may_be_refused():
    assert call_from_object({"name": "ping"}, TOOLS).to_json() == "{}"
    with pytest.raises(Mismatch):
        call_from_object({"name": "ping"}, TOOLS, with_arguments=True)


@pytest.mark.parametrize("value", ["", " ", "a b", "x" * 65, "é", 7, None, ["a"]])
def test_an_id_that_templates_refuse_is_none(value):
    assert usable_id(value) is None
    assert usable_id("call_9-Z") == "call_9-Z"


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["string", "null", 3]}, {"string", "null"}),
        (
            {"enum": [1, 2.5, "a", None, True, [], {}]},
            {"integer", "number", "string", "null", "boolean", "array", "object"},
        ),
        ({"const": None}, {"null"}),
        (
            {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/s"}]},
            {"integer", "string"},
        ),
        (
            {"oneOf": [{"anyOf": [{"type": "object"}]}, {"const": 1}]},
            {"object", "integer"},
        ),
        ({"allOf": [{}, {"type": "array"}, {"type": "string"}]}, {"array"}),
        ({"$ref": "#/$defs/a~1b"}, {"boolean"}),
        ({"$ref": "#/$defs/list/1"}, {"number"}),
        ({"type": "integer", "nullable": True}, {"integer", "null"}),
        ({}, None),
        (True, None),
        ({"description": "x"}, None),
        ({"type": 3}, None),
        ({"$ref": "#/$defs/nowhere"}, None),
        ({"$ref": "https://example.org/x"}, None),
        ({"$ref": "#/$defs/circle"}, None),
        ({"$ref": "#/$defs/wide"}, None),
        ({"anyOf": []}, None),
        ({"anyOf": [{"type": "string"}, {}]}, None),
    ],
)
def test_a_schema_tells_its_types(schema, types):
    root = {
        "$defs": {
            "s": {"type": "string"},
            "a/b": {"type": "boolean"},
            "list": [{}, {"type": "number"}],
            "circle": {"$ref": "#/$defs/circle"},
            "wide": {"anyOf": [{"$ref": "#/$defs/wide"}] * 3},
        }
    }
    assert allowed_types(schema, root) == (None if types is None else frozenset(types))


def test_a_map_types_what_it_does_not_name():
    names = {
        "additionalProperties": {"type": "integer"},
        "properties": {"a": {"type": "string"}},
    }
    known = Tools([{"function": {"name": "f", "parameters": names}}])
    assert (known.typed("f", "a", "1"), known.typed("f", "b", "1")) == ("1", 1)


def test_arguments_go_out_in_the_models_order():
    call = FoundCall("ping", json.loads('{"z": "é", "a": [1.5, true]}'))
    assert call.to_json() == '{"z": "é", "a": [1.5, true]}'
