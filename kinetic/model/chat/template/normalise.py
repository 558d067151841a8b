"""Reads a request's messages and tools into one form, the same for every template.

Clients write one thing in many ways: content as text or as parts or as null, arguments
as an object or as JSON text, ids or none. Here each becomes one way, without loss, and
what cannot be read is refused with the message's index and field. What a template can
take is another matter: see `treatment.py`.
"""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from kinetic.errors import RequestError
from kinetic.model.chat.reply.jsontext import ESCAPED_SURROGATE, loads

SHORT_ID_CHARS: Final = 9
"""Length of the call ids that Mistral's templates demand, all letters and digits."""

_ROLES = {"developer": "system", "function": "tool"}
# `developer` is OpenAI's newer word for `system`; llama.cpp renames it too. `function`
# is the older word for `tool`.
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")


class TemplateError(RequestError):
    """A conversation that the model's chat template cannot print; a client's 400."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One function call of an earlier assistant turn."""

    id: str
    """The client's id, or one of ours."""
    name: str
    arguments: Mapping[str, Any]
    source: str
    """The arguments as JSON text: the client's own where it wrote text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of a conversation."""

    origin: int
    """Index in the request's messages, for error messages."""
    role: str
    """"system", "user", "assistant", "tool", or what else the client wrote."""
    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    call_id: str | None = None
    """Which call a tool turn answers."""
    name: str | None = None
    results: tuple[tuple[str, str], ...] = ()
    """Functions' names and results, where they stand in the turn that called."""
    answer: str = ""
    """The answer after these results, which stands there too."""
    glue: str = "\n\n"
    """What stands between this text and the next if both become one message."""
    images: tuple[tuple[int, int], ...] = ()
    """Where in `text`, from and to, markers stand that the server put there."""
    is_prefill: bool = False
    """Whether the model is to go on with this turn's text."""


def read_turns(
    messages: Sequence[Mapping[str, Any]], *, joiner: str = "\n"
) -> tuple[Turn, ...]:
    """Read OpenAI messages.

    Args:
        messages: Already checked by the schema; at least one.
        joiner: Stands between the text parts of one message.

    Raises:
        TemplateError: A field cannot be read; the text names it.
    """
    if not messages:
        raise TemplateError("messages must not be empty", param="messages")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise _wrong(f"messages[{index}]", "an object")
    ids = _Ids(messages)
    return tuple(
        _read_turn(message, index, joiner, ids)
        for index, message in enumerate(messages)
    )


def read_tools(tools: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Read OpenAI tool definitions.

    Description and parameters are filled in where they are missing, since some
    templates fail without; other keys, such as `strict`, are no words for the model.
    Source: the same three keys in the same order as llama.cpp hands to templates.

    Raises:
        TemplateError: A tool has no function with a name.
    """
    return tuple(_read_tool(tool, index) for index, tool in enumerate(tools))


def short_id(call_id: str) -> str:
    """Give the nine letters and digits that stand for `call_id`, always the same."""
    if len(call_id) == SHORT_ID_CHARS and call_id.isascii() and call_id.isalnum():
        return call_id
    alphabet = string.ascii_letters + string.digits
    number = int.from_bytes(
        hashlib.sha256(call_id.encode(errors="surrogatepass")).digest()[:8]
    )
    digits = []
    for _ in range(SHORT_ID_CHARS):
        number, digit = divmod(number, len(alphabet))
        digits.append(alphabet[digit])
    return "".join(digits)


class _Ids:
    """Gives ids to calls that have none."""

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        given = {
            call.get("id")
            for message in messages
            for call in _listed(message.get("tool_calls"))
            if isinstance(call, Mapping) and isinstance(call.get("id"), str)
        }
        numbered = (f"call{number:05d}" for number in count(1))
        # Numbered by place, so that a longer conversation begins with the same prompt.
        self._fresh = (call_id for call_id in numbered if call_id not in given)

    def of(self, given: object) -> str:
        return given if isinstance(given, str) and given else next(self._fresh)


def _read_turn(message: Mapping[str, Any], index: int, joiner: str, ids: _Ids) -> Turn:
    where = f"messages[{index}]"
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise _wrong(f"{where}.role", "a text")
    role = _ROLES.get(role, role)
    text, images = _read_content(
        message.get("content"), f"{where}.content", joiner, role
    )
    name = message.get("name")
    name = name if isinstance(name, str) and name else None
    if role == "tool":
        call_id = message.get("tool_call_id")
        return Turn(
            origin=index,
            role=role,
            text=text,
            call_id=call_id if isinstance(call_id, str) and call_id else None,
            name=name,
            images=images,
        )
    if role != "assistant":
        return Turn(origin=index, role=role, text=text, name=name, images=images)
    calls = _read_calls(message, where, ids)
    thoughts = (message.get(key) for key in _REASONING_FIELDS)
    reasoning = next((text for text in thoughts if isinstance(text, str) and text), "")
    return Turn(
        origin=index,
        role=role,
        text=text,
        reasoning=reasoning,
        calls=calls,
        name=name,
        images=images,
    )


_Content = tuple[str, tuple[tuple[int, int], ...]]
"""A text, and where the image markers stand in it."""


def _read_content(content: object, where: str, joiner: str, role: str) -> _Content:
    if content is None:
        return "", ()
    if isinstance(content, str):
        return content, ()
    if isinstance(content, Sequence):
        try:
            return _join_parts(content, where, joiner)
        except TemplateError:
            if role != "tool":
                raise
    if role == "tool":
        # A result is whatever the function gave back.
        return json.dumps(content, ensure_ascii=False), ()
    raise _wrong(where, "a text or a list of parts")


def _join_parts(parts: Sequence[object], where: str, joiner: str) -> _Content:
    """Join text parts; an image's marker stands where it was, without a joiner.

    Source: llama.cpp joins parts the same way.
    """
    whole = ""
    images = []
    joins = False
    for index, part in enumerate(parts):
        fields = part if isinstance(part, Mapping) else {}
        kind = fields.get("type")
        words = fields.get("marker" if kind == "image" else "text")
        if kind not in ("text", "image") or not isinstance(words, str):
            raise _wrong(f"{where}[{index}]", "a part of type text or image_url")
        is_text = kind == "text"
        whole += (joiner if joins and is_text and whole else "") + words
        if not is_text:
            images.append((len(whole) - len(words), len(whole)))
        joins = is_text
    return whole, tuple(images)


def _read_calls(message: Mapping[str, Any], where: str, ids: _Ids) -> tuple[Call, ...]:
    raw = message.get("tool_calls")
    if raw is not None and not isinstance(raw, (list, tuple)):
        raise _wrong(f"{where}.tool_calls", "a list")
    calls = [
        _read_call(call, f"{where}.tool_calls[{index}]", ids)
        for index, call in enumerate(_listed(raw))
    ]
    legacy = message.get("function_call")
    if isinstance(legacy, Mapping):
        wrapped = {"function": legacy}
        calls.append(_read_call(wrapped, f"{where}.function_call", ids))
    return tuple(calls)


def _read_call(call: object, where: str, ids: _Ids) -> Call:
    function = call.get("function") if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not (
        isinstance(call, Mapping)
        and isinstance(function, Mapping)
        and isinstance(name, str)
        and name
    ):
        raise _wrong(where, "a call of a function with a name")
    arguments = _read_arguments(
        function.get("arguments"), f"{where}.function.arguments"
    )
    raw, source = function.get("arguments"), json.dumps(arguments, ensure_ascii=False)
    if isinstance(raw, str) and raw.strip() and not ESCAPED_SURROGATE.search(raw):
        source = raw
    return Call(
        id=ids.of(call.get("id")),
        name=name,
        arguments=arguments,
        source=source,
    )


def _read_arguments(raw: object, where: str) -> Mapping[str, Any]:
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}
    if isinstance(raw, str):
        try:
            # Models write raw newlines into strings, and clients send them back.
            raw = loads(raw)
        except ValueError as error:
            raise TemplateError(
                f"{where} is not valid JSON: {error}", param="messages"
            ) from error
        except RecursionError as error:
            raise TemplateError(
                f"{where} is nested too deeply", param="messages"
            ) from error
    if not isinstance(raw, Mapping):
        raise _wrong(where, "a JSON object")
    return raw


def _read_tool(tool: object, index: int) -> dict[str, Any]:
    where = f"tools[{index}]"
    function = tool.get("function") if isinstance(tool, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str) or not name:
        raise _wrong(where, "a function with a name", param="tools")
    description = function.get("description")
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise _wrong(f"{where}.function.parameters", "a JSON Schema", param="tools")
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description if isinstance(description, str) else "",
            "parameters": parameters or {"type": "object", "properties": {}},
        },
    }


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else ()


def _wrong(where: str, what: str, *, param: str = "messages") -> TemplateError:
    return TemplateError(f"{where} must be {what}", param=param)
