"""JSON Schema's features: what is enforced, what is refused, what says nothing.

For each that is enforced, answers that the schema allows, and others that it forbids;
a constraint must tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Enforced:
    """A feature that answers keep to."""

    name: str
    schema: Any
    allowed: tuple[str, ...]
    forbidden: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """A feature that is answered with 400."""

    name: str
    schema: Any
    reason: str
    path: str


_PERSON = {"name": {"type": "string"}, "age": {"type": "integer"}}
_A = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
_B = {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}
_CAT = {
    "type": "object",
    "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
    "required": ["kind"],
}
_DOG = {
    "type": "object",
    "properties": {"kind": {"const": "dog"}, "tricks": {"type": "integer"}},
    "required": ["kind"],
}
_TREE = {
    "type": "object",
    "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    "required": ["children"],
}

ENFORCED = (
    Enforced("true", True, ("1", "null", '{"a": [1]}', '"x"'), ("", "nul", "{")),
    Enforced("{}", {}, ("1", "[]"), ("1 ", " 1", "01")),
    Enforced("type", {"type": "integer"}, ("0", "-3", "12"), ("1.5", "01", '"1"')),
    Enforced(
        "type: number", {"type": "number"}, ("0.5", "1e3", "-2"), (".5", "1.", "+1")
    ),
    Enforced("type: null", {"type": "null"}, ("null",), ("0", "Null")),
    Enforced("type: boolean", {"type": "boolean"}, ("true", "false"), ("True", "1")),
    Enforced(
        "type: string", {"type": "string"}, ('"é\\n"', '""'), ("x", '"\n"', "'x'")
    ),
    Enforced(
        "type: several", {"type": ["string", "null"]}, ('"a"', "null"), ("1", "false")
    ),
    Enforced(
        "enum", {"enum": [1, None, 'y"z']}, ("1", "null", '"y\\"z"'), ('"1"', "2")
    ),
    Enforced("const", {"const": {"a": [1]}}, ('{"a": [1]}',), ('{"a": [2]}', "{}")),
    Enforced(
        "properties, required",
        {"type": "object", "properties": _PERSON, "required": ["name"]},
        ('{"name": "x"}', '{\n  "name": "x",\n  "age": 3\n}'),
        ("{}", '{"age": 3}', '{"name": 3}', '{"name": "x", "age": 1.5}'),
    ),
    Enforced(
        "additionalProperties: false",
        {"type": "object", "properties": _PERSON, "additionalProperties": False},
        ("{}", '{"age": 3}'),
        ('{"x": 3}', '{"\\u0061ge": 3}'),
    ),
    Enforced(
        "additionalProperties: a schema",
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "additionalProperties": {"type": "string"},
        },
        ('{"a": 1, "b": "x"}', '{"b": "x"}'),
        ('{"b": 1}', '{"a": "x"}', '{"\\u0061": "x"}', '{"a": 1, "a": "x"}'),
    ),
    Enforced(
        "additionalProperties: true",
        {"type": "object", "properties": _PERSON, "additionalProperties": True},
        ('{"x": [1]}',),
        ('{"age": "x"}',),
    ),
    Enforced(
        "patternProperties",
        {
            "type": "object",
            "patternProperties": {"^n_": {"type": "integer"}},
            "additionalProperties": False,
        },
        ('{"n_a": 1}', "{}"),
        ('{"n_a": "x"}', '{"a": 1}'),
    ),
    Enforced(
        "minProperties",
        {"type": "object", "minProperties": 1, "properties": {"a": {}, "b": {}}},
        ('{"a": 1}', '{"b": 1}'),
        ("{}",),
    ),
    Enforced(
        "maxProperties",
        {"type": "object", "maxProperties": 1, "additionalProperties": {}},
        ("{}", '{"a": 1}'),
        ('{"a": 1, "b": 2}',),
    ),
    Enforced(
        "items",
        {"type": "array", "items": {"type": "integer"}},
        ("[]", "[1, 2]"),
        ('["a"]',),
    ),
    Enforced(
        "prefixItems",
        {"type": "array", "prefixItems": [{"type": "integer"}], "items": False},
        ("[1]", "[]"),
        ('["a"]', "[1, 2]"),
    ),
    Enforced(
        "items: a list",
        {"items": [{"type": "integer"}], "additionalItems": {"type": "null"}},
        ("[1]", "[1, null]"),
        ("[null]", "[1, 2]"),
    ),
    Enforced(
        "minItems, maxItems",
        {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "null"}},
        ("[null]", "[null, null]"),
        ("[]", "[null, null, null]"),
    ),
    Enforced(
        "minimum, maximum",
        {"type": "integer", "minimum": -1, "maximum": 12},
        ("-1", "0", "12"),
        ("-2", "13", "00", "012"),
    ),
    Enforced(
        "exclusiveMinimum, exclusiveMaximum",
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5},
        ("0.1", "0.49"),
        ("0", "0.5", "-0.1", "0.0"),
    ),
    Enforced(
        "exclusiveMinimum: true",
        {"type": "integer", "minimum": 3, "exclusiveMinimum": True},
        ("4",),
        ("3", "2"),
    ),
    Enforced(
        "multipleOf",
        {"type": "integer", "multipleOf": 5},
        ("0", "-5", "15"),
        ("3", "12"),
    ),
    Enforced(
        "minLength, maxLength",
        {"type": "string", "minLength": 2, "maxLength": 3},
        ('"ab"', '"é漢🦊"', '"a\\n"'),
        ('"a"', '"abcd"'),
    ),
    Enforced(
        "pattern: anywhere",
        {"type": "string", "pattern": "b+"},
        ('"abc"', '"b"'),
        ('"ac"',),
    ),
    Enforced(
        "pattern: anchors",
        {"type": "string", "pattern": r"^\d{2,4}-\w+$"},
        ('"12-a_9"',),
        ('"1-a"', '"x12-a"', '"12-"'),
    ),
    Enforced(
        "pattern: classes",
        {"type": "string", "pattern": r"^\S[.\-a-c\s&]$"},
        ('"x&"', '"x."', '"xb"', '"x "'),
        ('" b"', '"xd"'),
    ),
    Enforced("pattern: flag", {"pattern": "^(?i:ab)c$"}, ('"ABc"',), ('"abC"',)),
    Enforced(
        "pattern: escapes",
        {"type": "string", "pattern": r"^a\!\u0062\x63$"},
        ('"a!bc"',),
        ('"a"',),
    ),
    Enforced(
        "format: date",
        {"type": "string", "format": "date"},
        ('"2024-02-29"', '"1999-12-31"'),
        ('"2023-02-29"', '"1900-02-29"', '"0000-01-01"', '"2023-04-31"'),
    ),
    Enforced(
        "format: time",
        {"type": "string", "format": "time"},
        ('"23:59:59Z"', '"00:00:00.5+01:00"'),
        ('"24:00:00Z"', '"10:00:60Z"', '"10:00"'),
    ),
    Enforced(
        "format: date-time",
        {"type": "string", "format": "date-time"},
        ('"2024-02-29T10:00:00Z"',),
        ('"2024-02-30T10:00:00Z"', '"2024-02-29"'),
    ),
    Enforced(
        "format: email", {"format": "email"}, ('"a.b@c.org"',), ('"a@"', '"@c.org"')
    ),
    Enforced("format: ipv4", {"format": "ipv4"}, ('"10.0.0.255"',), ('"10.0.0.256"',)),
    Enforced("format: ipv6", {"format": "ipv6"}, ('"::1"',), ('"1::2::3"', '"g::"')),
    Enforced(
        "format: uuid",
        {"format": "uuid"},
        ('"123e4567-e89b-12d3-a456-426614174000"',),
        ('"123e4567"',),
    ),
    Enforced(
        "format: uri", {"format": "uri"}, ('"https://a.b/c?d#e"',), ('"//a"', '"a b"')
    ),
    Enforced(
        "format: hostname", {"format": "hostname"}, ('"a-1.b"',), ('"-a"', '"a..b"')
    ),
    Enforced(
        "format: duration", {"format": "duration"}, ('"P1DT2H"',), ('"P"', '"1D"')
    ),
    Enforced(
        "format of a number", {"type": "integer", "format": "int32"}, ("7",), ("1.5",)
    ),
    Enforced(
        "anyOf",
        {"anyOf": [{"const": "x"}, {"enum": [1, None]}]},
        ('"x"', "1", "null"),
        ("x", '"1"', '"\\"x\\""'),
    ),
    Enforced(
        "oneOf: exclusive types",
        {"oneOf": [{"type": "string"}, {"type": "null"}]},
        ('"x"', "null"),
        ("1",),
    ),
    Enforced(
        "oneOf: a tag",
        {
            "oneOf": [{"$ref": "#/$defs/c"}, {"$ref": "#/$defs/d"}],
            "$defs": {"c": _CAT, "d": _DOG},
        },
        ('{"kind": "cat", "lives": 9}', '{"kind": "dog"}'),
        ('{"kind": "cat", "tricks": 1}', '{"kind": "cow"}'),
    ),
    Enforced(
        "allOf",
        {"allOf": [_A, _B]},
        ('{"a": 1, "b": true}',),
        ('{"a": 1}', '{"b": true}', '{"a": true, "b": 1}'),
    ),
    Enforced(
        "$ref, recursive",
        {"$ref": "#/$defs/tree", "$defs": {"tree": _TREE}},
        ('{"children": []}', '{"children": [{"children": []}]}'),
        ('{"children": [1]}', "{}"),
    ),
    Enforced(
        "$ref: into a schema",
        {
            "type": "object",
            "properties": {
                "a": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "b": {"$ref": "#/properties/a/anyOf/0"},
            },
        },
        ('{"a": null, "b": 1}',),
        ('{"b": null}',),
    ),
    Enforced(
        "$ref: an anchor",
        {"$ref": "#n", "$defs": {"x": {"$anchor": "n", "type": "integer"}}},
        ("1",),
        ("null",),
    ),
    Enforced(
        "$ref: escaped",
        {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "null"}}},
        ("null",),
        ("1",),
    ),
    Enforced(
        "$ref with keywords beside it",
        {"$ref": "#/$defs/n", "minimum": 5, "$defs": {"n": {"type": "integer"}}},
        ("5", "6"),
        ("4", "5.5"),
    ),
    Enforced(
        "notes",
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$id": "https://example.org/x",
            "$comment": "c",
            "title": "t",
            "description": "d",
            "default": 5,
            "examples": [1],
            "deprecated": True,
            "readOnly": True,
            "contentEncoding": "base64",
            "x-order": 3,
            "type": "integer",
        },
        ("1",),
        ("1.5",),
    ),
    Enforced(
        "x-guidance of a client",
        {"x-guidance": {"lenient": True, "whitespace_pattern": "x+"}, "type": "array"},
        ("[]", "[ 1 ]"),
        ("[xx]", "[  ]"),
    ),
    Enforced(
        "keywords without effect",
        {
            "type": "array",
            "uniqueItems": False,
            "contains": {"type": "null"},
            "minContains": 0,
            "if": {},
            "not": False,
            "propertyNames": True,
            "dependentRequired": {},
            "items": {"type": "integer"},
        },
        ("[1, 1]",),
        ("[null]",),
    ),
)

REFUSED = (
    Refused("not", {"not": {"type": "string"}}, '"not" is not supported', "/not"),
    Refused("if", {"if": {}, "then": {"type": "null"}}, '"if"', "/if"),
    Refused("uniqueItems", {"type": "array", "uniqueItems": True}, '"uniqueItems"', "/"),
    Refused("contains", {"contains": {"type": "null"}}, '"contains"', "/contains"),
    Refused("propertyNames", {"propertyNames": {"maxLength": 3}}, '"propertyNames"', "/"),
    Refused("dependencies", {"dependencies": {"a": ["b"]}}, '"dependencies"', "/"),
    Refused("dependentRequired", {"dependentRequired": {"a": ["b"]}}, '"dependentReq', "/"),
    Refused("dependentSchemas", {"dependentSchemas": {"a": {}}}, '"dependentSchemas"', "/"),
    Refused("unevaluatedProperties", {"unevaluatedProperties": False}, '"unevaluated', "/"),
    Refused("unevaluatedItems", {"unevaluatedItems": False}, '"unevaluatedItems"', "/"),
    Refused("$dynamicRef", {"$dynamicRef": "#a"}, '"$dynamicRef"', "/$dynamicRef"),
    Refused("$recursiveRef", {"$recursiveRef": "#"}, '"$recursiveRef"', "/"),
    Refused("draft 3: extends", {"extends": {"type": "null"}}, '"extends"', "/extends"),
    Refused("draft 3: disallow", {"disallow": "string"}, '"disallow"', "/disallow"),
    Refused("draft 3: divisibleBy", {"divisibleBy": 2}, '"divisibleBy"', "/divisibleBy"),
    Refused(
        "a keyword newer than the draft",
        {"$schema": "http://json-schema.org/draft-04/schema#", "if": {}, "then": False},
        '"if"',
        "/if",
    ),
    Refused(
        "deep inside",
        {"properties": {"a/b": {"items": {"not": {}}}}},
        '"not" is not supported',
        "/properties/a~1b/items/not",
    ),
    Refused("type: unknown", {"type": "nope"}, 'not "nope"', "/type"),
    Refused("type: none", {"type": []}, "names no type", "/type"),
    Refused("enum: empty", {"enum": []}, "at least one", "/enum"),
    Refused("false", {"properties": {"a": False}, "required": ["a"]}, "unsatisfiable", "/"),
    Refused("minimum > maximum", {"type": "integer", "minimum": 5, "maximum": 2}, "no number", "/"),
    Refused(
        "no integer between",
        {"type": "integer", "exclusiveMinimum": 0.2, "maximum": 0.8},
        "no number",
        "/",
    ),
    Refused("minimum beyond 2**53", {"type": "integer", "minimum": 1e30}, "2**53", "/minimum"),
    Refused("const beyond 2**53", {"const": 9007199254740993}, "2**53", "/const"),
    Refused("multipleOf 0", {"multipleOf": 0}, "above 0", "/multipleOf"),
    Refused("minLength > maxLength", {"minLength": 3, "maxLength": 2}, "is above", "/"),
    Refused("minLength: -1", {"minLength": -1}, "whole number", "/minLength"),
    Refused("maxItems: 1.5", {"maxItems": 1.5}, "whole number", "/maxItems"),
    Refused("maxItems: huge", {"maxItems": 10**9}, "limit", "/maxItems"),
    Refused("pattern: look-ahead", {"pattern": "a(?=b)"}, "(?=b", "/pattern"),
    Refused("pattern: look-behind", {"pattern": "(?<!a)b"}, "(?<!", "/pattern"),
    Refused("pattern: back-reference", {"pattern": r"(a)\1"}, r"\1 is not", "/pattern"),
    Refused("pattern: word boundary", {"pattern": r"\bx"}, r"\b is not", "/pattern"),
    Refused("pattern: broken", {"pattern": "(a"}, "not closed", "/pattern"),
    Refused("pattern: matches nothing", {"type": "string", "pattern": "^a$", "minLength": 2}, "empty", "/"),
    Refused("format: unknown", {"format": "yaml"}, '"yaml" is not supported', "/format"),
    Refused("format: the library's wildcard", {"format": "unknown"}, "not supported", "/format"),
    Refused("$ref: to nothing", {"$ref": "#/$defs/x"}, "leads to nothing", "/$ref"),
    Refused("$ref: a URL", {"$ref": "https://example.org/s"}, "nothing is fetched", "/$ref"),
    Refused("$ref: a file", {"$ref": "other.json#/x"}, "nothing is fetched", "/$ref"),
    Refused("$ref: itself", {"$ref": "#"}, "in a circle", "/$ref"),
    Refused(
        "$ref: a circle",
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
        "in a circle",
        "/$defs/b/anyOf/0/$ref",
    ),
    Refused("oneOf: overlapping", {"oneOf": [{"type": "integer"}, {"type": "number"}]}, '"oneOf"', "/oneOf"),
    Refused(
        "oneOf: an object for which nothing else is said",
        {"oneOf": [{"properties": {"a": {}}}, {"type": "string"}]},
        '"oneOf"',
        "/oneOf",
    ),
    Refused("allOf: incompatible", {"allOf": [{"type": "null"}, {"type": "string"}]}, "incompatible", "/"),
    Refused("patternProperties: overlapping", {"patternProperties": {"a": {}, "b": {}}}, "disjoint", "/"),
    Refused("minProperties: of a map", {"minProperties": 2, "additionalProperties": {}}, '"minProperties"', "/"),
    Refused("required: a flag", {"properties": {"a": {"required": True}}}, "list of names", "/properties/a/required"),
    Refused("a list", [], "must be an object or a boolean", "/"),
    Refused("items: a word", {"items": "string"}, "must be an object or a boolean", "/items"),
    Refused("properties: a list", {"properties": []}, "must be an object", "/properties"),
    Refused("an escape that keys could hide behind", {"const": "\x01"}, "U+0001", "/const"),
)  # fmt: skip
