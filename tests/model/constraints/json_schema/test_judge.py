"""Judging finished answers: in bounded time, without reaching out, whatever comes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from kinetic.model.constraints.json_schema.judge import Judge
from kinetic.model.constraints.texts import text_matches


def complaint(schema: Any, text: str) -> str | None:
    return Judge(json.dumps(schema), text_matches).complaint(text)


def test_a_complaint_names_the_keyword_and_the_place():
    schema = {"properties": {"a/b": {"items": {"uniqueItems": True}}}}
    said = complaint(schema, '{"a/b": [[1], [2, 2]]}')
    assert said == 'it breaks "uniqueItems" of the schema, at /a~1b/1'
    assert complaint({"not": {}}, "1") == 'it breaks "not" of the schema, at /'


def test_a_complaint_is_short():
    said = complaint(
        {"additionalProperties": {"not": {}}}, json.dumps({"k" * 9999: "v" * 99999})
    )
    assert said is not None
    assert len(said) < 300


DOUBLING = {
    "$ref": "#/$defs/r0",
    "$defs": {
        **{f"r{i}": {"allOf": [{"$ref": f"#/$defs/r{i + 1}"}] * 2} for i in range(60)},
        "r60": {"type": "null"},
    },
}
SLOW: dict[str, tuple[Any, Any]] = {
    "a pattern that runs away": ({"not": {"pattern": "^(a|a)*$"}}, "a" * 40 + "b"),
    "nested patterns": ({"not": {"pattern": "^((a*)*)*$"}}, "a" * 40 + "b"),
    "a name's pattern": (
        {"not": {"patternProperties": {"^(a+)+$": False}}},
        {"a" * 40 + "b": 1},
    ),
    "doubling": (DOUBLING, None),
    "itself": ({"not": {"$ref": "#"}}, 1),
    "many items": ({"uniqueItems": True}, [[i] for i in range(20_000)]),
    "many values": ({"items": {"enum": list(range(9_000))}}, [-1] * 5_000),
    "many branches": (
        {"items": {"anyOf": [{"const": f"{i}" * 50} for i in range(2_000)]}},
        ["x" * 1_000] * 500,
    ),
    "deep": ({"items": {"$ref": "#"}, "not": {"const": 1}}, None),
    "a huge number": ({"multipleOf": 0.001, "not": {"const": 1}}, 1e300),
}


@pytest.mark.parametrize("name", SLOW)
def test_no_answer_takes_long(name):
    schema, value = SLOW[name]
    text = "[" * 60 + "2" + "]" * 60 if name == "deep" else json.dumps(value)
    start = time.process_time()
    complaint(schema, text)
    assert time.process_time() - start < 2


def test_what_takes_too_long_is_told_as_not_judged():
    said = complaint(DOUBLING, "null")
    assert said == "it was not judged by the whole schema: that would take too long"


def test_what_cannot_be_judged_is_told_as_such():
    for schema, text in (
        ({"not": {"$ref": "#"}}, "1"),
        ({"$ref": "https://example.org/s"}, "1"),
        ({"$id": "https://example.org/s", "$ref": "other"}, "1"),
        ({}, "no JSON"),
    ):
        said = complaint(schema, text)
        assert said is not None
        assert said.startswith("it was not judged by the whole schema: ")


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("b+", "abc", True),
        ("^b", "abc", False),
        ("^a\\nb$", "a\nb", True),
        ("é", "caf\u00e9", True),
        ('^"$', '"', True),
        ("^.$", "🦊", True),
        ("^$", "", True),
    ],
)
def test_patterns_are_searched_in_texts(pattern, text, matches):
    assert complaint({"pattern": pattern}, json.dumps(text)) == (
        None if matches else 'it breaks "pattern" of the schema, at /'
    )


def test_older_drafts_and_nulls_are_read_as_they_are_held():
    for schema, right, wrong in (
        ({"items": [{"type": "null"}], "additionalItems": False}, "[null]", "[1]"),
        ({"minimum": 3, "exclusiveMinimum": True}, "4", "3"),
        ({"dependencies": {"a": ["b"]}}, '{"a": 1, "b": 2}', '{"a": 1}'),
        ({"dependencies": {"a": {"maxProperties": 1}}}, '{"a": 1}', '{"a": 1, "b": 2}'),
        ({"enum": None, "const": None}, "null", "1"),
        (
            {"properties": {"items": {"minimum": 2, "pattern": None}}},
            "{}",
            '{"items": 1}',
        ),
        ({"type": "integer"}, "1.0", "1.5"),
    ):
        assert complaint(schema, right) is None
        assert complaint(schema, wrong) is not None
