"""Forced calls drawn at random: each is read as calls whose arguments are valid."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema
import pytest

from kinetic.errors import RequestError
from kinetic.model.chat.reply.calls import OutputFormat
from kinetic.model.constraints.calls.forced import forced_grammar
from tests.model.chat.output_cases import read
from tests.support.bytewise import END, accepts, allowed, compiler, masked
from tests.support.schemas import random_schema

XML = (("qwen3.5", None), ("lfm3", None))
FORMS = (
    *XML,
    ("hermes", None),
    ("lfm2", None),
    ("mistral", "list"),
    ("mistral", "args"),
    ("mistral", "call_id"),
    ("llama3", None),
    ("generic", None),
    ("gpt-oss", None),
)
ENOUGH = 250
"""Bytes from which on a draw hurries to its end."""
MOST = 700
BY_REFERENCE = {"$ref": "#/$defs/level"}
DEFS = {
    "level": {"enum": ["low", "high"]},
    "point": {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "next": {"$ref": "#/$defs/point"}},
        "required": ["x"],
    },
}
VALUES: dict[str, tuple[Any, tuple[str, ...], tuple[str, ...]]] = {
    # By name: a schema, texts that are right, and texts that are not.
    "boolean": ({"type": "boolean"}, ("true", "false"), ("value_1", "True", "")),
    "null": ({"type": "null"}, ("null",), ("None", "")),
    "integer": ({"type": "integer"}, ("7", "-12"), ("7.5", "x", "07", "")),
    "range": ({"type": "integer", "minimum": 3, "maximum": 9}, ("3",), ("2", "10")),
    "number": ({"type": "number"}, ("0.5", "-3"), ("x", ".5")),
    "enum": ({"enum": ["a", "b c"]}, ("a", "b c"), ("b", '"a"', "a ")),
    "numbers": ({"enum": [1, 20]}, ("1", "20"), ("2", '"1"')),
    "const": ({"const": "a\n"}, ("a\n",), ("a",)),
    "empty": ({"enum": ["", "x"]}, ("", "x"), (" ",)),
    "mixed enum": ({"enum": ["1", "a", 2, None]}, ("a", "2", "null"), ("1", "b")),
    "pattern": (
        {"type": "string", "pattern": "^[a-z]{2}/\\d+$"},
        ("ab/1",),
        ("ab/", "Ab/1", "ab/1\n"),
    ),
    "found": ({"type": "string", "pattern": "x|^y"}, ("axb", "yes"), ("no", "ay")),
    "length": (
        {"type": "string", "minLength": 2, "maxLength": 3},
        ("ab",),
        ("a", "abcd"),
    ),
    "bounded": (
        {"type": "string", "maxLength": 3},
        ("", "abc", "ab\n"),
        ("abcd", "</parameter>"),
    ),
    "long": (
        {"type": "string", "minLength": 1, "maxLength": 400, "pattern": "^.{1,300}$"},
        ("a",),
        ("",),
    ),
    "date": ({"type": "string", "format": "date"}, ("2024-02-29",), ("2024-02-30",)),
    "uuid": (
        {"type": "string", "format": "uuid"},
        ("12345678-1234-1234-1234-123456789abc",),
        ("1234",),
    ),
    "object": (
        {"type": "object", "properties": {"a": {"type": "integer"}}},
        ('{"a": 1}', "{}"),
        ('{"a": "x"}', "a", "[]"),
    ),
    "array": (
        {"type": "array", "items": {"type": "boolean"}},
        ("[true]",),
        ("[1]", "x"),
    ),
    "text": ({"type": "string"}, ("", "12", "</parameter> a", "true"), ()),
    "maybe": ({"type": ["string", "null"]}, ("x", "12", "null"), ()),
    "text or count": (
        {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer"}]},
        ("abc", "12345", "1st"),
        ("abcd", "1.5"),
    ),
    "word or range": (
        {"oneOf": [{"type": "string"}, {"type": "integer", "maximum": 5}]},
        ("abc", "5"),
        ("6",),
    ),
    "text or list": (
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "integer"}},
            ]
        },
        ("abc", "[1, 2]"),
        ('["a"]', "[1,", '{"a": 1}'),
    ),
    "reference": (BY_REFERENCE, ("low", "high"), ("middle",)),
    "described": ({"allOf": [BY_REFERENCE], "title": "t"}, ("low",), ("middle",)),
    "tree": (
        {"$ref": "#/$defs/point"},
        ('{"x": 1, "next": {"x": 2}}',),
        ('{"x": 1, "next": {}}', "x"),
    ),
    "any": ({}, ("abc", "1", "null", "[1]"), ("[1",)),
}


def tool(parameters: Any) -> tuple[dict[str, Any], ...]:
    return ({"type": "function", "function": {"name": "f", "parameters": parameters}},)


def parameters_of(schema: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"v": schema, "w": {"type": "string", "maxLength": 4}},
        "required": ["v"],
        "$defs": DEFS,
    }


def constraint(tools: Any, family: str, form: str | None) -> Any:
    lark = forced_grammar(
        family,
        form,
        tools,
        parallel=False,
        think="none",
        think_tags=None,
        special_token=lambda _: None,
    )
    return compiler().compile_lark(lark, param="tools")


def written(text: str) -> str:
    return (
        f"<tool_call>\n<function=f>\n<parameter=v>\n{text}\n</parameter>\n"
        "</function>\n</tool_call>"
    )


@pytest.mark.parametrize("name", VALUES)
def test_a_value_in_tags_follows_its_schema(name):
    schema, right, wrong = VALUES[name]
    tools = tool(parameters_of(schema))
    held = constraint(tools, "qwen3.5", None)
    for text in right:
        assert accepts(held, written(text)), text
        (call,) = read(
            OutputFormat(family="qwen3.5", tools=tools, forced=True), written(text)
        ).calls
        jsonschema.validate(json.loads(call.arguments), parameters_of(schema))
    for text in wrong:
        assert not accepts(held, written(text)), text


def test_what_would_end_a_value_is_in_none():
    held = constraint(tool(parameters_of({"type": "string"})), "qwen3.5", None)
    for text in (
        "a</parameter>\n</function>",
        "a</parameter><parameter=w>\nb",
        "a</parameter> \n <parameter=w>\nb",
    ):
        assert not accepts(held, written(text)), text


def test_schemas_that_go_in_circles_or_multiply_are_no_trouble():
    defs: dict[str, Any] = {
        f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)
    }
    defs["d60"] = False
    defs["round"] = {"$ref": "#/$defs/round"}
    for name in ("d0", "round"):
        properties = {"v": {"$ref": f"#/$defs/{name}"}}
        parameters = {"type": "object", "properties": properties, "$defs": defs}
        assert accepts(
            constraint(tool(parameters), "qwen3.5", None),
            "<tool_call>\n<function=f>\n</function>\n</tool_call>",
        )
    large = {"v": {"type": "object", "properties": {"a" * 20_000: {}}}}
    many = {f"p{i}": {"$ref": "#/$defs/v"} for i in range(300)}
    with pytest.raises(ValueError, match="4194304 characters"):
        constraint(tool({"properties": many, "$defs": large}), "qwen3.5", None)


def test_a_parameter_of_a_schema_that_is_joined_has_its_type():
    part = {"properties": {"v": {"type": "string"}}, "required": ["v"]}
    other = {"properties": {"w": {"type": "integer"}}, "required": ["w"]}
    tools = tool({"allOf": [part, other]})
    text = written("[1]").replace(
        "</parameter>\n</f", "</parameter>\n<parameter=w>\n2\n</parameter>\n</f"
    )
    assert accepts(constraint(tools, "qwen3.5", None), text)
    (call,) = read(OutputFormat(family="qwen3.5", tools=tools, forced=True), text).calls
    assert json.loads(call.arguments) == {"v": "[1]", "w": 2}


@pytest.mark.parametrize(("family", "form"), FORMS)
@pytest.mark.parametrize("name", VALUES)
def test_whatever_is_drawn_is_a_call_with_valid_arguments(family, form, name):
    schema = VALUES[name][0]
    parameters = parameters_of(schema)
    assert drawn(parameters, family, form, name, n=6)


@pytest.mark.parametrize(("family", "form"), FORMS)
def test_made_up_schemas_are_held(family, form):
    rng = random.Random(7)
    n_read = 0
    for i in range(60):
        made = random_schema(rng)
        parameters = {
            "type": "object",
            "properties": {"v": {k: v for k, v in made.items() if k != "$defs"}},
            "required": ["v"],
            "$defs": made["$defs"],
        }
        try:
            n_read += drawn(parameters, family, form, str(i), n=2)
        except (RequestError, ValueError):
            # A schema may allow nothing.
            continue
    assert n_read > 30


def drawn(parameters: Any, family: str, form: str | None, seed: str, *, n: int) -> int:
    tools = tool(parameters)
    held = constraint(tools, family, form)
    judge = compiler().judge(
        json.dumps(parameters),
        param="tools",
        strict=False,
        is_held=family not in dict(XML),
    )
    fmt = OutputFormat(family=family, tools=tools, forced=True)
    n_read = 0
    for i in range(n):
        rng = random.Random(f"{seed} {i}")
        begin = b"<|channel|>commentary" if family == "gpt-oss" else b""
        text = draw(held, rng, begin)
        if text is None:
            continue
        result: Any = read(fmt, text)
        assert len(result.calls) == 1, text
        assert not result.content, text
        arguments = result.calls[0].arguments
        errors = list(
            jsonschema.Draft202012Validator(parameters).iter_errors(
                json.loads(arguments)
            )
        )
        judged = judge is not None and judge.complaint(arguments) is not None
        if errors and judged and is_unheld(parameters):
            continue
        assert not errors, (parameters, text, errors[0].message)
        n_read += 1
    return n_read


CLOSERS = (b"\n</parameter>\n", b"</parameter>", b"\n</parameter>\n</function>\n", b"<")
ENDS = b'"]}\n<'


def draw(held: Any, rng: random.Random, begin: bytes) -> str | None:
    """A reply that the grammar allows, now and then with what looks like its end."""
    matcher = held.matcher()
    out = bytearray()
    plan = begin
    while len(out) < MOST:
        options = allowed(masked(matcher))
        if END in options:
            return out.decode()
        if not plan and rng.random() < 0.1:
            plan = rng.choice(CLOSERS)
        if not plan and len(out) > ENOUGH:
            plan = CLOSERS[2]
        closing = [byte for byte in options if byte in ENDS]
        if plan and plan[0] in options:
            byte, plan = plan[0], plan[1:]
        elif closing and (len(out) > ENOUGH or rng.random() < 0.2):
            byte, plan = rng.choice(closing), b""
        else:
            byte, plan = rng.choice(options), b""
        matcher.accept(byte)
        out.append(byte)
    return None


def is_unheld(parameters: Any) -> bool:
    """Whether something in it is left to the judge."""
    text = json.dumps(parameters)
    return bool(re.search(r'"(oneOf|not|\^\(|\(\?i\)|ipv6)', text))
