"""Tool definitions and tool_choice of a chat request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import voluptuous as vol

from kinetic.errors import RequestError
from kinetic.web.fields import validated
from kinetic.web.openai.messages import function_name
from kinetic.web.readers import shown

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


_TOOL = vol.Schema(
    {
        vol.Required("type"): _kind,
        vol.Required("function"): vol.Schema(
            {
                vol.Required("name"): function_name,
                vol.Optional("description"): _description,
                vol.Optional("parameters"): _parameters,
                vol.Optional("strict"): _strict,
            },
            extra=vol.REMOVE_EXTRA,
        ),
    },
    extra=vol.REMOVE_EXTRA,
)


def read_tools(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Function definitions in checked form; raises RequestError."""
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > TOOLS_MAX:
        count = f"{len(value)} of them" if isinstance(value, list) else shown(value)
        message = f"tools must be a list of at most {TOOLS_MAX} tools, not {count}"
        raise RequestError(message, param="tools")
    tools = []
    names: set[str] = set()
    for i, item in enumerate(value):
        where = f"tools[{i}]"
        if not isinstance(item, dict):
            raise RequestError(f"{where} must be an object", param=where)
        tool = validated(_TOOL, item, where=f"{where}.")
        name = tool["function"]["name"]
        if name in names:
            at = f"{where}.function.name"
            raise RequestError(f"{at} is {shown(name)} a second time", param=at)
        names.add(name)
        tools.append(tool)
    return tuple(tools)


def read_tool_choice(value: Any, tools: tuple[Mapping[str, Any], ...]) -> ToolChoice:
    """Which calls are wanted; raises RequestError where no tool can answer it."""
    if value is None:
        return ToolChoice()
    choice = _choice(value)
    if choice.kind in {"required", "function"} and not tools:
        message = "tool_choice asks for a call, and there are no tools"
        raise RequestError(message, param="tool_choice")
    known = [tool["function"]["name"] for tool in tools]
    for name in choice.names:
        if name not in known:
            message = f"tool_choice names {shown(name)}, which is none of the tools"
            raise RequestError(message, param="tool_choice")
    return choice


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
