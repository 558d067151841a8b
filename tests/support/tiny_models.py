"""Tiny models with random weights, one for each architecture that matters here.

Each function gives the path of a file of a few megabytes, which is made on its first
use and kept outside the checkout. Weights come from a fixed seed. What a model writes
is noise, but it depends on the whole prompt, does not end by chance, and runs through
the same code as the real model's text would.

`python -m tests.support.tiny_models` makes them all and prints their sizes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from gguf import GGMLQuantizationType, LlamaFileType

from scripts import gguf_file, minilm
from scripts.file_cache import cached_file
from scripts.gguf_file import Int32, MetaValue
from tests.support import (
    architecture,
    chat_templates,
    decoders,
    encoders,
    families,
    sources,
    vocabularies,
    weights,
)

_WRITERS = (
    architecture,
    decoders,
    encoders,
    families,
    gguf_file,
    minilm,
    vocabularies,
    weights,
)
_TEMPLATE = "tokenizer.chat_template"
_PLAIN = weights.Weights(seed=1)


class Precision(Enum):
    """How matrices are stored, under llama.cpp's names.

    The quantised ones multiply with rounded inputs, which hides most differences in the
    last bits: of 45 states known to be restored inexactly, logits showed 0 with Q8_0,
    41 with F16 and 42 with F32. Tests of exactness want one of the last two as well.
    """

    F32 = LlamaFileType.ALL_F32
    F16 = LlamaFileType.MOSTLY_F16
    Q8_0 = LlamaFileType.MOSTLY_Q8_0
    Q4_0 = LlamaFileType.MOSTLY_Q4_0
    Q4_K_M = LlamaFileType.MOSTLY_Q4_K_M


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipe:
    name: str
    architecture: architecture.Architecture
    vocabulary: Callable[[], vocabularies.Vocabulary]
    metadata: gguf_file.Metadata = field(default_factory=dict)
    precision: Precision = Precision.F16
    draw: weights.Weights = _PLAIN

    def build(self) -> Path:
        """The file of this recipe, made if it is not there yet."""
        stem = f"tiny-{self.name}-{self.precision.name}"
        settings = (self.architecture.name, self.architecture.keys, self.metadata)
        key = [
            repr((settings, self.draw)).encode(),
            version("gguf").encode(),
            *(Path(str(writer.__file__)).read_bytes() for writer in _WRITERS),
        ]
        return cached_file(sources.made_models(), stem, ".gguf", key, self._write)

    def _write(self, path: Path) -> None:
        if self.precision is Precision.Q4_K_M:
            # gguf cannot write K-quants: llama.cpp makes them from floats.
            from tests.support import native

            whole = replace(self, precision=Precision.F32)
            floats = path.with_suffix(".f32")
            whole._write(floats)
            native.quantize(floats, path, self.precision.value)
            return
        vocabulary = self.vocabulary()
        metadata: gguf_file.Metadata = {
            **self.architecture.metadata(),
            "general.name": f"Tiny {self.name}",
            "general.file_type": int(self.precision.value),
            f"{self.architecture.name}.vocab_size": vocabulary.n_tokens,
            **vocabulary.metadata,
            **self.metadata,
        }
        tensors = self.architecture.tensors(self.draw, vocabulary)
        stored = GGMLQuantizationType[self.precision.name]
        gguf_file.write_gguf(path, metadata, tensors, stored)


_QWEN3 = _Recipe(
    name="qwen3",
    architecture=decoders.QWEN3,
    vocabulary=families.qwen3,
    metadata={_TEMPLATE: chat_templates.QWEN3},
)
_BERT = _Recipe(
    name="bert-encoder",
    architecture=encoders.BERT_MEAN,
    vocabulary=families.bert,
    precision=Precision.F32,
)

SAMPLING_DEFAULTS: gguf_file.Metadata = MappingProxyType(
    {
        "temp": 0.6,
        "top_k": Int32(7),
        "top_p": 0.85,
        "min_p": 0.02,
        "penalty_repeat": 1.15,
        "penalty_last_n": Int32(48),
    }
)
"""The sampling values of `with_sampling_defaults`, none of them llama.cpp's own."""


def qwen3(precision: Precision = Precision.F16) -> Path:
    """Qwen3: dense attention, ChatML, `<think>` and `<tool_call>` as visible tokens."""
    return replace(_QWEN3, precision=precision).build()


def qwen3_draft(precision: Precision = Precision.F16) -> Path:
    """A blurred `qwen3`: the same vocabulary, and often the same next token."""
    blurred = replace(_PLAIN, noise=0.015)
    draft = replace(_QWEN3, name="qwen3-draft", draw=blurred)
    return replace(draft, precision=precision).build()


def qwen3_moe(precision: Precision = Precision.F16) -> Path:
    """Qwen3-MoE: eight experts a layer, two of them for each token."""
    return _Recipe(
        name="qwen3-moe",
        architecture=decoders.QWEN3_MOE,
        vocabulary=families.qwen3,
        metadata={_TEMPLATE: chat_templates.QWEN3},
        precision=precision,
    ).build()


def llama3(precision: Precision = Precision.F16) -> Path:
    """Llama 3: header markers, BOS in front, the template's calls as bare JSON."""
    return _Recipe(
        name="llama3",
        architecture=decoders.LLAMA,
        vocabulary=families.llama3,
        metadata={_TEMPLATE: chat_templates.LLAMA3},
        precision=precision,
    ).build()


def lfm2(precision: Precision = Precision.F16) -> Path:
    """LFM2: short convolutions and attention in turn; calls between control tokens."""
    return _Recipe(
        name="lfm2",
        architecture=decoders.LFM2,
        vocabulary=families.lfm2,
        metadata={_TEMPLATE: chat_templates.LFM2},
        precision=precision,
    ).build()


def qwen35(precision: Precision = Precision.F16) -> Path:
    """Qwen3.5: gated delta net in three layers of four; multi-axis positions."""
    return _Recipe(
        name="qwen35",
        architecture=decoders.QWEN35,
        vocabulary=families.qwen35,
        metadata={_TEMPLATE: chat_templates.QWEN3},
        precision=precision,
    ).build()


def gemma3(precision: Precision = Precision.F16) -> Path:
    """Gemma 3: a window of 64 tokens in every second layer; SentencePiece tokens."""
    return _Recipe(
        name="gemma3",
        architecture=decoders.GEMMA3,
        vocabulary=families.gemma,
        metadata={_TEMPLATE: chat_templates.GEMMA},
        precision=precision,
    ).build()


def qwen2vl(precision: Precision = Precision.F16) -> Path:
    """Qwen2-VL's text part: dense attention, multi-axis positions."""
    return _Recipe(
        name="qwen2vl",
        architecture=decoders.QWEN2VL,
        vocabulary=families.qwen2vl,
        metadata={_TEMPLATE: chat_templates.QWEN3},
        precision=precision,
    ).build()


def smolvlm(precision: Precision = Precision.F16) -> Path:
    """SmolVLM's text part: the Llama architecture, markers around pictures."""
    return _Recipe(
        name="smolvlm",
        architecture=decoders.LLAMA,
        vocabulary=families.smolvlm,
        metadata={_TEMPLATE: chat_templates.SMOLVLM},
        precision=precision,
    ).build()


def bert_encoder(pooling: Literal["mean", "cls"] = "mean") -> Path:
    """A BERT encoder [128] of 256 tokens at most."""
    kind = {"mean": encoders.BERT_MEAN, "cls": encoders.BERT_CLS}[pooling]
    return replace(_BERT, name=f"bert-{pooling}", architecture=kind).build()


def bert_cross_encoder() -> Path:
    """A BERT that scores a query with a document: one unbounded score."""
    ranker = encoders.BERT_RANK
    return replace(_BERT, name="bert-rank", architecture=ranker).build()


def qwen3_reranker(precision: Precision = Precision.F16) -> Path:
    """A Qwen3 reranker: probabilities of "yes" and "no", its prompt in the file."""
    return _Recipe(
        name="qwen3-reranker",
        architecture=decoders.QWEN3_RANK,
        vocabulary=families.qwen3,
        metadata={
            _TEMPLATE: chat_templates.QWEN3,
            "tokenizer.chat_templates": ("rerank",),
            f"{_TEMPLATE}.rerank": chat_templates.RERANK,
        },
        precision=precision,
    ).build()


def with_sampling_defaults(
    defaults: Mapping[str, MetaValue] = SAMPLING_DEFAULTS,
) -> Path:
    """`qwen3` with sampling defaults in the file.

    Args:
        defaults: Values by their names after `general.sampling.`. Floats are written
            as FLOAT32, `Int32` values as INT32.
    """
    keys = {f"general.sampling.{name}": value for name, value in defaults.items()}
    metadata = {**_QWEN3.metadata, **keys}
    return replace(_QWEN3, name="qwen3-sampling", metadata=metadata).build()


def with_template(source: str | None, name: str | None = None) -> Path:
    """`qwen3` with another chat template.

    Args:
        source: The template's text; None for a file without any.
        name: Add it beside the file's own template under this name, as in
            `tokenizer.chat_template.tool_use`, instead of in its place.
    """
    metadata = dict(_QWEN3.metadata)
    if source is None:
        del metadata[_TEMPLATE]
    elif name is None:
        metadata[_TEMPLATE] = source
    else:
        metadata["tokenizer.chat_templates"] = (name,)
        metadata[f"{_TEMPLATE}.{name}"] = source
    return replace(_QWEN3, name="qwen3-template", metadata=metadata).build()


def with_pre_tokenizer(name: str) -> Path:
    """`qwen3` whose texts are split as the engine's pre-tokenizer `name` does."""
    metadata = {**_QWEN3.metadata, "tokenizer.ggml.pre": name}
    return replace(_QWEN3, name="qwen3-pre", metadata=metadata).build()


GENERATORS: Mapping[str, Callable[[], Path]] = MappingProxyType(
    {
        function.__name__: function
        for function in (
            qwen3,
            qwen3_draft,
            qwen3_moe,
            llama3,
            lfm2,
            qwen35,
            gemma3,
            qwen2vl,
            smolvlm,
        )
    }
)
"""Every text generator, by the name of its function."""

ENCODERS: Mapping[str, Callable[[], Path]] = MappingProxyType(
    {
        "bert_encoder": bert_encoder,
        "bert_encoder_cls": lambda: bert_encoder("cls"),
        "bert_cross_encoder": bert_cross_encoder,
        "qwen3_reranker": qwen3_reranker,
    }
)
"""Every model that gives vectors or scores."""


def main() -> None:
    """Makes every file and prints its size and path."""
    for name, function in {**GENERATORS, **ENCODERS}.items():
        path = function()
        print(f"{name:20} {path.stat().st_size / 1e6:6.2f} MB  {path}")
    for precision in Precision:
        path = qwen3(precision)
        print(f"qwen3 {precision.name:14} {path.stat().st_size / 1e6:6.2f} MB  {path}")


if __name__ == "__main__":
    main()
