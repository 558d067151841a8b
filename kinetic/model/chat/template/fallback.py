"""Tools written as text, for templates that do not print them.

Calls take the form of the template's family, so that what the model reads in the
history is what it is asked to write and what the parser of that family reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kinetic.model.chat.template.normalise import Call

_BETWEEN: Final = {"qwen3.5": "\n\n", "lfm2": "", "mistral": ""}
"""What stands between an answer's text and its calls; else a newline."""


def between_text_and_calls(family: str) -> str:
    """Return what a model of this family writes between its text and its calls."""
    return _BETWEEN.get(family, "\n")


def write_calls(family: str, call_form: str | None, calls: Sequence[Call]) -> str:
    """Write calls as a model of this family would."""
    match family:
        case "qwen3.5":
            return "\n".join(_xml_call(call) for call in calls)
        case "hermes":
            return "\n".join(
                f"<tool_call>\n{_object(call, 'arguments')}\n</tool_call>"
                for call in calls
            )
        case "lfm2":
            listed = ", ".join(_python_call(call) for call in calls)
            return f"<|tool_call_start|>[{listed}]<|tool_call_end|>"
        case "llama3":
            return "; ".join(_object(call, "parameters") for call in calls)
        case "mistral":
            return _mistral_calls(call_form, calls)
        case _:
            return "\n".join(_object(call, "arguments") for call in calls)


def write_result(name: str | None, text: str) -> str:
    """Write a function's result as a user's text."""
    return f"Result of {name}:\n{text}" if name else f"Result of the call:\n{text}"


def write_tools(
    family: str, call_form: str | None, tools: Sequence[Mapping[str, Any]]
) -> str:
    """Write the list of tools, and how to call one, as a system text."""
    listed = "\n".join(_dump(tool["function"]) for tool in tools)
    example = Call(
        id="000000000",
        name="the function's name",
        arguments={"the argument's name": "its value"},
        source="{}",
    )
    shown = write_calls(family, call_form, [example])
    return (
        f"You can call these functions:\n{listed}\n\n"
        f"To call a function, reply only with\n{shown}\n"
        "The result comes in the next message. If no function is needed, just answer."
    )


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _object(call: Call, key: str) -> str:
    return _dump({"name": call.name, key: dict(call.arguments)})


def _xml_call(call: Call) -> str:
    parameters = "".join(
        f"<parameter={name}>\n{_xml_value(value)}\n</parameter>\n"
        for name, value in call.arguments.items()
    )
    return f"<tool_call>\n<function={call.name}>\n{parameters}</function>\n</tool_call>"


def _xml_value(value: object) -> str:
    return value if isinstance(value, str) else _dump(value)


def _python_call(call: Call) -> str:
    arguments = ", ".join(
        f"{name}={_python_value(value)}" for name, value in call.arguments.items()
    )
    return f"{call.name}({arguments})"


def _python_value(value: object) -> str:
    # A JSON text is a Python literal but for the three words.
    return repr(value) if value is None or isinstance(value, bool) else _dump(value)


def _mistral_calls(call_form: str | None, calls: Sequence[Call]) -> str:
    if call_form == "list":
        listed = ", ".join(
            _dump({"name": call.name, "arguments": dict(call.arguments), "id": call.id})
            for call in calls
        )
        return f"[TOOL_CALLS][{listed}]"
    middle = "[CALL_ID]{}[ARGS]" if call_form == "call_id" else "[ARGS]"
    return "".join(
        f"[TOOL_CALLS]{call.name}{middle.format(call.id)}{_dump(dict(call.arguments))}"
        for call in calls
    )
