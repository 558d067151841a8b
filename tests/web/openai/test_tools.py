"""Tool definitions and tool_choice."""

import pytest

from kinetic.errors import RequestError
from kinetic.web.openai.tools import (
    ToolChoice,
    read_function_call,
    read_functions,
    read_tool_choice,
    read_tools,
)


def tool(name="f", **function):
    return {"type": "function", "function": {"name": name, **function}}


@pytest.mark.parametrize(
    "function",
    [
        {},
        {"parameters": {}},
        {"parameters": {"type": "object", "properties": {}}},
        {"parameters": None},
        {"description": None},
        {"description": "does f"},
        {"strict": None},
        {"strict": True},
        {"return_type": "string"},
    ],
)
def test_sloppy_definitions_are_taken(function):
    found = read_tools([tool(**function)])
    assert found[0]["function"]["name"] == "f"


@pytest.mark.parametrize("value", [None, []])
def test_no_tools_are_no_tools(value):
    assert read_tools(value) == ()


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ({}, "tools"),
        ("f", "tools"),
        ([tool(str(i)) for i in range(513)], "tools"),
        ([None], "tools[0]"),
        ([[]], "tools[0]"),
        ([{"function": {"name": "f"}}], "tools[0].type"),
        ([{"type": "custom", "function": {"name": "f"}}], "tools[0].type"),
        ([{"type": "function"}], "tools[0].function"),
        ([{"type": "function", "function": None}], "tools[0].function"),
        ([{"type": "function", "function": {}}], "tools[0].function.name"),
        ([tool(None)], "tools[0].function.name"),
        ([tool("")], "tools[0].function.name"),
        ([tool("a b")], "tools[0].function.name"),
        ([tool("a\nb")], "tools[0].function.name"),
        ([tool("<f>")], "tools[0].function.name"),
        ([tool('"f"')], "tools[0].function.name"),
        ([tool("x" * 257)], "tools[0].function.name"),
        ([tool(), tool("g", description=5)], "tools[1].function.description"),
        ([tool(parameters=[])], "tools[0].function.parameters"),
        ([tool(parameters="{}")], "tools[0].function.parameters"),
        ([tool(strict="yes")], "tools[0].function.strict"),
        ([tool(), tool()], "tools[1].function.name"),
    ],
)
def test_a_wrong_definition_is_refused_with_its_place(tools, param):
    with pytest.raises(RequestError) as refused:
        read_tools(tools)
    assert refused.value.param == param
    assert str(refused.value).startswith(param)


TOOLS = read_tools([tool("f"), tool("at.look")])
NAMED = {"type": "function", "name": "f"}


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        (None, ToolChoice("auto")),
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        (
            {"type": "function", "function": {"name": "at.look"}},
            ToolChoice("function", "at.look"),
        ),
        ({"type": "function", "name": "f"}, ToolChoice("function", "f")),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "f"}}],
                },
            },
            ToolChoice("auto", allowed=("f",)),
        ),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [
                    {"type": "function", "name": "f"},
                    {"type": "function", "name": "at.look"},
                ],
            },
            ToolChoice("required", allowed=("f", "at.look")),
        ),
    ],
)
def test_every_form_of_tool_choice_is_read(value, choice):
    assert read_tool_choice(value, TOOLS) == choice


@pytest.mark.parametrize("value", ["auto", "none"])
def test_choices_that_force_nothing_need_no_tools(value):
    assert read_tool_choice(value, ()) == ToolChoice(value)


@pytest.mark.parametrize(
    "value",
    [
        "any",
        "",
        5,
        True,
        [],
        {},
        {"type": "function"},
        {"type": "function", "function": {}},
        {"type": "function", "function": {"name": 5}},
        {"type": "auto"},
        {"type": "function", "function": {"name": "g"}},
        {"type": "allowed_tools"},
        {"type": "allowed_tools", "allowed_tools": 5},
        {"type": "allowed_tools", "mode": "none", "tools": [NAMED]},
        {"type": "allowed_tools", "mode": "auto", "tools": []},
        {"type": "allowed_tools", "mode": "auto", "tools": "f"},
        {"type": "allowed_tools", "mode": "auto", "tools": ["f"]},
        {"type": "allowed_tools", "mode": "auto", "tools": [{**NAMED, "name": "g"}]},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]},
    ],
)
def test_what_is_no_choice_is_refused(value):
    with pytest.raises(RequestError) as refused:
        read_tool_choice(value, TOOLS)
    assert refused.value.param == "tool_choice"


@pytest.mark.parametrize(
    "value", ["required", {"type": "function", "function": {"name": "f"}}]
)
def test_a_call_cannot_be_forced_without_tools(value):
    with pytest.raises(RequestError) as refused:
        read_tool_choice(value, ())
    assert "no tools" in str(refused.value)


# --- The old form -------------------------------------------------------------------

FUNCTION = {"name": "f", "description": "d", "parameters": {"type": "object"}}


def test_functions_are_tools():
    wrapped = [{"type": "function", "function": FUNCTION}]
    assert read_functions([FUNCTION]) == read_tools(wrapped)
    assert read_functions(None) == read_functions([]) == ()


@pytest.mark.parametrize(
    ("value", "param"),
    [
        (5, "functions"),
        ([5], "functions[0]"),
        ([{}], "functions[0].name"),
        ([FUNCTION, {**FUNCTION, "name": "a b"}], "functions[1].name"),
        ([{**FUNCTION, "parameters": 5}], "functions[0].parameters"),
        ([FUNCTION, FUNCTION], "functions[1].name"),
        ([FUNCTION] * 513, "functions"),
    ],
)
def test_a_wrong_function_is_refused_with_its_place(value, param):
    with pytest.raises(RequestError) as refused:
        read_functions(value)
    assert refused.value.param == param
    assert str(refused.value).startswith(param)


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        (None, ToolChoice("auto")),
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ({"name": "f"}, ToolChoice("function", "f")),
    ],
)
def test_every_form_of_function_call_is_read(value, choice):
    assert read_function_call(value, read_functions([FUNCTION])) == choice


@pytest.mark.parametrize(
    "value", ["required", "", 5, [], {}, {"name": 5}, {"name": "g"}]
)
def test_what_is_no_function_call_is_refused(value):
    with pytest.raises(RequestError) as refused:
        read_function_call(value, read_functions([FUNCTION]))
    assert refused.value.param == "function_call"
