"""The list of models, in the one shape that all clients of /v1/models read. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinetic.types import ModelInfo

Json = dict[str, Any]


def models_body(info: ModelInfo) -> Json:
    """The body of GET /v1/models.

    `data` is OpenAI's list with what llama-server adds to it, `models` the list that
    llama-server has beside it for clients that speak Ollama's shape.
    """
    return {
        "object": "list",
        "data": [model_entry(info)],
        "models": [_named_entry(info)],
    }


def model_entry(info: ModelInfo) -> Json:
    """The served model as one entry of `data`."""
    return {
        "id": info.id,
        "object": "model",
        "created": info.created,
        "owned_by": "kinetic",
        "context_length": info.n_ctx,
        "aliases": [info.id],
        "tags": [],
        "meta": {
            "vocab_type": info.vocab_type,
            "n_vocab": info.n_vocab,
            "n_ctx": info.n_ctx,
            "n_ctx_train": info.n_ctx_train,
            "n_embd": info.n_embd,
            "n_params": info.n_params,
            "size": info.size_bytes,
            "ftype": info.ftype,
        },
    }


_CAPABILITIES = {
    "text": ["completion"],
    "embedding": ["embedding"],
    "rerank": ["rerank"],
}


def _named_entry(info: ModelInfo) -> Json:
    more = ["multimodal"] if info.has_vision else []
    return {
        "name": info.id,
        "model": info.id,
        "modified_at": "",
        "size": "",
        "digest": "",
        "type": "model",
        "description": "",
        "tags": [""],
        "capabilities": [*_CAPABILITIES[info.kind], *more],
        "parameters": "",
        "details": {
            "parent_model": "",
            "format": "gguf",
            "family": "",
            "families": [""],
            "parameter_size": "",
            "quantization_level": "",
        },
    }
