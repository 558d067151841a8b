"""From JSON that anybody may have written to a receipt: nothing runs before this.

Every field is checked for type, range and size, and no other field may stand there, so
that what comes after it can trust what it gets. Values that the engine is handed lie in
the ranges that requests are held to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

import voluptuous as vol

from kinetic.errors import ReceiptError
from kinetic.receipts import reading, signing
from kinetic.receipts.canonical import canonical
from kinetic.receipts.checks import (
    INT32_MAX,
    TOKENS_MAX,
    Reader,
    flag,
    hex_of,
    listed,
    maybe,
    number,
    object_of,
    one_of,
    text,
    tokens,
    whole,
)
from kinetic.receipts.record import (
    BANNED,
    FORMAT,
    SEALS,
    VERSION,
    EngineIdentity,
    ModelIdentity,
    OutputRecord,
    Receipt,
    RequestRecord,
    Sealed,
)
from kinetic.types import (
    DEFAULT_SAMPLERS,
    ChatInput,
    ConstraintSpec,
    Finish,
    Outcome,
    SamplingParams,
    TextInput,
    ToolCall,
)

SEED_MAX: Final = 2**32 - 2
"""The largest that does not mean "draw one" to llama.cpp."""
ITEMS_MAX: Final = 10_000
STOPS_MAX: Final = 128
NAME_CHARS_MAX: Final = 4096
SIZE_MAX: Final = 2**53 - 1
FLOAT_MAX: Final = 1e9
BIAS_MAX: Final = 1e11
"""Ten thousand biases of the largest kind, all of one token."""
SHA256_BYTES: Final = 32

_EXTRA: Final = "extra keys not allowed"
"""How voluptuous says it; it has no class of its own for this."""


def bias(value: Any) -> tuple[int, float]:
    """A pair of token id and bias; "-inf" bans."""
    if not isinstance(value, list) or len(value) != 2:  # noqa: PLR2004 - it is a pair
        raise vol.Invalid("must be a pair of token id and bias")
    token = whole(0, INT32_MAX)(value[0])
    if value[1] == BANNED:
        return token, -math.inf
    return token, number(-BIAS_MAX, BIAS_MAX)(value[1])


_ANY = number(-FLOAT_MAX, FLOAT_MAX)

SAMPLING: Final[Mapping[str, Reader]] = {
    "seed": whole(0, SEED_MAX),
    "temperature": number(0, FLOAT_MAX),
    "dynatemp_range": _ANY,
    "dynatemp_exponent": _ANY,
    "top_k": whole(-INT32_MAX, INT32_MAX),
    "top_p": number(0, 1),
    "min_p": number(0, 1),
    "typical_p": _ANY,
    "top_n_sigma": _ANY,
    "xtc_probability": number(0, 1),
    "xtc_threshold": number(0, 1),
    "repeat_last_n": whole(-1, INT32_MAX),
    # 0 would divide by it.
    "repeat_penalty": number(1e-6, FLOAT_MAX),
    "presence_penalty": _ANY,
    "frequency_penalty": _ANY,
    "dry_multiplier": _ANY,
    "dry_base": number(1, FLOAT_MAX),
    "dry_allowed_length": whole(0, INT32_MAX),
    "dry_penalty_last_n": whole(-1, INT32_MAX),
    # Each is looked for in every token of the vocabulary.
    "dry_sequence_breakers": listed(text(256), 64),
    "mirostat": one_of(0, 1, 2),
    "mirostat_tau": _ANY,
    "mirostat_eta": _ANY,
    "min_keep": whole(0, INT32_MAX),
    "logit_bias": listed(bias, 1 << 20),
    "samplers": listed(one_of(*DEFAULT_SAMPLERS), ITEMS_MAX),
}
"""A reader for every field of SamplingParams, with the widest ranges of requests."""


def json_object(value: Any) -> dict[str, Any]:
    """JSON text of an object."""
    found = reading.json_value(text()(value), _unfit)
    if not isinstance(found, dict):
        raise vol.Invalid("must be JSON text of an object")
    return found


def _unfit(reason: str) -> Exception:
    return vol.Invalid(f"must be JSON text: {reason}")


def message(value: Any) -> dict[str, Any]:
    """A message: an object of texts, or JSON text of any object."""
    if isinstance(value, str):
        found = json_object(value)
        _refuse_images(found.get("content"))
        return found
    if not isinstance(value, dict):
        raise vol.Invalid("must be a message")
    for key, part in value.items():
        if part is not None and not isinstance(part, str):
            raise vol.Invalid("must be a string or null", path=[key])
    return value


def _refuse_images(content: Any) -> None:
    """No receipt is made of requests with images, and none is run."""
    parts = content if isinstance(content, list) else ()
    kinds = (part.get("type") for part in parts if isinstance(part, dict))
    if any("image" in str(kind) for kind in kinds):
        raise vol.Invalid("holds an image, with which there are no receipts yet")


def tool(value: Any) -> dict[str, Any]:
    """JSON text of a tool definition whose function has a name."""
    found = json_object(value)
    function = found.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise vol.Invalid("must be JSON text of a tool whose function has a name")
    return found


def prompt(value: Any) -> str | tuple[int | str, ...]:
    """Text, or a list of token ids and texts."""
    if isinstance(value, str):
        return value
    found: tuple[int | str, ...] = listed(_prompt_part, TOKENS_MAX)(value)
    return found


def _prompt_part(value: Any) -> int | str:
    if isinstance(value, str):
        return value
    token: int = whole(0, INT32_MAX)(value)
    return token


def moment(value: Any) -> datetime:
    """A time with its distance to UTC, to the microsecond."""
    try:
        found = datetime.fromisoformat(text(64)(value))
    except ValueError:
        raise vol.Invalid("must be a time as RFC 3339 writes it") from None
    if found.tzinfo is None:
        raise vol.Invalid("must be a time with its distance to UTC")
    return found


def created(value: Any) -> datetime:
    """A time in UTC, to the second."""
    try:
        found = datetime.strptime(text(64)(value), "%Y-%m-%dT%H:%M:%SZ")  # noqa: DTZ007
    except ValueError:
        raise vol.Invalid("must be a time such as 2026-01-31T12:00:00Z") from None
    return found.replace(tzinfo=UTC)


_NAME = text(NAME_CHARS_MAX)

_CHAT = object_of(
    {
        "kind": one_of("chat"),
        "messages": listed(message, ITEMS_MAX, least=1),
        "tools": listed(tool, ITEMS_MAX),
        "tool_choice": one_of("auto", "none", "required", "function"),
        "function_name": maybe(_NAME),
        "parallel_tool_calls": flag,
        "template_kwargs": json_object,
        "split_reasoning": flag,
        "rendered_at": moment,
        "time_zone": maybe(text(64)),
        "template": maybe(text()),
    }
)
_TEXT = object_of({"kind": one_of("text"), "prompt": prompt})


def _input(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and value.get("kind") == "text":
        found: dict[str, Any] = _TEXT(value)
    else:
        found = _CHAT(value)
    return found


def constraint(value: Any) -> ConstraintSpec:
    """What the answer was held to."""
    kinds = one_of("gbnf", "json_schema", "json_object")
    found = object_of({"kind": kinds, "source": text()})(value)
    if (found["source"] == "") != (found["kind"] == "json_object"):
        raise vol.Invalid("must be empty for json_object alone", path=["source"])
    return ConstraintSpec(param="constraint", **found)


_SCHEMA = object_of(
    {
        "format": one_of(FORMAT),
        "version": whole(1, INT32_MAX),
        "created": created,
        "model": object_of(
            {
                "name": _NAME,
                "sha256": hex_of(SHA256_BYTES),
                "size_bytes": whole(0, SIZE_MAX),
                "architecture": _NAME,
            }
        ),
        "engine": object_of(
            {
                "kinetic": _NAME,
                "llama_cpp_python": _NAME,
                "llama_cpp": _NAME,
                "build": hex_of(SHA256_BYTES),
                "features": _NAME,
                "processor": _NAME,
                "settings": _NAME,
                "plan": _NAME,
                "gpu_layers": whole(0, INT32_MAX),
            }
        ),
        "request": object_of(
            {
                "input": _input,
                "prompt_tokens": tokens,
                "sampling": object_of(SAMPLING),
                "stop": listed(text(), STOPS_MAX),
                "constraint": maybe(constraint),
                "max_tokens": maybe(whole(0, INT32_MAX)),
                "context": whole(1, INT32_MAX),
                "min_indent": whole(0, INT32_MAX),
                "ignore_eos": flag,
            }
        ),
        "output": object_of(
            {
                "tokens": tokens,
                "content": text(),
                "reasoning": text(),
                "tool_calls": listed(
                    object_of({"id": _NAME, "name": text(), "arguments": text()}),
                    ITEMS_MAX,
                ),
                "finish": object_of(
                    {
                        "reason": one_of("eos", "stop", "limit", "calls"),
                        "stop_string": maybe(text()),
                        "context_full": flag,
                    }
                ),
            }
        ),
        "signer": maybe(
            object_of(
                {
                    "algorithm": one_of(signing.ALGORITHM),
                    "public_key": hex_of(signing.KEY_BYTES),
                    "fingerprint": hex_of(signing.FINGERPRINT_DIGITS // 2),
                }
            )
        ),
        "digest": hex_of(SHA256_BYTES),
        "signature": maybe(hex_of(signing.SIGNATURE_BYTES)),
    }
)


def read(value: Any) -> Sealed:
    """A receipt from decoded JSON; ReceiptError names the field that is wrong."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ReceiptError(f'no receipt: "format" must be "{FORMAT}"')
    version = value.get("version")
    if version != VERSION:
        raise ReceiptError(
            "the receipt's format has another version than this program reads, which"
            f" is {VERSION}"
        )
    try:
        found = _SCHEMA(value)
    except vol.MultipleInvalid as several:
        raise _named(several.errors[0]) from None
    except vol.Invalid as invalid:
        raise _named(invalid) from None
    signer = found["signer"]
    key = None if signer is None else signing.PublicKey(signer["public_key"])
    if key is not None and signer["fingerprint"] != key.fingerprint:
        raise ReceiptError("signer.fingerprint is not the fingerprint of its key")
    return Sealed(
        receipt=_receipt(found),
        message=canonical({k: v for k, v in value.items() if k not in SEALS}),
        digest=found["digest"],
        signer=key,
        signature=found["signature"],
    )


def _named(invalid: vol.Invalid) -> ReceiptError:
    path = ""
    for step in invalid.path:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    name = path.removeprefix(".")[:NAME_CHARS_MAX] or "the receipt"
    if isinstance(invalid, vol.RequiredFieldInvalid):
        said = "is missing"
    elif invalid.msg == _EXTRA:
        said = "is no field of a receipt"
    else:
        said = str(invalid.msg)
    return ReceiptError(f"{name} {said}")


def _receipt(found: Mapping[str, Any]) -> Receipt:
    request, output = found["request"], found["output"]
    finish = output["finish"]
    given = request["input"]
    zone = given.get("time_zone")
    sampling = {f.name: request["sampling"][f.name] for f in fields(SamplingParams)}
    return Receipt(
        created=found["created"],
        model=ModelIdentity(**found["model"]),
        engine=EngineIdentity(**found["engine"]),
        request=RequestRecord(
            inputs=_inputs(given),
            rendered_at=_in_zone(given.get("rendered_at"), zone),
            template=given.get("template"),
            prompt_tokens=request["prompt_tokens"],
            sampling=SamplingParams(**sampling),
            stops=request["stop"],
            constraint=request["constraint"],
            max_tokens=request["max_tokens"],
            n_ctx=request["context"],
            min_indent=request["min_indent"],
            ignore_eos=request["ignore_eos"],
        ),
        output=OutputRecord(
            tokens=output["tokens"],
            content=output["content"],
            reasoning=output["reasoning"],
            tool_calls=tuple(ToolCall(**call) for call in output["tool_calls"]),
            finish=Finish(
                reason=Outcome(finish["reason"]),
                stop_string=finish["stop_string"],
                context_full=finish["context_full"],
            ),
        ),
    )


def _inputs(given: Mapping[str, Any]) -> ChatInput | TextInput:
    if given["kind"] == "text":
        return TextInput(prompt=given["prompt"])
    _check_choice(given)
    return ChatInput(
        messages=given["messages"],
        tools=given["tools"],
        tool_choice=given["tool_choice"],
        function_name=given["function_name"],
        parallel_tool_calls=given["parallel_tool_calls"],
        template_kwargs=given["template_kwargs"],
        split_reasoning=given["split_reasoning"],
    )


def _check_choice(given: Mapping[str, Any]) -> None:
    """A forced call needs a tool to call."""
    names = [tool["function"]["name"] for tool in given["tools"]]
    choice, name = given["tool_choice"], given["function_name"]
    if choice == "function" and name not in names:
        raise ReceiptError("request.input.function_name is none of the tools")
    if choice == "required" and not names:
        raise ReceiptError("request.input.tool_choice is required without a tool")


def _in_zone(now: datetime | None, zone: str | None) -> datetime | None:
    """The time with its zone's name, which a template may print."""
    offset = None if now is None else now.utcoffset()
    if now is None or offset is None or not zone:
        return now
    return now.replace(tzinfo=timezone(timedelta(seconds=offset.total_seconds()), zone))
