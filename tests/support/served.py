"""A served model's facts, for tests of what reads requests and writes answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kinetic.types import ModelInfo, SamplingParams
from kinetic.web.fields.sampling import ModelFacts

_INFO = ModelInfo(
    id="tiny",
    path="/models/tiny-Q4_K_M.gguf",
    kind="text",
    architecture="llama",
    description="llama 1B Q4_K - Medium",
    ftype="Q4_K - Medium",
    n_params=1_234_000_000,
    size_bytes=800_000_000,
    n_vocab=1000,
    n_embd=2048,
    n_ctx_train=8192,
    n_ctx=4096,
    n_slots=2,
    vocab_type=2,
    created=1_700_000_000,
    metadata={"general.file_type": "15", "llama.block_count": "16"},
    sampling=SamplingParams(),
    chat_template="{{ messages }}",
    template_caps={"supports_reasoning_effort": False},
    knows_thinking=False,
    bos_token="<s>",
    eos_token="</s>",
    plan="uniform",
    plan_reason="tried",
)


def model_info(**changes: Any) -> ModelInfo:
    """A text model of a billion parameters, with changes."""
    return replace(_INFO, **changes)


def model_facts(**changes: Any) -> ModelFacts:
    """What reading fields needs of it; a text's tokens are its characters' numbers."""
    facts = ModelFacts(
        n_tokens=_INFO.n_vocab,
        tokenize=lambda text: [ord(c) % _INFO.n_vocab for c in text],
        detokenize=lambda ids: bytes(ids),
        piece=lambda token: bytes([token]),
        ends=(2,),
        sampling=_INFO.sampling,
        n_slots=_INFO.n_slots,
    )
    return replace(facts, **changes)
