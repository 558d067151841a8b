"""What Ollama's API tells of the one served model. Pure."""

from __future__ import annotations

import math
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinetic.files.gguf import FILE_TYPES
from kinetic.types import SamplingParams
from kinetic.web.ollama.names import display_name

if TYPE_CHECKING:
    from kinetic.files.gguf import Header
    from kinetic.types import ModelInfo

JsonObject = dict[str, Any]

API_VERSION = "0.13.0"
"""The release of Ollama whose API this is. Clients read its parts as numbers and ask
for a least one, so Kinetic's own version would not do."""

UNKNOWN_DIGEST = "0" * 64
"""Shown until the file has been read for its digest; clients cut its first twelve
characters off, so it must not be shorter."""

FOREVER = datetime(2318, 1, 1, tzinfo=UTC)
"""When the model is unloaded: never. Ollama's clients show what lies more than twenty
years ahead as "Forever"."""

MAX_BRIEF_ITEMS = 5
"""Longer lists of the metadata are shown empty unless `verbose` asks for them."""

_UNSHOWN = frozenset({"general.name", "tokenizer.chat_template"})
_THOUSAND, _MILLION, _BILLION = 10**3, 10**6, 10**9


def capabilities(info: ModelInfo) -> list[str]:
    """What the model can do, in Ollama's words.

    Tools are read from any text model: those whose template knows none are told of them
    in the system message. Text is not inserted (`suffix` is refused).
    """
    if info.kind == "embedding":
        return ["embedding"]
    if info.kind != "text":
        return []
    found = ["completion", "tools"]
    if info.knows_thinking:
        found.append("thinking")
    if info.has_vision:
        found.append("vision")
    return found


def details(info: ModelInfo) -> JsonObject:
    """Format, family and size."""
    return {
        "parent_model": "",
        "format": "gguf",
        "family": info.architecture,
        "families": [info.architecture],
        "parameter_size": parameter_size(info.n_params),
        "quantization_level": quantization(info),
    }


def quantization(info: ModelInfo) -> str:
    """The file's type as its name would have it, such as "Q4_K_M"."""
    number = info.metadata.get("general.file_type", "")
    return FILE_TYPES.get(int(number), "unknown") if number.isdecimal() else "unknown"


def parameter_size(count: int) -> str:
    """A number of parameters as Ollama writes it: 7B, 7.6B, 268.10M, 12K."""
    for unit, letter, n_digits in (
        (_BILLION, "B", 1),
        (_MILLION, "M", 2),
        (_THOUSAND, "K", 0),
    ):
        if count >= unit:
            shown_digits = 0 if count % unit == 0 else n_digits
            return f"{count / unit:.{shown_digits}f}{letter}"
    return str(count)


def listed(info: ModelInfo, digest: str) -> JsonObject:
    """The model's entry in /api/tags."""
    name = display_name(info.id)
    return {
        "name": name,
        "model": name,
        "modified_at": _local_time(info.created),
        "size": info.size_bytes,
        "digest": digest,
        "details": {
            **details(info),
            "context_length": info.n_ctx,
            "embedding_length": info.n_embd,
        },
        "capabilities": capabilities(info),
    }


def loaded(info: ModelInfo, digest: str, n_gpu_layers: int) -> JsonObject:
    """The model's entry in /api/ps."""
    name = display_name(info.id)
    n_layers = info.metadata.get(f"{info.architecture}.block_count", "")
    # The output layer counts as one more, as it does for -ngl.
    most = int(n_layers) + 1 if n_layers.isdecimal() else max(n_gpu_layers, 1)
    return {
        "name": name,
        "model": name,
        "size": info.size_bytes,
        "digest": digest,
        "details": details(info),
        "expires_at": FOREVER.isoformat(),
        "size_vram": info.size_bytes * min(n_gpu_layers, most) // most,
        "context_length": info.n_ctx,
    }


def shown(
    info: ModelInfo, header: Header, projector: Header | None = None
) -> JsonObject:
    """The answer of /api/show; how long lists may be is up to who read the headers."""
    found: JsonObject = {
        "modelfile": _modelfile(info),
        "parameters": "\n".join(
            f"{key:30} {value}" for key, value in _parameters(info)
        ),
        "template": info.chat_template,
        "details": details(info),
        "model_info": model_info(info, header),
        "tensors": [
            {"name": t.name, "type": t.type, "shape": list(t.shape)}
            for t in header.tensors
        ],
        "capabilities": capabilities(info),
        "modified_at": _local_time(info.created),
    }
    if license_name := header.values.get("general.license"):
        found["license"] = str(license_name)
    if projector is not None:
        found["projector_info"] = {k: _finite(v) for k, v in projector.values.items()}
    return found


def model_info(info: ModelInfo, header: Header) -> JsonObject:
    """The file's metadata with its types, and the number of parameters."""
    found: JsonObject = {"general.parameter_count": info.n_params}
    for key, value in header.values.items():
        if key not in _UNSHOWN:
            found[key] = _finite(value)
    return found


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _parameters(info: ModelInfo) -> list[tuple[str, object]]:
    """The context's length, and what the file recommends for sampling."""
    usual = SamplingParams()
    found: list[tuple[str, object]] = [("num_ctx", info.n_ctx)]
    for field in fields(SamplingParams):
        value = getattr(info.sampling, field.name)
        if isinstance(value, int | float) and value != getattr(usual, field.name):
            found.append((field.name, value))
    return found


def _modelfile(info: ModelInfo) -> str:
    lines = [
        "# Written by Kinetic from the model file.",
        f"FROM {Path(info.path).name}",
        f'TEMPLATE """{info.chat_template}"""',
        *(f"PARAMETER {key} {value}" for key, value in _parameters(info)),
    ]
    return "\n".join(lines) + "\n"


def _local_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat()
