"""Forced calls of a model that goes on for ever: each ends, and is read as a call."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from kinetic.model.chat.reply.calls import OutputFormat
from kinetic.model.constraints.calls.forced import forced_grammar
from tests.model.chat.output_cases import read
from tests.support.bytewise import END, accepts, allowed, compiled, compiler

FORMS = (
    ("hermes", None),
    ("lfm2", None),
    ("mistral", "list"),
    ("mistral", "args"),
    ("mistral", "call_id"),
    ("llama3", None),
    ("generic", None),
    ("gpt-oss", None),
)
"""Those whose arguments are JSON."""
TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "count",
            "parameters": {
                "type": "object",
                "properties": {
                    "n": {"type": "number"},
                    "i": {"type": "integer"},
                    "any": {},
                },
                "required": ["n", "i", "any"],
            },
        },
    },
)
GREEDS = (b"0123456789", b"5e", b"0.", b"-9eE+", b"[", b"{", b"[{", b'"')
ROW = np.zeros(END + 1, np.float32)
ENOUGH = 800
"""Bytes behind which a model lets go of what it was taken with."""


def grammar(tools: Any, family: str = "generic", form: str | None = None) -> str:
    return forced_grammar(
        family,
        form,
        tools,
        parallel=False,
        think="none",
        think_tags=None,
        special_token=lambda _: None,
    )


def walk(lark: str, rng: random.Random, greed: bytes, begin: bytes) -> str:
    matcher = compiler().compile_lark(lark, param="tools").matcher()
    out = bytearray(begin)
    for byte in begin:
        matcher.accept(byte)
    while True:
        options = allowed(matcher.mask(ROW))
        if options == [END]:
            return out.decode()
        wanted = [byte for byte in options if byte in greed]
        if len(out) > ENOUGH:
            wanted = [byte for byte in options if byte in b'"]}'] or options
        byte = rng.choice(wanted or options)
        matcher.accept(byte)
        out.append(byte)
        assert len(out) < 3 * ENOUGH


@pytest.mark.parametrize(("family", "form"), FORMS)
@pytest.mark.parametrize("greed", GREEDS)
def test_a_forced_call_ends_and_is_a_call(family, form, greed):
    lark = grammar(TOOLS, family, form)
    fmt = OutputFormat(family=family, tools=TOOLS, forced=True)
    # Reasoning has no end of its own: it is passed by.
    begin = b"<|channel|>commentary" if family == "gpt-oss" else b""
    for seed in range(2):
        text = walk(lark, random.Random(seed), greed, begin)
        found: Any = read(fmt, text)
        assert len(found.calls) == 1, text
        assert found.content == "", text
        arguments = json.loads(found.calls[0].arguments)
        assert set(arguments) == {"n", "i", "any"}


OPTIONAL = {
    "a far length": {"type": "string", "maxLength": 2**31 - 1},
    "a far count": {"type": "array", "items": {"type": "null"}, "maxItems": 2**31 - 1},
    "a far number of names": {"type": "object", "maxProperties": 5000},
    "a format": {"type": "string", "format": "uri-reference"},
    "another format": {"type": "string", "format": "password"},
    "different items": {"type": "array", "uniqueItems": True},
    "nothing more": {"type": "object", "additionalProperties": {"not": {}}},
    "nothing else": {"type": "object", "unevaluatedProperties": False},
    "a condition": {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
    "an item": {"type": "array", "contains": {"const": 1}},
    "a dependency": {"type": "object", "dependentRequired": {"a": ["b"]}},
    "names": {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}},
}


@pytest.mark.parametrize("name", OPTIONAL)
@pytest.mark.parametrize("is_inside", [True, False])
def test_no_keyword_that_tools_have_keeps_a_call_from_being_forced(name, is_inside):
    parameters = OPTIONAL[name]
    if is_inside:
        parameters = {"type": "object", "properties": {"x": parameters}}
    function = {"name": "count", "parameters": parameters}
    lark = grammar([{"type": "function", "function": function}])
    constraint = compiler().compile_lark(lark, param="tools")
    if is_inside:
        assert accepts(constraint, '{"name": "count", "arguments": {}}')
        compiled("json_schema", json.dumps(parameters))
    compiler().judge(json.dumps(parameters), param="tools", strict=False, is_held=True)


def test_a_map_with_names_of_a_pattern_is_no_tool_without_arguments():
    parameters = OPTIONAL["names"]
    function = {"name": "count", "parameters": parameters}
    lark = grammar([{"type": "function", "function": function}])
    constraint = compiler().compile_lark(lark, param="tools")
    assert accepts(constraint, '{"name": "count", "arguments": {"ab": 1}}')
    assert not accepts(constraint, '{"name": "count", "arguments": {"A": 1}}')
