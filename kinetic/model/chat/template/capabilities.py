"""What a template is able to do, by llama-server's names for it.

llama.cpp watches which values its own template engine touches; here the same
conversations are rendered, and a value counts as used if it shows in the output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kinetic.model.chat.template.metering import Fault
from kinetic.model.chat.template.printer import Printer

_MAX_STEPS: Final = 4_000_000
_WORD = "qzxword"
_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "qzxtool",
            "description": "A description",
            "parameters": {
                "type": "object",
                "properties": {"qzxkey": {"type": "string", "description": "A hint"}},
                "required": ["qzxkey"],
            },
        },
    }
]
_EFFORTS = ("none", "low", "medium", "high", "max")


def capabilities_of(printer: Printer) -> dict[str, bool]:
    """Return llama-server's `chat_template_caps`, keys sorted."""
    takes_text, takes_parts = _content(printer)
    has_object_arguments, has_calls, has_tools = _calls(printer)
    return {
        "supports_object_arguments": has_object_arguments,
        "supports_parallel_tool_calls": _parallel(
            printer, is_text=not has_object_arguments
        ),
        "supports_preserve_reasoning": _preserve_reasoning(printer),
        "supports_reasoning_effort": _reasoning_effort(printer),
        "supports_string_content": takes_text,
        "supports_system_role": _system(printer),
        "supports_tool_calls": has_calls,
        "supports_tools": has_tools,
        "supports_typed_content": takes_parts,
    }


def _print(printer: Printer, messages: Sequence[dict[str, Any]], **more: Any) -> str:
    """Return what the template prints, or "" where it refuses."""
    try:
        return printer.print_raw({"messages": messages, **more}, _MAX_STEPS)
    except Fault:
        return ""


def _user(content: Any = "User message") -> dict[str, Any]:
    return {"role": "user", "content": content}


class _Watched(list[Any]):
    """A list that remembers whether it was looked into."""

    was_read = False

    def __iter__(self) -> Iterator[Any]:
        self.was_read = True
        return super().__iter__()

    def __deepcopy__(self, _memory: object) -> _Watched:
        return self


def _content(printer: Printer) -> tuple[bool, bool]:
    """Return whether content may be a text, and whether it may be a list of parts."""
    text = _print(printer, [_user(_WORD)])
    parts = _print(printer, [_user([{"type": "text", "text": _WORD}])])
    # A list that is printed as a list is not understood, and llama.cpp, which tries an
    # empty one, does not count what refuses or ignores it.
    is_understood = _WORD in parts and not re.search(r"""['"]type['"]""", parts)
    watched = _Watched()
    takes_empty = bool(_print(printer, [_user(watched)])) and watched.was_read
    return _WORD in text, is_understood and takes_empty


def _system(printer: Printer) -> bool:
    return _WORD in _print(printer, [{"role": "system", "content": _WORD}, _user()])


def _conversation(*arguments: Any) -> list[dict[str, Any]]:
    calls = [
        {
            "id": f"call0000{number}",
            "type": "function",
            "function": {"name": f"qzxname{number}", "arguments": value},
        }
        for number, value in enumerate(arguments, 1)
    ]
    return [
        _user(),
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "Tool response", "tool_call_id": "call00001"},
        {"role": "assistant", "content": "The answer"},
        _user(),
    ]


_OBJECT: Final = {"qzxarg": "qzxvalue"}
_TEXT: Final = '{"qzxarg": "qzxvalue"}'


def _calls(printer: Printer) -> tuple[bool, bool, bool]:
    """Return whether arguments may be objects, and calls and tools are shown."""
    printed = _print(printer, _conversation(_OBJECT), tools=_TOOLS)
    has_object_arguments = "qzxvalue" in printed
    if not has_object_arguments:
        # Where objects are refused, text is tried; where neither goes, nothing is known
        # to work.
        printed = _print(printer, _conversation(_TEXT), tools=_TOOLS)
    return has_object_arguments, "qzxname1" in printed, "qzxtool" in printed


def _parallel(printer: Printer, *, is_text: bool) -> bool:
    value: Any = _TEXT if is_text else _OBJECT
    return "qzxname2" in _print(printer, _conversation(value, value), tools=_TOOLS)


def _preserve_reasoning(printer: Printer) -> bool:
    """Ask whether the thoughts of an old answer can be kept."""
    answer = {"role": "assistant", "content": "An answer"}
    messages = [
        _user(),
        {**answer, "reasoning_content": _WORD},
        _user(),
        {**answer, "reasoning_content": "Thoughts"},
        _user(),
    ]
    switches = {
        "enable_thinking": True,
        "preserve_thinking": True,
        "clear_thinking": False,
        "truncate_history_thinking": False,
        "drop_thinking": False,
    }
    return _WORD in _print(printer, messages, **switches)


def _reasoning_effort(printer: Printer) -> bool:
    """Ask whether the effort changes anything, be it that a value is refused."""
    prompts = {
        _print(
            printer,
            [_user()],
            enable_thinking=True,
            reasoning_effort=effort,
            reasoning_strength=effort,
        )
        for effort in _EFFORTS
    }
    return len(prompts) > 1
