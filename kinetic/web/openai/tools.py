"""Tool definitions and tool_choice of a chat request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import voluptuous as vol

from kinetic.errors import RequestError
from kinetic.web.fields.readers import shown
from kinetic.web.fields.tables import validated
from kinetic.web.openai.messages import function_name

TOOLS_MAX = 512


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether, or which function, the model is to call."""

    kind: str = "auto"
    """"auto", "none", "required" or "function"."""
    name: str | None = None
    allowed: tuple[str, ...] | None = None
    """Which of the tools may be called; None: each."""

    @property
    def names(self) -> tuple[str, ...]:
        """The tools that it names."""
        return (*(self.allowed or ()), *(() if self.name is None else (self.name,)))


def _kind(value: Any) -> str:
    if value == "function":
        return "function"
    raise vol.Invalid(f'must be "function", not {shown(value)}')


def _description(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise vol.Invalid(f"must be a string or null, not {shown(value)}")


def _parameters(value: Any) -> dict[str, Any] | None:
    if value is None or isinstance(value, dict):
        return value
    raise vol.Invalid(f"must be a JSON Schema object or null, not {shown(value)}")


def _strict(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise vol.Invalid(f"must be true, false or null, not {shown(value)}")


_FUNCTION = vol.Schema(
    {
        vol.Required("name"): function_name,
        vol.Optional("description"): _description,
        vol.Optional("parameters"): _parameters,
        vol.Optional("strict"): _strict,
    },
    extra=vol.REMOVE_EXTRA,
)
_TOOL = vol.Schema(
    {vol.Required("type"): _kind, vol.Required("function"): _FUNCTION},
    extra=vol.REMOVE_EXTRA,
)


def read_tools(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Function definitions in checked form; raises RequestError."""
    tools: tuple[Mapping[str, Any], ...] = _objects(value, "tools", _TOOL)
    names = [tool["function"]["name"] for tool in tools]
    _check_names(names, "tools[{}].function.name")
    return tools


def read_functions(value: Any) -> tuple[Mapping[str, Any], ...]:
    """The old form of the same, as tools; raises RequestError."""
    functions = _objects(value, "functions", _FUNCTION)
    _check_names([function["name"] for function in functions], "functions[{}].name")
    return tuple({"type": "function", "function": f} for f in functions)


def _objects(value: Any, param: str, schema: vol.Schema) -> tuple[Any, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > TOOLS_MAX:
        count = f"{len(value)} of them" if isinstance(value, list) else shown(value)
        message = f"{param} must be a list of at most {TOOLS_MAX} {param}, not {count}"
        raise RequestError(message, param=param)
    found = []
    for i, item in enumerate(value):
        where = f"{param}[{i}]"
        if not isinstance(item, dict):
            raise RequestError(f"{where} must be an object", param=where)
        found.append(validated(schema, item, where=f"{where}."))
    return tuple(found)


def _check_names(names: Sequence[str], place: str) -> None:
    known: set[str] = set()
    for i, name in enumerate(names):
        if name in known:
            at = place.format(i)
            raise RequestError(f"{at} is {shown(name)} a second time", param=at)
        known.add(name)


def read_tool_choice(value: Any, tools: tuple[Mapping[str, Any], ...]) -> ToolChoice:
    """Which calls are wanted; raises RequestError where no tool can answer it."""
    if value is None:
        return ToolChoice()
    choice = _choice(value)
    _check_choice(choice, tools, "tool_choice", "tools")
    return choice


def read_function_call(
    value: Any, functions: tuple[Mapping[str, Any], ...]
) -> ToolChoice:
    """The old form of the same; raises RequestError."""
    choice = ToolChoice()
    if value in ("auto", "none"):
        choice = ToolChoice(str(value))
    elif isinstance(value, dict) and isinstance(value.get("name"), str):
        choice = ToolChoice("function", value["name"])
    elif value is not None:
        message = 'function_call must be "auto", "none" or {"name": …}, not ' + shown(
            value
        )
        raise RequestError(message, param="function_call")
    _check_choice(choice, functions, "function_call", "functions")
    return choice


def _check_choice(
    choice: ToolChoice, tools: tuple[Mapping[str, Any], ...], param: str, among: str
) -> None:
    if choice.kind in {"required", "function"} and not tools:
        message = f"{param} asks for a call, and there are no {among}"
        raise RequestError(message, param=param)
    known = [tool["function"]["name"] for tool in tools]
    for name in choice.names:
        if name not in known:
            message = f"{param} names {shown(name)}, which is none of the {among}"
            raise RequestError(message, param=param)


def _choice(value: Any) -> ToolChoice:
    if isinstance(value, str) and value in {"auto", "none", "required"}:
        return ToolChoice(value)
    if (name := _named(value)) is not None:
        return ToolChoice("function", name)
    if isinstance(value, dict) and value.get("type") == "allowed_tools":
        return _allowed(value)
    message = (
        'tool_choice must be "auto", "none", "required" or {"type": "function",'
        ' "function": {"name": …}} or {"type": "allowed_tools", "allowed_tools":'
        f' {{"mode": …, "tools": […]}}}}, not {shown(value)}'
    )
    raise RequestError(message, param="tool_choice")


def _named(value: Any) -> str | None:
    """The function that an object names, as OpenAI's chats or its Responses API do."""
    if not isinstance(value, dict) or value.get("type") != "function":
        return None
    function = value.get("function")
    name = function.get("name") if isinstance(function, dict) else value.get("name")
    return name if isinstance(name, str) and name else None


def _allowed(value: Mapping[str, Any]) -> ToolChoice:
    """The tools that may be called; the Responses API has no object around them."""
    where = "tool_choice.allowed_tools"
    given = value.get("allowed_tools", value)
    mode = given.get("mode") if isinstance(given, dict) else None
    if mode not in ("auto", "required"):
        message = f'{where}.mode must be "auto" or "required", not {shown(mode)}'
        raise RequestError(message, param="tool_choice")
    tools = given.get("tools")
    if not isinstance(tools, list) or not 0 < len(tools) <= TOOLS_MAX:
        message = f"{where}.tools must be a list of 1 to {TOOLS_MAX} tools"
        raise RequestError(message, param="tool_choice")
    names = []
    for i, tool in enumerate(tools):
        name = _named(tool)
        if name is None:
            message = f"{where}.tools[{i}] must name a function, not {shown(tool)}"
            raise RequestError(message, param="tool_choice")
        names.append(name)
    return ToolChoice(mode, allowed=tuple(names))
