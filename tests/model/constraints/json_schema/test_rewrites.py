"""Made-up objects with keywords that are rewritten, before an independent judge."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given, settings, strategies as st

from kinetic.errors import RequestError
from tests.support.bytewise import compiled, sample
from tests.support.schemas import errors_of_text

NAMES = st.sampled_from("abk")
TAGS = {"enum": ["x", "y", "z"]}
LEAVES = st.sampled_from([True, {"type": "null"}, {"enum": [1, 2]}, TAGS])
NAME_LISTS = st.lists(NAMES, max_size=2, unique=True)
CONDITIONS = st.sampled_from(
    [
        {"properties": {"k": {"const": "x"}}},
        {"properties": {"k": {"const": "x"}}, "required": ["k"]},
        {"properties": {"k": {"enum": ["x", "y", "z"]}}, "required": ["k"]},
        {"properties": {"k": {"enum": ["x", "y", "z"]}}},
        {"properties": {"k": {"const": "w"}}},
        {"required": ["a"]},
        {"properties": {"a": {"type": "null"}}},
    ]
)
SMALL = st.one_of(
    st.builds(
        lambda names, properties: {"required": names, "properties": properties},
        NAME_LISTS,
        st.dictionaries(NAMES, LEAVES, max_size=2),
    ),
    st.sampled_from([True, {}, {"maxProperties": 1}, {"not": {"required": ["b"]}}]),
)
EXTRAS: dict[str, st.SearchStrategy[Any]] = {
    "if": CONDITIONS,
    "then": SMALL,
    "else": SMALL,
    "dependentRequired": st.dictionaries(NAMES, NAME_LISTS, max_size=2),
    "dependentSchemas": st.dictionaries(NAMES, SMALL, max_size=2),
    "unevaluatedProperties": st.sampled_from([False, {"not": {}}, {"type": "null"}]),
    "propertyNames": st.sampled_from(
        [{"pattern": "^[ab]"}, {"enum": ["a", "k"]}, {"maxLength": 1}, {"const": "a"}]
    ),
    "not": SMALL | st.sampled_from([{"type": "array"}, {"minProperties": 2}]),
    "allOf": st.lists(SMALL, min_size=1, max_size=2),
    "additionalProperties": st.sampled_from([True, False, {"type": "null"}]),
    "minProperties": st.integers(0, 2),
    "maxProperties": st.integers(1, 3),
    "required": NAME_LISTS,
}


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    properties = draw(st.dictionaries(NAMES, LEAVES, max_size=3))
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if draw(st.booleans()):
        schema["properties"] = {"k": TAGS, **properties}
    for name in draw(st.lists(st.sampled_from(list(EXTRAS)), max_size=4, unique=True)):
        schema[name] = draw(EXTRAS[name])
    if "if" in schema:
        schema.setdefault("then", draw(SMALL))
    return schema


@settings(max_examples=200, deadline=None)
@given(schema=objects(), seed=st.integers(0, 2**32))
def test_what_is_wrong_with_an_answer_is_told(schema: dict[str, Any], seed: int):
    try:
        constraint = compiled("json_schema", json.dumps(schema))
    except RequestError:
        return
    rng = random.Random(seed)
    for _ in range(4):
        answer = sample(constraint, rng, most=80)
        if not answer.is_finished:
            continue
        judge = constraint.judge
        said = None if judge is None else judge.complaint(answer.text)
        found = errors_of_text(schema, answer.text)
        assert (said is not None) == bool(found), (answer.text, said, found)
