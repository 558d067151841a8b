"""Every spelling of what an answer is held to."""

import json

import pytest

from kinetic.errors import RequestError
from kinetic.web.fields import constraints

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("value", "kind", "source"),
    [
        ({"type": "json_object"}, "json_object", None),
        ({"type": "json_object", "schema": SCHEMA}, "json_schema", SCHEMA),
        (
            {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
            "json_schema",
            SCHEMA,
        ),
        (
            {
                "type": "json_schema",
                "json_schema": {"name": "x", "strict": True, "schema": SCHEMA},
            },
            "json_schema",
            SCHEMA,
        ),
        (
            {
                "type": "json_schema",
                "json_schema": {"name": "x", "strict": None, "schema": {}},
            },
            "json_schema",
            {},
        ),
        ({"type": "json_schema", "schema": SCHEMA}, "json_schema", SCHEMA),
    ],
)
def test_response_formats_are_read(value, kind, source):
    found = constraints.response_format(value)
    assert found is not None
    assert found.kind == kind
    assert (json.loads(found.source) if found.source else None) == source


def test_a_schemas_keys_keep_their_order():
    found = constraints.json_of({"b": 1, "a": "é"}, param="format")
    assert found.source == '{"b": 1, "a": "é"}'


def test_plain_text_is_no_constraint():
    assert constraints.response_format({"type": "text"}) is None


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ({}, "response_format.type"),
        ({"type": None}, "response_format.type"),
        ({"type": "yaml"}, "response_format.type"),
        ({"type": ["json_object"]}, "response_format.type"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": []}, "response_format.json_schema"),
        (
            {"type": "json_schema", "json_schema": {}},
            "response_format.json_schema.schema",
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": "x"}},
            "response_format.json_schema.schema",
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": {}, "name": 5}},
            "response_format.json_schema.name",
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": {}, "strict": "yes"}},
            "response_format.json_schema.strict",
        ),
        ({"type": "json_object", "schema": 5}, "response_format.schema"),
    ],
)
def test_what_is_no_response_format_is_refused_with_its_place(value, param):
    with pytest.raises(RequestError) as refused:
        constraints.response_format(value)
    assert refused.value.param == param


def test_an_empty_grammar_is_none():
    assert constraints.gbnf("") is None
    assert constraints.gbnf(" \n") is None
    assert constraints.gbnf('root ::= "a"') is not None


def test_two_constraints_are_refused_and_both_named():
    grammar = constraints.gbnf('root ::= "a"')
    anything = constraints.any_json(param="response_format")
    assert (
        constraints.only_one({"grammar": grammar, "response_format": None}) is grammar
    )
    assert constraints.only_one({}) is None
    with pytest.raises(RequestError) as refused:
        constraints.only_one({"grammar": grammar, "response_format": anything})
    assert "grammar" in str(refused.value)
    assert "response_format" in str(refused.value)


@pytest.mark.parametrize("schema", [None, {}])
def test_json_mode_without_a_schema_is_an_object(schema):
    found = constraints.response_format({"type": "json_object", "schema": schema})
    assert found == constraints.any_json(param="response_format")


@pytest.mark.parametrize(
    ("strict", "expected"), [(True, True), (False, False), (None, False)]
)
def test_strict_goes_with_its_schema(strict, expected):
    wrapper = {"schema": SCHEMA, "strict": strict}
    found = constraints.response_format({"type": "json_schema", "json_schema": wrapper})
    assert found is not None
    assert found.strict is expected
