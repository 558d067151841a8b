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


@dataclass(frozen=True)
class Judged:
    """A feature that is not held, or not wholly: finished answers are judged by it."""

    name: str
    schema: Any
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    """Answers that are told as wrong."""
    held: tuple[str, ...] = ()
    """Answers that decoding forbids all the same."""


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
    Enforced("format: any other", {"type": "string", "format": "uri-reference"}, ('"x y"', '""'), ("1",)),
    Enforced("format: the library's wildcard", {"format": "unknown"}, ('"x"',), ()),
    Enforced("maxLength: huge", {"type": "string", "maxLength": 2**31 - 1, "pattern": "^a"}, ('"ab"',), ('"b"',)),
    Enforced("maxItems: huge", {"type": "array", "items": {"type": "null"}, "maxItems": 2**31 - 1}, ("[null]",), ("[1]",)),
    Enforced("maxProperties: huge", {"type": "object", "properties": {"a": {"type": "null"}}, "maxProperties": 5000}, ('{"a": null}', "{}"), ('{"b": 1}',)),
    Enforced("maxProperties above all that there are", {"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 2}, ('{"a": 1, "b": 1}',), ('{"c": 1}',)),
    Enforced("minProperties below those required", {"type": "object", "properties": _PERSON, "required": ["age", "name"], "minProperties": 2}, ('{"name": "x", "age": 1}',), ("{}",)),
    Enforced("not: a type", {"type": ["string", "null"], "not": {"type": "null"}}, ('"a"',), ("null",)),
    Enforced("not: false", {"type": "null", "not": False}, ("null",), ("1",)),
    Enforced("additionalProperties: not anything", {"type": "object", "properties": {"a": {}}, "additionalProperties": {"not": {}}}, ('{"a": 1}',), ('{"b": 1}',)),
    Enforced("unevaluatedProperties", {"type": "object", "properties": {"a": {}}, "unevaluatedProperties": False}, ('{"a": 1}',), ('{"b": 1}',)),
    Enforced("unevaluatedItems", {"type": "array", "prefixItems": [{"type": "null"}], "unevaluatedItems": {"not": {}}}, ("[null]",), ("[null, 1]",)),
    Enforced("propertyNames: a pattern", {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "additionalProperties": {"type": "integer"}}, ('{"ab": 1}', "{}"), ('{"A": 1}', '{"a": "x"}')),
    Enforced("propertyNames: an enum", {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "integer"}}, ('{"a": 1, "b": 2}',), ('{"c": 1}', '{"a": "x"}')),
    Enforced("dependentRequired", {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "dependentRequired": {"a": ["b"]}}, ('{"a": null, "b": null}', '{"b": null}', "{}"), ('{"a": null}', '{"c": 1}')),
    Enforced("dependentRequired of what is required", {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "required": ["a"], "dependentRequired": {"a": ["b"]}}, ('{"a": null, "b": null}',), ('{"a": null}',)),
    Enforced("dependentSchemas", {"type": "object", "properties": {"a": {"type": "null"}, "n": {"type": "integer"}}, "dependentSchemas": {"a": {"properties": {"n": {"minimum": 5}}, "required": ["n"]}}}, ('{"a": null, "n": 7}', '{"n": 1}'), ('{"a": null}', '{"a": null, "n": 1}', '{"x": 1}')),
    Enforced("if: a tag", {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "x": {"type": "null"}, "y": {"type": "null"}}, "if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]}, "then": {"required": ["x"]}, "else": {"required": ["y"]}}, ('{"kind": "a", "x": null}', '{"kind": "b", "y": null}', '{"y": null}'), ('{"kind": "a"}', '{"kind": "a", "y": null}', '{"kind": "b", "x": null}', "{}", '{"y": null, "z": 1}')),
    Enforced("if: a tag that may be missing", {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "x": {"type": "null"}}, "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["x"]}}, ('{"kind": "a", "x": null}', '{"kind": "b"}', '{"x": null}'), ('{"kind": "a"}', "{}")),
    Enforced("if: a tag that lets a property in", {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}}, "required": ["kind"], "if": {"properties": {"kind": {"enum": ["a", "c"]}}}, "then": {"properties": {"x": {"type": "null"}}, "required": ["x"]}}, ('{"kind": "a", "x": null}', '{"kind": "b"}'), ('{"kind": "a"}', '{"kind": "a", "x": 1}', '{"kind": "b", "y": 1}')),
    Enforced("dependencies", {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "dependencies": {"a": ["b"]}}, ('{"a": null, "b": null}',), ('{"a": null}',)),
)  # fmt: skip

_OPEN = {"type": "object", "additionalProperties": True}
_KIND = {"properties": {"kind": {"const": "a"}}, "required": ["kind"]}
JUDGED = (
    Judged("not", {"type": "string", "not": {"minLength": 3}}, ('"ab"',), ('"abc"',), ("1",)),
    Judged("not: a pattern", {"type": "string", "not": {"pattern": "^a+$"}}, ('"ab"',), ('"aaa"',)),
    Judged("if, then, else", {**_OPEN, "if": _KIND, "then": {"required": ["x"]}, "else": {"required": ["y"]}}, ('{"kind": "a", "x": 1}', '{"y": 1}'), ('{"kind": "a"}', "{}")),
    Judged("if beside closed properties", {"type": "object", "properties": {"n": {"type": "integer"}}, "if": {"properties": {"n": {"minimum": 5}}}, "then": {"properties": {"x": {"type": "null"}}, "required": ["x"]}}, ('{"n": 1}', '{"n": 7, "x": null}'), ('{"n": 7}', "{}"), ('{"n": 1, "y": 1}',)),
    Judged("unevaluatedProperties beside $ref", {"$ref": "#/$defs/a", "properties": {"b": {"type": "null"}}, "unevaluatedProperties": False, "$defs": {"a": {"type": "object", "properties": {"a": {"type": "null"}}, "anyOf": [{"required": ["c"]}, {}]}}}, ('{"a": null, "b": null}',), ('{"c": 1}',), ('{"d": 1}',)),
    Judged("if, then", {**_OPEN, "if": _KIND, "then": {"required": ["x"]}}, ("{}",), ('{"kind": "a"}',)),
    Judged("uniqueItems", {"type": "array", "items": {"type": "number"}, "uniqueItems": True}, ("[1, 2]", "[]"), ("[1, 1]", "[1, 1.0]", "[0.5, 2, 5e-1]")),
    Judged("uniqueItems of an enum", {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True}, ('["a", "b"]',), ('["a", "a"]',), ('["a", "b", "a"]',)),
    Judged("contains", {"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 5}}, ("[1, 7]",), ("[1]",), ("[]",)),
    Judged("minContains, maxContains", {"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 5}, "minContains": 2, "maxContains": 2}, ("[7, 8]",), ("[1, 7]", "[5, 6, 7]"), ("[7]",)),
    Judged("propertyNames: a length", {"type": "object", "propertyNames": {"maxLength": 2}}, ('{"ab": 1}',), ('{"abc": 1}',)),
    Judged("propertyNames beside properties", {"type": "object", "properties": {"a": {}, "bc": {}}, "propertyNames": {"maxLength": 1}}, ('{"a": 1}',), ('{"bc": 1}',), ('{"x": 1}',)),
    Judged("unevaluatedProperties beside allOf", {"allOf": [_A, {"properties": {"c": {}}}], "unevaluatedProperties": False}, ('{"a": 1}',), (), ('{"a": 1, "b": 2}', '{"b": 1}')),
    Judged("unevaluatedItems beside allOf", {"type": "array", "allOf": [{"prefixItems": [{"type": "null"}]}], "unevaluatedItems": False}, ("[null]",), ("[null, 1]",), ("[1]",)),
    Judged("oneOf: overlapping", {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]}, ("3", "5.5"), ("7",), ('"x"', "4.5")),
    Judged("minProperties of a map", {"type": "object", "minProperties": 2, "additionalProperties": {"type": "null"}}, ('{"a": null, "b": null}',), ('{"a": null}',), ('{"a": 1}',)),
    Judged("minProperties of an open object", {"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": True, "minProperties": 1}, ('{"a": null}', '{"b": 1}'), ("{}",), ('{"a": 1}',)),
    Judged("maxProperties beside optional ones", {"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 1}, ('{"a": 1}',), ('{"a": 1, "b": 2}',)),
    Judged("many dependencies", {**_OPEN, "dependentRequired": {f"k{i}": ["x"] for i in range(9)}}, ('{"k8": 1, "x": 1}',), ('{"k8": 1}',), ('{"k0": 1}',)),
    Judged("deep inside", {"properties": {"a": {"type": "array", "items": {"type": "integer", "not": {"const": 3}}}}}, ('{"a": [2]}',), ('{"a": [3]}',), ('{"a": ["x"]}',)),
    Judged("draft 4 beside a newer keyword", {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer", "minimum": 3, "exclusiveMinimum": True, "if": {}, "then": {"maximum": 9}}, ("4",), ("10",), ("3",)),
    Judged("a factor of decimals", {"type": "array", "items": {"type": "number", "multipleOf": 0.01}, "uniqueItems": True}, ("[0.59, 0.07]",), ("[0.59, 0.59]",)),
    Judged("recursive", {"$defs": {"n": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/n"}, "uniqueItems": True}}}}, "$ref": "#/$defs/n"}, ('{"kids": [{}, {"kids": []}]}',), ('{"kids": [{"kids": [{}, {}]}]}',)),
)  # fmt: skip

REFUSED = (
    Refused("deep inside", {"properties": {"a/b": {"items": {"extends": {}}}}}, '"extends" is not supported', "/properties/a~1b/items/extends"),
    Refused("inside what is judged", {"not": {"items": {"minLength": -1}}}, "whole number", "/not/items/minLength"),
    Refused("judged: a reference out of the schema", {"if": {"$ref": "https://example.org/s"}, "then": False}, "nothing is fetched", "/if/$ref"),
    Refused("judged: a pattern", {"not": {"pattern": "(?=a)"}}, "(?=a", "/not/pattern"),
    Refused("uniqueItems: a word", {"uniqueItems": "yes"}, '"uniqueItems" cannot be "yes"', "/uniqueItems"),
    Refused("dependentRequired: a list", {"dependentRequired": ["a"]}, '"dependentRequired" cannot be', "/dependentRequired"),
    Refused("unevaluatedProperties beside patterns", {"unevaluatedProperties": False, "allOf": [{"patternProperties": {"a": {}}}]}, "beside", "/unevaluatedProperties"),
    Refused("not: anything", {"properties": {"a": {"not": {}}}, "required": ["a"]}, "unsatisfiable", "/"),
    Refused("format: a number", {"format": 5}, '"format" must be a string', "/format"),
    Refused("minItems: huge", {"minItems": 10**9}, '"minItems": 1000000000 is above the limit of 2000', "/minItems"),
    Refused("minLength: huge", {"minLength": 2**31 - 1}, "above the limit of 10000", "/minLength"),
    Refused("minProperties: huge", {"minProperties": 10**6}, "above the limit of 1000", "/minProperties"),
    Refused("$dynamicRef", {"$dynamicRef": "#a"}, '"$dynamicRef"', "/$dynamicRef"),
    Refused("$recursiveRef", {"$recursiveRef": "#"}, '"$recursiveRef"', "/"),
    Refused("draft 3: extends", {"extends": {"type": "null"}}, '"extends"', "/extends"),
    Refused("draft 3: disallow", {"disallow": "string"}, '"disallow"', "/disallow"),
    Refused("draft 3: divisibleBy", {"divisibleBy": 2}, '"divisibleBy"', "/divisibleBy"),
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
    Refused("pattern: look-ahead", {"pattern": "a(?=b)"}, "(?=b", "/pattern"),
    Refused("pattern: look-behind", {"pattern": "(?<!a)b"}, "(?<!", "/pattern"),
    Refused("pattern: back-reference", {"pattern": r"(a)\1"}, r"\1 is not", "/pattern"),
    Refused("pattern: word boundary", {"pattern": r"\bx"}, r"\b is not", "/pattern"),
    Refused("pattern: broken", {"pattern": "(a"}, "not closed", "/pattern"),
    Refused("pattern: matches nothing", {"type": "string", "pattern": "^a$", "minLength": 2}, "empty", "/"),
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
    Refused("allOf: incompatible", {"allOf": [{"type": "null"}, {"type": "string"}]}, "incompatible", "/"),
    Refused("patternProperties: overlapping", {"patternProperties": {"a": {}, "b": {}}}, "disjoint", "/"),
    Refused("required: a flag", {"properties": {"a": {"required": True}}}, "list of names", "/properties/a/required"),
    Refused("a list", [], "must be an object or a boolean", "/"),
    Refused("items: a word", {"items": "string"}, "must be an object or a boolean", "/items"),
    Refused("properties: a list", {"properties": []}, "must be an object", "/properties"),
    Refused("an escape that keys could hide behind", {"const": "\x01"}, "U+0001", "/const"),
)  # fmt: skip
