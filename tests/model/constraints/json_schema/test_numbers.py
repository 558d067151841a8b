"""Numbers that a schema lets out: short, finite, and valid, however a model goes on."""

from __future__ import annotations

import json
import math
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinetic.errors import RequestError
from kinetic.model.constraints.matching import Constraint
from tests.support.bytewise import END, accepts, allowed, compiled, compiler
from tests.support.schemas import errors

LONGEST = 48
"""Bytes of a number: sign, 16 digits, point, 8 zeros and 17 digits, exponent."""
ROW = np.zeros(END + 1, np.float32)
GREEDS = (b"0123456789", b"0", b"9", b"0.", b"-0.", b"123456789.eE+-", b"5e-9", b"")
"""Bytes that a model may be taken with: it writes no other where it may write one."""


def walk(constraint: Constraint, rng: random.Random, greed: bytes, most: int) -> str:
    """An answer that goes on as long as it may; fails where it goes on too long."""
    matcher = constraint.matcher()
    out = bytearray()
    while True:
        options = allowed(matcher.mask(ROW))
        if options == [END]:
            return out.decode()
        if END in options:
            options.remove(END)
        wanted = [byte for byte in options if byte in greed]
        byte = rng.choice(wanted or options)
        matcher.accept(byte)
        out.append(byte)
        assert len(out) <= most, f"longer than {most} bytes: {bytes(out[:200])!r}"


def numbers_in(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [n for inner in value.values() for n in numbers_in(inner)]
    if isinstance(value, list):
        return [n for inner in value for n in numbers_in(inner)]
    return [value] if isinstance(value, int | float) else []


def without_factors(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_factors(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {k: part for k, part in schema.items() if k != "multipleOf"}
    return {key: without_factors(part) for key, part in kept.items()}


def judged(schema: Any, text: str) -> None:
    """As doubles, and by its digits: for doubles 0.59 is no multiple of 0.01."""
    value = json.loads(text)
    assert all(math.isfinite(number) for number in numbers_in(value)), text
    assert errors(without_factors(schema), value) == [], text
    exact = [json.loads(t, parse_float=Decimal) for t in (json.dumps(schema), text)]
    assert errors(*exact) == [], text


BOUNDS = st.one_of(
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.integers(-1000, 1000),
    st.floats(-1e6, 1e6, allow_nan=False),
    st.decimals(-100, 100, places=2).map(float),
    st.sampled_from([0, 0.5, -0.5, 1e-12, -1e-12, 1e15, 2**53 - 1]),
)
FACTORS = st.sampled_from([1, 2, 3, 7, 10, 0.5, 0.25, 0.01, 0.001, 99])


@st.composite
def number_schemas(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    kind = draw(st.sampled_from(["integer", "number", ["number", "null"]]))
    schema["type"] = kind
    for side in ("minimum", "maximum"):
        for keyword in (side, f"exclusive{side.title()}"):
            if draw(st.integers(0, 2)) == 0:
                schema[keyword] = draw(BOUNDS)
    if draw(st.integers(0, 3)) == 0:
        schema["multipleOf"] = draw(FACTORS)
    return schema


def parts(schema: dict[str, Any], key: str) -> dict[str, Any]:
    """A schema taken apart: what is said beside its type stands on its own."""
    return {"allOf": [{"type": schema["type"]}, {key: schema[key]}]}


LEAVES = number_schemas() | st.sampled_from([{"enum": [0.1, -3, 1e-7, 2.5e-20]}])
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(
            lambda found: {
                "type": "object",
                "properties": {f"k{i}": part for i, part in enumerate(found)},
                "required": [f"k{i}" for i in range(len(found))],
                "additionalProperties": False,
            }
        ),
        inner.map(lambda part: {"type": "array", "items": part, "maxItems": 2}),
        st.lists(inner, min_size=1, max_size=3).map(lambda found: {"anyOf": found}),
        inner.map(lambda part: {"allOf": [part, {"minimum": -(2**40)}]}),
    ),
    max_leaves=4,
)


def limit(schema: dict[str, Any]) -> int:
    """Bytes that an answer may have at most, as follows from its schema."""
    between = 24 * 4
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [schema["items"]] * 2 if "items" in schema else []
    inner += schema.get("allOf", ())[:1]
    if not inner:
        return LONGEST
    return sum(limit(part) + between for part in inner) + between


@settings(max_examples=150, deadline=None)
@given(schema=SCHEMAS, seed=st.integers(0, 2**32))
def test_every_number_ends_is_finite_and_valid(schema: dict[str, Any], seed: int):
    try:
        constraint = compiled("json_schema", json.dumps(schema))
    except RequestError:
        return
    rng = random.Random(seed)
    for greed in GREEDS:
        judged(schema, walk(constraint, rng, greed, limit(schema)))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"type": "number"},
        {"type": "integer", "minimum": 10**15 + 5},
        {"type": "number", "minimum": 0},
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "number", "exclusiveMaximum": 0},
        {"type": "number", "exclusiveMinimum": 0.1, "exclusiveMaximum": 0.2},
        {"type": "number", "minimum": -1.5, "maximum": 1e-20},
        {"type": "number", "multipleOf": 0.01},
        {"type": "integer", "multipleOf": 7},
        {"type": ["integer", "null"], "maximum": -3},
        {"enum": [0.00012345678901234567, 1e-20, 9007199254740991, 2.5]},
        {"allOf": [{"type": "number"}, {"exclusiveMinimum": 3}, {"maximum": 3.5}]},
        {"anyOf": [{"type": "integer"}, {"type": "number", "maximum": -0.25}]},
        {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        {"type": "number", "minimum": 123456.12345678901},
        {"type": "number", "multipleOf": 0.75, "exclusiveMaximum": 1e14},
    ],
    ids=json.dumps,
)
def test_a_number_ends_however_a_model_goes_on(schema: dict[str, Any]):
    constraint = compiled("json_schema", json.dumps(schema))
    for seed in range(4):
        for greed in GREEDS:
            text = walk(constraint, random.Random(seed), greed, LONGEST)
            judged(schema, text)


FREE = ("{}", '{"type": "array", "items": {}}', '{"type": "object"}', '{"title": "x"}')


@pytest.mark.parametrize("source", FREE)
def test_numbers_inside_free_values_are_short_too(source):
    constraint = compiled("json_schema", source)
    fine = (b"0", b"-1.5e3", b"1234567890123456", b"6.02214076e23", b"1e-100", b"12.50")
    long = (b"12345678901234567", b"1e400", b"8e4760", b"0." + b"3" * 30, b"1e290")
    for frame in (b"%s", b"[1, %s]", b'{"a": %s}', b'{"b":[{"a" : %s }]}'):
        if (frame[:1] == b"{") != ("object" in source) and source != "{}":
            continue
        if frame[:1] != b"[" and "array" in source:
            continue
        assert [n for n in fine if not accepts(constraint, frame % n)] == []
        assert [n for n in long if accepts(constraint, frame % n)] == []


def test_a_number_in_a_string_is_text():
    constraint = compiled("json_schema", '{"type": ["string", "number"]}')
    assert accepts(constraint, b'"' + b"3" * 40 + b'"')


@pytest.mark.parametrize("greed", GREEDS)
def test_json_mode_writes_objects_with_finite_numbers(greed):
    constraint = compiled("json_object", "")
    assert accepts(constraint, '{"a": [1, null], "b": {}}')
    for text in ("[]", '"x"', "null", "1"):
        assert not accepts(constraint, text)
    matcher = constraint.matcher()
    rng = random.Random(1)
    matcher.accept(ord("{"))
    for byte in b'"a": ':
        matcher.accept(byte)
    length = 0
    while True:
        options = [b for b in allowed(matcher.mask(ROW)) if b in b"0123456789.eE+-"]
        if not options:
            break
        matcher.accept(rng.choice([b for b in options if b in greed] or options))
        length += 1
        assert length <= LONGEST


def test_arguments_of_calls_have_short_numbers():
    text = (
        'start: "<call>" args_0 "</call>" | "<more>" args_1\n'
        'args_0: %json {"type": "object", "properties": {"n": {"type": "number"}, "m": {}}}\n'
        'args_1: %json {"type": "object", "properties": {"n": {"type": "integer"}}}\n'
    )
    constraint = compiler().compile_lark(text, param="tools")
    for call in (
        '<call>{"n": %s}</call>',
        '<call>{"m":[%s]}</call>',
        '<more>{"n": %s}',
    ):
        assert accepts(constraint, call % "1234567890123456"[:15])
        for long in ("8" * 17, "8" * 400):
            assert not accepts(constraint, call % long)
    assert not accepts(constraint, '<call>{"n": 8e4760}</call>')


def test_grammars_of_the_clients_own_may_have_any_digits():
    assert accepts(compiled("gbnf", "root ::= [0-9]+"), "9" * 60)


def test_free_values_nest_to_a_limit():
    constraint = compiled("json_schema", "{}")
    assert accepts(constraint, "[" * 60 + "1" + "]" * 60)
    assert not accepts(constraint, "[" * 61 + "1" + "]" * 61)


def test_what_must_nest_beyond_the_limit_ends_with_an_error():
    deeper = {
        f"d{i}": {
            "type": "array",
            "items": {"$ref": f"#/$defs/d{i + 1}"},
            "minItems": 1,
        }
        for i in range(70)
    }
    schema = {"$ref": "#/$defs/d0", "$defs": {**deeper, "d70": {"type": "null"}}}
    matcher = compiled("json_schema", json.dumps(schema)).matcher()
    for _ in range(60):
        assert ord("[") in allowed(matcher.mask(ROW))
        matcher.accept(ord("["))
    matcher.mask(ROW)  # a line break and an indent
    matcher.accept(ord(" "))
    with pytest.raises(RequestError, match="nest deeper than 60"):
        matcher.mask(ROW)


def test_literals_have_the_digits_that_they_have():
    values = [1e-300, 0.30000000000000004, 12.345678901234567]
    schema = {"anyOf": [{"enum": values}, {"type": "number", "exclusiveMinimum": 20}]}
    constraint = compiled("json_schema", json.dumps(schema))
    texts = [format(Decimal(repr(value)), "f") for value in values]
    assert [text for text in texts if not accepts(constraint, text)] == []
