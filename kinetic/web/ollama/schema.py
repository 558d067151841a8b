"""From a body of Ollama's API to a GenerationRequest. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.types import (
    ChatInput,
    ConstraintSpec,
    GenerationRequest,
    ModelInfo,
    TextInput,
)
from kinetic.web.fields import constraints
from kinetic.web.fields.readers import shown
from kinetic.web.fields.sampling import ModelFacts, sampling_params
from kinetic.web.fields.tables import FieldReader
from kinetic.web.ollama.fields import CHAT, GENERATE, OPTIONS
from kinetic.web.openai.messages import image_part, read_messages
from kinetic.web.openai.tools import read_tools

_CHAT = FieldReader.of(CHAT)
_GENERATE = FieldReader.of(GENERATE)
_OPTIONS = FieldReader.of(OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, and how its answer is to be written."""

    request: GenerationRequest | None
    """None: nothing is asked but that the model be loaded, or unloaded."""
    stream: bool = True
    unloads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who asks, and whom: everything that is not in the body."""

    model: str
    """The model's name as the client wrote it."""
    info: ModelInfo
    facts: ModelFacts
    request_id: str
    arrived_s: float


def read_chat(body: Mapping[str, Any], asking: Asking) -> Asked:
    """Read a body of /api/chat; raises RequestError naming field, value and limit."""
    values = _CHAT.read(body)
    options = _options(values)
    messages = values.get("messages", [])
    if not isinstance(messages, list):
        message = f"messages must be a list, not {shown(messages)}"
        raise RequestError(message, param="messages")
    tools = read_tools(_with_type(values.get("tools")))
    if not messages:
        return _load(values)
    images = [
        read_images(message.get("images"), f"messages[{i}].images", asking.facts)
        if isinstance(message, dict)
        else ()
        for i, message in enumerate(messages)
    ]
    read = read_messages([_message(m, i) for i, m in enumerate(messages)])
    inputs = ChatInput(
        messages=tuple(map(_with_images, read, images)),
        tools=tools,
        # Ollama has no switch for it: a model may call as often as it likes.
        parallel_tool_calls=True,
        template_kwargs=_template_kwargs(values, asking),
    )
    return _asked(values, options, inputs, asking)


def read_generate(body: Mapping[str, Any], asking: Asking) -> Asked:
    """Read a body of /api/generate; raises RequestError as `read_chat` does."""
    values = _GENERATE.read(body)
    options = _options(values)
    prompt, system = values.get("prompt", ""), values.get("system", "")
    is_raw = values.get("raw", False)
    if is_raw and system:
        raise RequestError("raw cannot be combined with system", param="system")
    if is_raw and values.get("think"):
        raise RequestError("raw cannot be combined with think", param="think")
    if not prompt:
        return _load(values)
    images = read_images(values.get("images"), "images", asking.facts)
    if is_raw and images:
        raise RequestError("raw cannot be combined with images", param="images")
    if is_raw:
        return _asked(values, options, TextInput(prompt=prompt), asking)
    user = {"role": "user", "content": prompt}
    messages: list[Mapping[str, Any]] = [_with_images(user, images)]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    inputs = ChatInput(
        messages=tuple(messages), template_kwargs=_template_kwargs(values, asking)
    )
    return _asked(values, options, inputs, asking)


def read_flag(body: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """A field that is true or false; raises RequestError for anything else."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        message = f"{name} must be true or false, not {shown(value)}"
        raise RequestError(message, param=name)
    return value


def _load(values: Mapping[str, Any]) -> Asked:
    return Asked(request=None, unloads=values.get("keep_alive") == 0)


def _options(values: Mapping[str, Any]) -> dict[str, Any]:
    return _OPTIONS.read(values.get("options", {}), where="options.")


def _asked(
    values: Mapping[str, Any],
    options: Mapping[str, Any],
    inputs: ChatInput | TextInput,
    asking: Asking,
) -> Asked:
    request = GenerationRequest(
        request_id=asking.request_id,
        inputs=(inputs,),
        sampling=sampling_params(options, asking.facts),
        max_tokens=options.get("num_predict", asking.facts.max_tokens),
        stops=options.get("stop", ()),
        constraint=_constraint(values.get("format")),
        n_logprobs=_logprobs(values),
        receipt=values.get("receipt", False),
        arrived_s=asking.arrived_s,
    )
    return Asked(request=request, stream=values.get("stream", True))


# --- Messages and tools -------------------------------------------------------------


def _message(value: Any, i: int) -> Any:
    """One of Ollama's messages in OpenAI's words, which the checks are written for."""
    if not isinstance(value, dict):
        return value
    where = f"messages[{i}]"
    content = value.get("content")
    if content is not None and not isinstance(content, str):
        message = f"{where}.content must be a string, not {shown(content)}"
        raise RequestError(message, param=f"{where}.content")
    found = {key: v for key, v in value.items() if key != "images"}
    found["content"] = content or ""
    role = value.get("role")
    if isinstance(role, str):
        found["role"] = role.lower()
    if value.get("tool_name") is not None:
        found["name"] = value["tool_name"]
    return found


def read_images(
    images: Any, where: str, facts: ModelFacts
) -> tuple[Mapping[str, str], ...]:
    """The pictures of a message or a prompt; raises RequestError naming them."""
    if images is None or images == []:
        return ()
    if not isinstance(images, list):
        message = f"{where} must be a list of base64 strings, not {shown(images)}"
        raise RequestError(message, param=where)
    if not facts.has_vision:
        raise UnsupportedFeature(
            f"{where} holds an image, and this model reads no images", param=where
        )
    for i, image in enumerate(images):
        if not isinstance(image, str):
            at = f"{where}[{i}]"
            message = f"{at} must be a base64 string, not {shown(image)}"
            raise RequestError(message, param=at)
    return tuple(image_part(image, f"{where}[{i}]") for i, image in enumerate(images))


def _with_images(
    message: Mapping[str, Any], images: Sequence[Mapping[str, str]]
) -> Mapping[str, Any]:
    """A message with its pictures before its text, as Ollama puts them."""
    if not images:
        return message
    text = message.get("content")
    texts = ({"type": "text", "text": text},) if text else ()
    return {**message, "content": [*images, *texts]}


def _with_type(tools: Any) -> Any:
    """Ollama takes tools that do not say that they are functions."""
    if not isinstance(tools, list):
        return tools
    return [
        {"type": "function", **tool}
        if isinstance(tool, dict) and not tool.get("type")
        else tool
        for tool in tools
    ]


# --- Thinking, format, log-probabilities --------------------------------------------


def _template_kwargs(values: Mapping[str, Any], asking: Asking) -> Mapping[str, Any]:
    """The template's variables for `think`: models that can, think unless told not to.

    Source: a template that knows levels gets "medium" where none is named; gpt-oss has
    no "max".
    """
    think, info = values.get("think"), asking.info
    if not info.knows_thinking:
        if think:
            message = f'"{asking.model}" does not support thinking'
            raise UnsupportedFeature(message, param="think")
        return {}
    if think is False:
        return {"enable_thinking": False}
    found: dict[str, Any] = {"enable_thinking": True}
    if think is not None and info.template_caps.get("supports_reasoning_effort"):
        effort = think if isinstance(think, str) else "medium"
        if effort == "max" and info.architecture == "gpt-oss":
            effort = "high"
        found["reasoning_effort"] = effort
    return found


def _constraint(value: Any) -> ConstraintSpec | None:
    if value is None or value == "":
        return None
    if value == "json":
        return constraints.any_json(param="format")
    if isinstance(value, dict):
        return constraints.json_of(value, param="format")
    message = f'format must be "json" or a JSON schema, not {shown(value)}'
    raise RequestError(message, param="format")


def _logprobs(values: Mapping[str, Any]) -> int | None:
    count: int = values.get("top_logprobs", 0)
    if values.get("logprobs"):
        return count
    if count:
        message = f"top_logprobs is {count}, which needs logprobs to be true"
        raise RequestError(message, param="top_logprobs")
    return None
