from __future__ import annotations

import json
import random
from typing import Any

import pytest

from kinetic.model.constraints.json_schema import blanks
from kinetic.model.constraints.json_schema.check import GUIDANCE, check_schema
from kinetic.model.constraints.json_schema.embedded import checked_lark
from kinetic.model.constraints.json_schema.errors import SchemaError, pointer
from kinetic.model.constraints.json_schema.values import SchemaLimits
from tests.support.bytewise import accepts, compiled, compiler

PERSON = {"name": {"type": "string"}, "age": {"type": "integer"}}


def checked(schema: Any, **options: Any) -> dict[str, Any]:
    limits = SchemaLimits(**options)
    return check_schema(json.dumps(schema), limits=limits, bound_blanks=False).schema


def is_valid(schema: Any, text: str) -> bool:
    return accepts(compiled("json_schema", json.dumps(schema)), text)


def test_keys_come_in_the_order_of_the_schema():
    schema = {"type": "object", "properties": {"b": {"const": 1}, "a": {"const": 2}}}
    schema["required"] = ["a", "b"]
    assert is_valid(schema, '{"b": 1, "a": 2}')
    assert not is_valid(schema, '{"a": 2, "b": 1}')


def test_an_object_with_properties_has_no_others_unless_the_schema_says_so():
    named = {"type": "object", "properties": PERSON}
    assert not is_valid(named, '{"x": 1}')
    assert is_valid({**named, "additionalProperties": True}, '{"x": 1}')
    assert is_valid({"type": "object"}, '{"x": 1}')
    assert is_valid({"type": "object", "properties": {}}, "{}")
    assert not is_valid({"type": "object", "properties": {}}, '{"x": 1}')


def test_a_required_property_that_is_not_described_may_be_anything():
    schema = {"type": "object", "properties": PERSON, "required": ["x"]}
    assert is_valid(schema, '{"x": [1]}')
    assert not is_valid(schema, "{}")


def test_objects_that_are_combined_stay_open_for_each_other():
    one = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
    }
    two = {
        "type": "object",
        "properties": {"b": {"type": "integer"}},
        "required": ["b"],
    }
    assert is_valid({"allOf": [one, two]}, '{"a": 1, "b": 2}')
    assert is_valid({**one, "anyOf": [two]}, '{"a": 1, "b": 2}')
    assert is_valid({"oneOf": [two], **one}, '{"b": 2, "a": 1}')
    reached = {"$ref": "#/$defs/one", "required": ["b"], "$defs": {"one": one}}
    assert is_valid(reached, '{"a": 1, "b": "x"}')


def test_an_object_is_meant_where_only_objects_are_described():
    assert not is_valid({"properties": PERSON}, '"x"')
    assert not is_valid({"items": {}}, '"x"')
    assert is_valid({"minLength": 1}, "5")
    assert is_valid({"anyOf": [{"properties": PERSON}, {"type": "null"}]}, "null")


def test_white_space_between_tokens_has_bounds():
    schema = {"type": "array", "items": {"type": "integer"}}
    assert is_valid(schema, "[1, 2 ]")
    assert is_valid(schema, "[\n    1,\n    2\n]")
    assert not is_valid(schema, "[  1]")
    assert not is_valid(schema, "[\n\n1]")
    assert not is_valid(schema, "[1]\n")
    assert not is_valid(schema, f"[\n{' ' * 21}1]")


@pytest.mark.parametrize("schema", [True, {"type": "string"}, {"minLength": 1}])
def test_white_space_inside_free_strings_has_bounds(schema):
    def text(inner: str) -> str:
        return json.dumps(f"x{inner}y")

    assert is_valid(schema, text(" " * 16))
    assert not is_valid(schema, text(" " * 17))
    assert is_valid(schema, text("\n" * 16 + " " * 64))
    assert is_valid(schema, text("\r\n\r\n\t\tdef f():\n        return 1"))
    assert not is_valid(schema, text("\n" * 17))
    assert not is_valid(schema, text("\n" + " " * 65))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^x *y$"},
        {"const": f"x{' ' * 30}y"},
        {"type": "string", "maxLength": 40},
    ],
)
def test_strings_that_the_schema_describes_have_its_bounds_alone(schema):
    assert is_valid(schema, json.dumps(f"x{' ' * 30}y"))


def test_a_string_of_one_character_at_least_is_not_just_blanks():
    schema = {"type": "string", "minLength": 1}
    assert is_valid(schema, '" a "')
    assert not is_valid(schema, '""')


def test_keys_of_maps_have_bounds():
    assert is_valid({"type": "object"}, '{"a b": 1}')
    assert not is_valid({"type": "object"}, f'{{"a{" " * 17}": 1}}')


def test_nothing_of_the_client_but_enforced_keywords_goes_on():
    schema = {"type": "object", "properties": {"x": {"x-guidance": {"lenient": True}}}}
    schema |= {"title": "t", "$schema": "x", "x-guidance": {"lenient": True}}
    found = checked(schema)
    assert found == {
        "type": "object",
        "properties": {"x": True},
        "additionalProperties": False,
        GUIDANCE: {
            "whitespace_flexible": True,
            "whitespace_pattern": blanks.BETWEEN,
            "json_allowed_escapes": 'nrbtf\\"',
        },
    }


def test_null_is_as_good_as_no_keyword():
    schema = {"type": "string", "enum": None, "not": None, "pattern": None}
    assert checked(schema) == checked({"type": "string"})
    assert is_valid({"const": None}, "null")


def test_definitions_that_nobody_uses_are_not_looked_at():
    assert checked({"type": "null", "$defs": {"x": {"not": {}}}})["type"] == "null"


def test_bounds_beyond_exact_numbers_are_narrowed():
    found = checked({"type": "integer", "minimum": -(10**30), "maximum": 1e30})
    assert found["minimum"] == -(2**53 - 1)
    assert found["maximum"] == 2**53 - 1


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_a_bound_that_is_out_is_out_beside_any_fraction(kind):
    # The library lets "0" through for the schema as it stands.
    schema = {"type": kind, "exclusiveMinimum": 0, "maximum": 1.5}
    assert not is_valid(schema, "0")
    combined = {"allOf": [{"exclusiveMinimum": 0}, {"type": kind, "maximum": 1.5}]}
    assert not is_valid(combined, "0")
    assert is_valid(combined, "1")


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        ((0, 0), (0,), (1, -1)),
        ((-1, 1), (-1, 0, 1), (-2, 2)),
        ((7, 13), (7, 10, 13), (6, 14, 70, 1)),
        ((99, 1001), (99, 100, 1001), (98, 1002, 9)),
        ((3, None), (3, 10, 2999), (2, -3)),
        ((None, -5), (-5, -60), (-4, 5)),
        ((-(2**63), None), (-(2**53) + 1, 0, 2**53 - 1), (2**60, -(2**60))),
    ],
)
def test_ranges_hold_to_the_last_number(bounds, inside, outside):
    low, high = bounds
    schema: dict[str, Any] = {"type": "integer"}
    schema |= {} if low is None else {"minimum": low}
    schema |= {} if high is None else {"maximum": high}
    assert [n for n in inside if not is_valid(schema, str(n))] == []
    assert [n for n in outside if is_valid(schema, str(n))] == []
    assert not is_valid(schema, f"0{inside[0]}")
    assert not is_valid({"type": "integer", "minimum": 0, "maximum": 0}, "-0")


@pytest.mark.parametrize(
    ("schema", "limits", "reason"),
    [
        ({"const": "x" * 100}, {"max_bytes": 50}, "bytes; the limit is 50"),
        ({"items": {"items": {}}}, {"max_depth": 2}, "nest deeper than 2"),
        ({"anyOf": [{}] * 9}, {"max_schemas": 5}, "more than 5 schemas"),
        ({"enum": [1] * 9}, {"max_values": 5}, "more than 5 values"),
        ({"const": {"a": [1, 2, 3]}}, {"max_values": 5}, "more than 5 values"),
        ({"properties": {"a": {}, "b": {}}}, {"max_properties": 1}, "limit is 1"),
    ],
)
def test_size_has_limits(schema, limits, reason):
    with pytest.raises(SchemaError, match=reason):
        checked(schema, **limits)


def test_patterns_that_would_have_to_match_one_text_are_few():
    many = [{"pattern": f"a{i}"} for i in range(9)]
    with pytest.raises(SchemaError, match="more than 8"):
        checked({"allOf": many})
    with pytest.raises(SchemaError, match="more than 8"):
        checked({"allOf": [{"properties": {"k": part}} for part in many]})
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}", **many[i]} for i in range(8)}
    with pytest.raises(SchemaError, match="more than 8"):
        checked({"$ref": "#/$defs/d0", **many[8], "$defs": {**chain, "d8": many[0]}})
    checked({"anyOf": many})
    checked({"properties": {f"k{i}": part for i, part in enumerate(many)}})


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ('{"minimum": NaN}', "NaN is no number"),
        ('{"minimum": 1e999}', "must be a number"),
        ('{"minimum": ' + "9" * 5000 + "}", "not JSON"),
        ('{"minimum": 1' + "0" * 400 + "}", '"minimum"'),
        ('{"maximum": -1' + "0" * 400 + "}", '"maximum"'),
        ('{"minLength": 1' + "0" * 400 + "}", "above the limit"),
        ('{"multipleOf": 1' + "0" * 400 + "}", '"multipleOf" must be above 0 and'),
        ("[" * 100_000, "nests deeper"),
        ('{"items":' * 900 + "{}" + "}" * 900, "nest deeper than 40"),
    ],
)
def test_what_is_no_schema_is_refused(source, reason):
    with pytest.raises(SchemaError, match=reason):
        check_schema(source, limits=SchemaLimits())


@pytest.mark.parametrize("digits", [308, 309, 400, 4000])
def test_bounds_that_are_no_bounds_may_have_any_length(digits):
    far = int("1" + "0" * digits)
    shape = {"type": "integer", "minimum": -far, "maximum": far}
    assert is_valid(shape, "5")


def test_a_pointer_escapes_its_steps():
    assert pointer("/a", "b/c", 3, "~") == "/a/b~1c/3/~0"


def test_schemas_inside_a_grammar_are_checked_and_rewritten():
    text = (
        'start: "%json {" /%json [\\/]/ args_0 // %json {\n'
        'args_0: %json {"properties": {"a": {}}, "x-guidance": {"item_separator": ";"}}\n'
        'end: "x"\n'
    )
    found = checked_lark(text, param="tools", fields={}, limits=SchemaLimits())
    first, second, *rest = found.text.split("\n")
    assert first == text.split("\n", maxsplit=1)[0]
    assert rest == ['end: "x"', ""]
    assert json.loads(second.removeprefix("args_0: %json ")) == {
        "type": "object",
        "properties": {"a": True},
        "additionalProperties": False,
        GUIDANCE: {"item_separator": ";", "json_allowed_escapes": 'nrbtf\\"'},
    }


def test_a_schema_inside_a_grammar_is_blamed_by_its_field():
    text = (
        'start: args_1\nargs_0: %json {"type": "null"}\nargs_1: %json {"extends": {}}\n'
    )
    fields = {"args_1": "tools[1].function.parameters"}
    with pytest.raises(SchemaError) as caught:
        checked_lark(text, param="tools", fields=fields, limits=SchemaLimits())
    assert caught.value.field == "tools[1].function.parameters"


def test_made_up_keywords_never_change_what_is_enforced():
    rng = random.Random(3)
    notes = {"title": "x", "$comment": "not", "x-y": {"not": {}}, "enumNames": ["a"]}
    for schema in ({"type": "integer"}, {"enum": ["a"]}, {"minLength": 2}):
        keys = rng.sample(sorted(notes), 3)
        assert checked(schema) == checked({**{k: notes[k] for k in keys}, **schema})


def test_one_compiler_serves_all():
    assert compiled("json_schema", "true") is compiled("json_schema", "true")
    assert compiler() is compiler()
