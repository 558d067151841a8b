"""Forced calls in tags: values of every type are held to their schema."""

from __future__ import annotations

import json
import random

import pytest

from kinetic.model.chat.reply.calls import OutputFormat
from kinetic.model.constraints.calls.xml_values import Values, values_of
from tests.model.chat.output_cases import read
from tests.model.constraints.calls.test_forced import (
    ORDINARY,
    SPECIAL,
    XML_FAMILIES,
    accepts,
    grammar,
    tool,
    walk,
)

DEFS = {
    "size": {"enum": ["small", "large"]},
    "tree": {
        "type": "object",
        "properties": {"t": {"$ref": "#/$defs/tree"}, "n": {"type": "integer"}},
        "additionalProperties": False,
    },
}
CASES = [
    # schema, texts that are let through with their value, texts that are not
    ({"type": "boolean"}, {"true": True, "false": False}, ["value_1", "True", "1", ""]),
    ({"type": "null"}, {"null": None}, ["None", "nil"]),
    (
        {"type": "integer", "minimum": 3, "maximum": 12},
        {"3": 3, "12": 12},
        ["2", "13", "3.5", "x", ""],
    ),
    ({"type": "number", "minimum": 0, "maximum": 9}, {"2.5": 2.5}, ["ten", "-1"]),
    (
        {"enum": ["a", "ab", "a\nb"]},
        {t: t for t in ("a", "ab", "a\nb")},
        ["b", "", "a "],
    ),
    ({"enum": ["a", 1, None]}, {"a": "a", "1": 1, "null": None}, ["2", "b", "None"]),
    ({"const": "x y"}, {"x y": "x y"}, ["x", '"x y"']),
    ({"const": 7}, {"7": 7}, ["8"]),
    (
        {"type": "string", "maxLength": 3, "minLength": 1},
        {"a\nb": "a\nb"},
        ["", "abcd"],
    ),
    (
        {"type": "string", "pattern": "^[a-c]+/x$|^z"},
        {"ab/x": "ab/x", "z\n": "z\n"},
        ["ab", "az"],
    ),
    ({"type": "string", "pattern": "^[/a]+$"}, {"a/a": "a/a"}, ["b"]),
    (
        {"type": "string", "format": "uri"},
        {"https://a.b/c?d=e": "https://a.b/c?d=e"},
        ["a b", "https://a b"],
    ),
    (
        {"type": "string", "format": "uuid"},
        {
            "0f3a9c7e-5b1d-4862-9999-0f3a9c7e5b1d": "0f3a9c7e-5b1d-4862-9999-0f3a9c7e5b1d"
        },
        ["0f3a9c7e"],
    ),
    ({"type": "string", "format": "ipv6"}, {"::1": "::1"}, ["1::2::3"]),
    ({"type": "string", "format": "hostname"}, {"a-b.c": "a-b.c"}, ["-a", "a_b"]),
    ({"type": "string", "format": "duration"}, {"P1DT2H": "P1DT2H"}, ["P", "1D"]),
    ({"type": "string", "pattern": "b"}, {"abc": "abc"}, ["ac"]),
    (
        {"type": "string", "format": "date"},
        {"2024-02-29": "2024-02-29"},
        ["2024-02-30"],
    ),
    ({"type": "string", "format": "ipv4"}, {"10.0.0.1": "10.0.0.1"}, ["10.0.0.256"]),
    (
        {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        {'{"x": 1}': {"x": 1}},
        ["{}", '{"x": "1"}', "x"],
    ),
    (
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {'["</parameter>"]': ["</parameter>"]},
        ["[]", "[1]", "a"],
    ),
    (
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"null": None, "text": "text", "2024": "2024"},
        [],
    ),
    (
        {"type": ["string", "null"], "maxLength": 4},
        {"null": None, "nul": "nul", "12": "12"},
        ["None", "abcde"],
    ),
    (
        {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 10}]},
        {"12": 12, "a7": "a7"},
        ["7"],
    ),
    (
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "integer"}},
            ]
        },
        {"[1, 2]": [1, 2], "a [": "a ["},
        ['["a"]'],
    ),
    ({"$ref": "#/$defs/size"}, {"small": "small"}, ["medium"]),
    (
        {"allOf": [{"$ref": "#/$defs/size"}], "default": "small"},
        {"large": "large"},
        ["m"],
    ),
    ({"$ref": "#/$defs/tree"}, {'{"t": {"n": 2}}': {"t": {"n": 2}}}, ['{"t": 1}', "t"]),
    ({}, {"any text": "any text", "7": 7, "{": "{"}, []),
    ({"type": "string"}, {"7": "7", "": "", "null": "null"}, []),
]


def call(text):
    return (
        "<tool_call>\n<function=f>\n<parameter=v>\n"
        f"{text}\n</parameter>\n</function>\n</tool_call>"
    )


def definition(schema, **more):
    properties = {"v": schema, **more}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": ["v"],
        "$defs": DEFS,
    }
    return (tool("f", parameters),)


@pytest.mark.parametrize("special", [SPECIAL, ORDINARY], ids=["tokens", "text"])
@pytest.mark.parametrize(
    ("schema", "right", "wrong"), CASES, ids=lambda case: json.dumps(case)[:60]
)
def test_a_value_is_held_to_its_schema_and_read_as_meant(schema, right, wrong, special):
    tools = definition(schema)
    lark = grammar("qwen3.5", None, tools=tools, special_token=special.get)
    fmt = OutputFormat(family="qwen3.5", tools=tools, forced=True)
    for text, value in right.items():
        assert accepts(lark, call(text), special), text
        (found,) = read(fmt, call(text)).calls
        assert json.loads(found.arguments) == {"v": value}
    for text in wrong:
        assert not accepts(lark, call(text), special), text


@pytest.mark.parametrize(
    ("schema", "_right", "_wrong"), CASES, ids=lambda case: json.dumps(case)[:60]
)
@pytest.mark.parametrize("family", XML_FAMILIES)
def test_whatever_is_let_through_is_one_call(family, schema, _right, _wrong):
    tools = definition(schema, w={"type": "string"})
    lark = grammar(family, None, tools=tools)
    fmt = OutputFormat(family=family, tools=tools, forced=True)
    rng = random.Random(f"{family} {json.dumps(schema)}")
    for text in filter(None, (walk(lark, rng) for _ in range(12))):
        result = read(fmt, text)
        assert len(result.calls) == 1, text
        assert result.content == "", text
        (found,) = result.calls
        assert set(json.loads(found.arguments)) <= {"v", "w"}
        assert read(fmt, *text) == result


@pytest.mark.parametrize(
    "schema",
    [{"type": "string", "format": "colour"}, {"type": "string", "not": {"const": "a"}}],
)
def test_notes_and_what_is_judged_afterwards_leave_any_text(schema):
    assert values_of(schema, schema) == Values()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string", "pattern": "(^a|b)"}, r"\^ or \$ inside"),
        ({"type": "string", "$dynamicRef": "#x"}, r"'\$dynamicRef'"),
        (
            {"allOf": [{"pattern": "a"}, {"pattern": "b"}], "type": "string"},
            "differ in 'pattern'",
        ),
        ({"enum": []}, "no value"),
        ({"anyOf": [{"anyOf": [{"$ref": "#/$defs/many"}] * 40}] * 40}, "too many"),
    ],
)
def test_what_cannot_be_held_is_named(schema, message):
    with pytest.raises(ValueError, match=message) as caught:
        grammar("qwen3.5", None, tools=definition(schema))
    assert "'v' of 'f'" in str(caught.value)
