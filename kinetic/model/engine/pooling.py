"""What a model file is served for, and how its inputs are cut into passes. Pure.

A text becomes a vector by *pooling*: the mean of its tokens' vectors, that of the first
or of the last one, or scores from a classification head ("rank"). One text is run at a
time, always in the same passes: its bits then depend on nothing but itself, whichever
kernels the engine picks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kinetic.errors import ModelError

if TYPE_CHECKING:
    from kinetic.files.gguf import Header

POOLINGS: Final = {"none": 0, "mean": 1, "cls": 2, "last": 3, "rank": 4}
"""By name, `enum llama_pooling_type`."""

_UNSPECIFIED: Final = -1

ENCODERS: Final = frozenset(
    {
        "bert",
        "eurobert",
        "gemma-embedding",
        "jina-bert-v2",
        "jina-bert-v3",
        "modern-bert",
        "neo-bert",
        "nomic-bert",
        "nomic-bert-moe",
        "t5encoder",
    }
)
"""Architectures that read both ways and keep no memory: they write no text."""

_HEADS: Final = frozenset({"cls.weight", "cls.output.weight"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What a file is served for."""

    kind: str
    """"text", "embedding" or "rerank"."""
    pooling: str
    """A name in POOLINGS."""
    splits: bool = False
    """An input may be run in several passes: the vector is the last token's alone."""
    gives_probabilities: bool = False
    """The engine puts a softmax after the classification head."""


TEXT: Final = Serving(kind="text", pooling="none")


def serving(header: Header, asked: str | None) -> Serving:
    """Decide by a file's metadata, or by the pooling asked for in its place.

    Raises ModelError for a pooling that llama.cpp does not know, which would end the
    process, and for scores without a head that gives them.
    """
    values = header.values
    architecture = str(values.get("general.architecture", ""))
    pooling = _in_file(values, architecture) if asked is None else asked
    if pooling == "rank":
        _check_head(header, asked)
        return Serving(
            kind="rerank",
            pooling=pooling,
            splits=_reads_forward(values, architecture)
            and values.get(f"{architecture}.classifier.pooling_type") is None,
            # Source: llama.cpp's graph does it for these alone.
            gives_probabilities=architecture in {"qwen3", "qwen3vl"},
        )
    if pooling == "none" and architecture not in ENCODERS:
        return TEXT
    return Serving(
        kind="embedding",
        pooling=pooling,
        splits=pooling == "last" and _reads_forward(values, architecture),
    )


def _in_file(values: Mapping[str, Any], architecture: str) -> str:
    number = values.get(f"{architecture}.pooling_type", _UNSPECIFIED)
    if number == _UNSPECIFIED:
        return "none"
    for name, known in POOLINGS.items():
        if known == number:
            return name
    message = f"the file asks for pooling {number}; known are 0 to 4: see --pooling"
    raise ModelError(message)


def _check_head(header: Header, asked: str | None) -> None:
    names = {tensor.name for tensor in header.tensors}
    # Of a file in several parts only the first one's tensors are known here.
    if names & _HEADS or int(header.values.get("split.count", 1)) > 1:
        return
    said = "the file asks" if asked is None else "--pooling rank asks"
    raise ModelError(f"{said} for scores, and the file has no head that gives them")


def _reads_forward(values: Mapping[str, Any], architecture: str) -> bool:
    is_causal = bool(values.get(f"{architecture}.attention.causal", True))
    return is_causal and architecture not in ENCODERS


def parts(n_tokens: int, *, n_batch: int, splits: bool) -> tuple[tuple[int, int], ...]:
    """The passes of an input as (first, end), in order; the last one gives the vector.

    They depend on the input's length alone. Short ones let a cancel be heard.
    """
    if not splits:
        return ((0, n_tokens),)
    return tuple(
        (at, min(at + n_batch, n_tokens)) for at in range(0, n_tokens, n_batch)
    )


SPLIT_ROWS: Final = 128
"""Tokens of a pass where an input may be split. Every one of them goes through the
output head: longer passes need hundreds of megabytes where the vocabulary is large."""


def longest_input(*, n_ctx: int, n_vocab: int, n_embd: int, free_bytes: int) -> int:
    """Most tokens of an input that is run whole, as half the free memory holds them.

    The engine keeps a row of logits and a vector for every token of a pass, for models
    without an output head too (where they stay empty), and a model with one needs the
    logits twice.
    """
    bytes_per_token = 4 * (2 * n_vocab + 2 * n_embd)
    return min(n_ctx, max(free_bytes // 2 // bytes_per_token, 1))
