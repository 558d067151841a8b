"""The receipt of one answer: what it holds, and how that is written as JSON.

docs/receipts.md describes the format field by field. Two rules shape the JSON:

* Whatever the model's template or a grammar prints or walks in the order in which the
  client wrote it (tools, template variables, JSON Schemas, messages with more than
  plain text in them) stands there as JSON *text*: programs that pass a receipt on may
  sort an object's keys and respell its numbers, and the prompt would no longer be the
  same.
* Digest and signature are made over RFC 8785's spelling of all the rest, so that they
  outlast such a journey.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kinetic.receipts.canonical import canonical, sha256_hex
from kinetic.receipts.signing import ALGORITHM
from kinetic.types import ChatInput, Finish, SamplingParams, TextInput, ToolCall

if TYPE_CHECKING:
    from kinetic.receipts.signing import PublicKey, Signer
    from kinetic.types import ConstraintSpec

FORMAT: Final = "kinetic-receipt"
VERSION: Final = 1
"""Grows when a field changes its meaning, is added or goes."""

BANNED: Final = "-inf"
"""How a bias that bans its token is written: JSON has no infinity."""

SEALS: Final = ("digest", "signature")
"""The fields that are made over all the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """Which weights made the answer."""

    name: str
    """The file's name, for people; nothing is looked up by it."""
    sha256: str
    """Of the file, or of a split model's parts one behind the other; 64 hex digits."""
    size_bytes: int
    architecture: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineIdentity:
    """Which programs made the answer, and how: what its last bits may depend on."""

    kinetic: str
    llama_cpp_python: str
    llama_cpp: str
    build: str
    """SHA-256 over the engine's native libraries, 64 hex digits."""
    features: str
    """What the engine uses of the processor, as llama.cpp words it."""
    processor: str
    settings: str
    """What else chooses the engine's code paths."""
    plan: str
    gpu_layers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """The request as the server understood it, defaults and seed filled in."""

    inputs: ChatInput | TextInput
    rendered_at: datetime | None
    """What the chat template took for the present, in the server's time zone."""
    template: str | None
    """The template that the server was given in place of the model's own."""
    prompt_tokens: tuple[int, ...]
    sampling: SamplingParams
    stops: tuple[str, ...]
    constraint: ConstraintSpec | None
    max_tokens: int | None
    n_ctx: int
    """Positions of one slot: prompt and answer together are no longer."""
    min_indent: int
    ignore_eos: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRecord:
    """The answer."""

    tokens: tuple[int, ...]
    """Everything that was drawn, the end-of-answer token included."""
    content: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    finish: Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One answer with everything that made it."""

    created: datetime
    """UTC, whole seconds."""
    model: ModelIdentity
    engine: EngineIdentity
    request: RequestRecord
    output: OutputRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A receipt as it was read from JSON, its seals not yet checked."""

    receipt: Receipt
    message: bytes
    """What the seals are made over: canonical JSON of everything else."""
    digest: str
    signer: PublicKey | None
    signature: str | None


def seal(receipt: Receipt, signer: Signer | None) -> dict[str, Any]:
    """The receipt as JSON, with its digest and, given a key, its signature.

    Raises ReceiptError for what cannot be spelled canonically.
    """
    body = to_json(receipt)
    body["signer"] = None if signer is None else signer_json(signer.public_key)
    message = canonical(body)
    return {
        **body,
        "digest": sha256_hex(message),
        "signature": None if signer is None else signer.sign(message),
    }


def signer_json(key: PublicKey) -> dict[str, Any]:
    """A public key as receipts and GET /v1/receipts/key show it."""
    return {
        "algorithm": ALGORITHM,
        "public_key": key.hex,
        "fingerprint": key.fingerprint,
    }


def to_json(receipt: Receipt) -> dict[str, Any]:
    """Everything but the seals and the signer."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "created": receipt.created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "model": _flat(receipt.model),
        "engine": _flat(receipt.engine),
        "request": _request(receipt.request),
        "output": _output(receipt.output),
    }


def _flat(value: ModelIdentity | EngineIdentity) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _request(request: RequestRecord) -> dict[str, Any]:
    return {
        "input": _input(request),
        "prompt_tokens": list(request.prompt_tokens),
        "sampling": sampling_json(request.sampling),
        "stop": list(request.stops),
        "constraint": _constraint(request.constraint),
        "max_tokens": request.max_tokens,
        "context": request.n_ctx,
        "min_indent": request.min_indent,
        "ignore_eos": request.ignore_eos,
    }


def _input(request: RequestRecord) -> dict[str, Any]:
    inputs = request.inputs
    if isinstance(inputs, TextInput):
        prompt = inputs.prompt
        return {
            "kind": "text",
            "prompt": prompt if isinstance(prompt, str) else list(prompt),
        }
    now = request.rendered_at
    return {
        "kind": "chat",
        "messages": [message_json(message) for message in inputs.messages],
        "tools": [json_text(tool) for tool in inputs.tools],
        "tool_choice": inputs.tool_choice,
        "function_name": inputs.function_name,
        "parallel_tool_calls": inputs.parallel_tool_calls,
        "template_kwargs": json_text(inputs.template_kwargs),
        "split_reasoning": inputs.split_reasoning,
        "rendered_at": None if now is None else now.isoformat(timespec="microseconds"),
        "time_zone": None if now is None else now.tzname(),
        "template": request.template,
    }


def message_json(message: Mapping[str, Any]) -> dict[str, Any] | str:
    """A message of texts as the object it is, any other as JSON text."""
    if is_plain(message):
        return dict(message)
    return json_text(message)


def is_plain(message: Mapping[str, Any]) -> bool:
    """Whether a message reads the same however its keys are ordered."""
    return all(value is None or isinstance(value, str) for value in message.values())


def json_text(value: Any) -> str:
    """JSON text that keeps the order of keys and how numbers are written."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_dict
    )


def _dict(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    message = f"{type(value).__name__} is no JSON value"
    raise TypeError(message)


def sampling_json(sampling: SamplingParams) -> dict[str, Any]:
    """Every value of the sampler chain under the name that SamplingParams has for it.

    A number that may have a fraction is a float, also where a client wrote 1 for 1.0.
    """
    found: dict[str, Any] = {}
    for field in fields(SamplingParams):
        value = getattr(sampling, field.name)
        if field.type == "float":
            value = float(value)
        elif isinstance(value, tuple):
            value = list(value)
        found[field.name] = value
    found["logit_bias"] = [
        [token, BANNED if bias == -math.inf else float(bias)]
        for token, bias in sampling.logit_bias
    ]
    return found


def _constraint(spec: ConstraintSpec | None) -> dict[str, Any] | None:
    if spec is None:
        return None
    return {"kind": spec.kind, "source": spec.source}


def _output(output: OutputRecord) -> dict[str, Any]:
    finish = output.finish
    return {
        "tokens": list(output.tokens),
        "content": output.content,
        "reasoning": output.reasoning,
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in output.tool_calls
        ],
        "finish": {
            "reason": str(finish.reason),
            "stop_string": finish.stop_string,
            "context_full": finish.context_full,
        },
    }
