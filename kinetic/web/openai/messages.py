"""The messages of a chat request, checked before any template sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import voluptuous as vol

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.web.fields.readers import shown
from kinetic.web.fields.tables import path_text, validated

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
MESSAGES_MAX = 10_000
NAME_CHARS_MAX = 256


def _role(value: Any) -> str:
    if value in ROLES and isinstance(value, str):
        return value
    raise vol.Invalid(
        f"must be {', '.join(ROLES[:-1])} or {ROLES[-1]}, not {shown(value)}"
    )


def _text_or_null(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise vol.Invalid(f"must be a string or null, not {shown(value)}")


def function_name(value: Any) -> str:
    """The name of a function: what templates and call formats can write bare."""
    if not isinstance(value, str) or not 0 < len(value) <= NAME_CHARS_MAX:
        raise vol.Invalid(
            f"must be a string of 1 to {NAME_CHARS_MAX} characters, not {shown(value)}"
        )
    if any(c.isspace() or not c.isprintable() or c in "<>\"'\\" for c in value):
        raise vol.Invalid(
            "must be without blanks, quotes, backslashes and angle brackets, not"
            f" {shown(value)}"
        )
    return value


def _arguments(value: Any) -> str | dict[str, Any] | None:
    if value is None or isinstance(value, str | dict):
        return value
    raise vol.Invalid(f"must be JSON text or an object, not {shown(value)}")


def _function(value: Any) -> Any:
    # The inner schema's own paths join this one's.
    return _FUNCTION(value)


def _call_type(value: Any) -> str:
    if value in {None, "function"} if isinstance(value, str | None) else False:
        return "function"
    raise vol.Invalid(f'must be "function", not {shown(value)}')


_FUNCTION = vol.Schema(
    {
        vol.Required("name"): function_name,
        vol.Optional("arguments"): _arguments,
    },
    extra=vol.REMOVE_EXTRA,
)
_CALL = vol.Schema(
    {
        vol.Optional("id"): _text_or_null,
        vol.Optional("type"): _call_type,
        vol.Required("function"): _function,
    },
    extra=vol.REMOVE_EXTRA,
)


def _old_call(value: Any) -> dict[str, Any] | None:
    """The one call of the old form; {} is none."""
    if value is None or value == {}:
        return None
    found: dict[str, Any] = _FUNCTION(value)
    return found


def _calls(value: Any) -> list[Any] | None:
    return None if value is None else vol.Schema([_CALL])(value)


def _content(value: Any) -> str | list[Any] | None:
    if value is None or isinstance(value, str | list):
        return value
    raise vol.Invalid(f"must be a string, a list of parts or null, not {shown(value)}")


_MESSAGE = vol.Schema(
    {
        vol.Required("role"): _role,
        vol.Optional("content"): _content,
        vol.Optional("name"): _text_or_null,
        vol.Optional("refusal"): _text_or_null,
        vol.Optional("reasoning_content"): _text_or_null,
        vol.Optional("reasoning"): _text_or_null,
        vol.Optional("thinking"): _text_or_null,
        vol.Optional("tool_call_id"): _text_or_null,
        vol.Optional("tool_calls"): _calls,
        vol.Optional("function_call"): _old_call,
    },
    extra=vol.ALLOW_EXTRA,
)
_KNOWN = frozenset(str(key) for key in _MESSAGE.schema)


def read_messages(
    value: Any, *, has_vision: bool = False
) -> tuple[Mapping[str, Any], ...]:
    """A conversation in checked form; keys that mean nothing here are left out.

    Without `has_vision` pictures are refused. Raises RequestError naming message, part
    and field.
    """
    if not isinstance(value, list) or not 0 < len(value) <= MESSAGES_MAX:
        count = f"{len(value)} of them" if isinstance(value, list) else shown(value)
        message = (
            f"messages must be a list of 1 to {MESSAGES_MAX} messages, not {count}"
        )
        raise RequestError(message, param="messages")
    return tuple(
        _message(item, f"messages[{i}]", has_vision) for i, item in enumerate(value)
    )


def _message(value: Any, where: str, has_vision: bool) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RequestError(f"{where} must be an object", param=where)
    message: dict[str, Any] = validated(_MESSAGE, value, where=f"{where}.")
    role = message["role"]
    if message.get("audio"):
        at = f"{where}.audio"
        raise UnsupportedFeature(f"{at} is not served", param=at)
    for key in ("tool_calls", "function_call"):
        if message.get(key) and role != "assistant":
            at = f"{where}.{key}"
            raise RequestError(f"{at} belongs to role assistant, not {role}", param=at)
    if old := message.pop("function_call", None):
        if message.get("tool_calls"):
            at = f"{where}.function_call"
            raise RequestError(f"{at} cannot stand beside tool_calls", param=at)
        message["tool_calls"] = [{"type": "function", "function": old}]
    kept = {k: v for k, v in message.items() if k in _KNOWN and v is not None}
    refusal = kept.pop("refusal", None)
    content = kept.get("content", refusal)
    if content is None and role not in {"assistant", "tool", "function"}:
        raise RequestError(f"{where}.content is missing", param=f"{where}.content")
    if isinstance(content, list):
        content = [
            _part(part, path_text([f"{where}.content", i]), has_vision)
            for i, part in enumerate(content)
        ]
    kept["content"] = content
    return kept


_PART_TEXTS = {"text": "text", "refusal": "refusal"}
_MEDIA = {
    "image_url": "images",
    "input_audio": "audio",
    "audio_url": "audio",
    "video_url": "video",
    "input_video": "video",
    "file": "files",
}


def _part(part: Any, where: str, has_vision: bool) -> Mapping[str, str]:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind not in {*_PART_TEXTS, *_MEDIA}:
        named = shown(kind) if isinstance(part, dict) else shown(part)
        message = f"{where} must be a part of type text or image_url, not {named}"
        raise RequestError(message, param=where)
    if kind == "image_url" and has_vision:
        return image_part(_url(part.get(kind), f"{where}.{kind}"), where)
    if kind in _MEDIA:
        message = f"{where} is of type {kind}, and this model reads no {_MEDIA[kind]}"
        raise UnsupportedFeature(message, param=where)
    key = _PART_TEXTS[kind]
    found = part.get(key)
    if not isinstance(found, str):
        message = f"{where}.{key} must be a string, not {shown(found)}"
        raise RequestError(message, param=f"{where}.{key}")
    return {"type": "text", "text": found}


def image_part(source: str, where: str) -> Mapping[str, str]:
    """A picture in a message's content: a data URL or base64, looked at later."""
    return {"type": "image", "source": source, "where": where}


def _url(value: Any, where: str) -> str:
    """A picture's URL; clients write an object around it or do not."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        message = f"{where} must be an object with a url, not {shown(value)}"
        raise RequestError(message, param=where)
    url = value.get("url")
    if not isinstance(url, str):
        message = f"{where}.url must be a string, not {shown(url)}"
        raise RequestError(message, param=f"{where}.url")
    return url
