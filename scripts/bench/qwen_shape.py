"""A model with the shape of Qwen3-0.6B and random weights, to measure speed with.

    python -m scripts.bench.qwen_shape [Q4_K_M] [Q8_0]

How fast a model runs depends on its shape and on how its weights are stored, not on
what they say. The weights are drawn, written as F16 and packed by llama.cpp's own
quantizer, so that each matrix gets the type that it has in a real file of that name.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from gguf import GGUFReader, TokenType

from kinetic.files.paths import cache_dir
from kinetic.model.native.library import library_versions
from scripts.console import Ticker, end_on_signals, say
from scripts.engine_source import fetch_source, llama_cpp_tree
from scripts.gguf_file import Metadata, MetaValue, Tensor, stream_gguf
from scripts.packages import locked

SEED: Final = 1
TYPES: Final = {"Q8_0": 7, "Q4_K_M": 15}
"""Names of file types with llama.cpp's numbers for them."""
_CHUNK_ROWS = 8192
_TABLE = 0.02
_SHARP = np.float32(3.0)
_SILENT = np.float32(0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of a Qwen3 model; by default those of Qwen3-0.6B."""

    n_layer: int = 28
    n_embd: int = 1024
    n_ff: int = 3072
    n_head: int = 16
    n_head_kv: int = 8
    head_dim: int = 128
    n_ctx: int = 40_960


def tensor_shapes(shape: Shape, n_vocab: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Lists every tensor of the file; the output matrix is the embeddings' own."""
    n_q, n_kv = shape.n_head * shape.head_dim, shape.n_head_kv * shape.head_dim
    yield "token_embd.weight", (n_vocab, shape.n_embd)
    yield "output_norm.weight", (shape.n_embd,)
    for layer in range(shape.n_layer):
        for name, size in (
            ("attn_norm", (shape.n_embd,)),
            ("attn_q", (n_q, shape.n_embd)),
            ("attn_k", (n_kv, shape.n_embd)),
            ("attn_v", (n_kv, shape.n_embd)),
            ("attn_q_norm", (shape.head_dim,)),
            ("attn_k_norm", (shape.head_dim,)),
            ("attn_output", (shape.n_embd, n_q)),
            ("ffn_norm", (shape.n_embd,)),
            ("ffn_gate", (shape.n_ff, shape.n_embd)),
            ("ffn_up", (shape.n_ff, shape.n_embd)),
            ("ffn_down", (shape.n_embd, shape.n_ff)),
        ):
            yield f"blk.{layer}.{name}.weight", size


def draw(name: str, size: Sequence[int], silent: Sequence[int]) -> Tensor:
    """Draws a tensor; the same name and size always give the same values.

    Matrices keep the size of what they are given, so that what the layers add soon
    outweighs the token just read, and queries are sharp, so that they add something
    else at each place: else greedy text would be one token over and over, and drafting
    from repeated text would have an easy time.

    Args:
        name: The tensor's name.
        size: Its sizes, outermost first.
        silent: Tokens that shall never be the best.
    """
    stream = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    if len(size) == 1:
        norm = 1 + np.float32(0.1) * stream.standard_normal(size[0], dtype=np.float32)
        return _SHARP * norm if name.endswith("attn_q_norm.weight") else norm
    is_table = name.startswith("token_embd")
    scale = np.float32(_TABLE if is_table else 1.0 / size[-1] ** 0.5)
    drawn = np.empty(size, np.float32)
    for first in range(0, size[0], _CHUNK_ROWS):
        rows = drawn[first : first + _CHUNK_ROWS]
        stream.standard_normal(out=rows, dtype=np.float32)
        rows *= scale
    if is_table:
        drawn[list(silent)] *= _SILENT
    return drawn


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Qwen's tokenizer as the file describes it."""

    metadata: Metadata
    n_tokens: int
    silent: tuple[int, ...]
    """Tokens that would end an answer, or show nothing or half a character."""


@cache
def qwen_vocabulary() -> Vocabulary:
    """Reads the tokenizer that llama.cpp's source package comes with."""
    models = llama_cpp_tree() / "models"
    fields = GGUFReader(models / "ggml-vocab-qwen2.gguf").fields
    kept: dict[str, MetaValue] = {
        key: field.contents()
        for key, field in fields.items()
        if key.startswith("tokenizer.ggml.")
    }
    tokens: Sequence[str] = fields["tokenizer.ggml.tokens"].contents()
    types: Sequence[int] = fields["tokenizer.ggml.token_type"].contents()
    template = models / "templates" / "Qwen-Qwen3-0.6B.jinja"
    end = tokens.index("<|im_end|>")
    kept |= {
        "tokenizer.chat_template": template.read_text("utf-8"),
        "tokenizer.ggml.eos_token_id": end,
        "tokenizer.ggml.add_bos_token": False,
    }
    silent = tuple(
        number
        for number, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind != TokenType.NORMAL or not _is_plain(token)
    )
    return Vocabulary(kept, len(tokens), silent)


def _is_plain(token: str) -> bool:
    """Tells whether a byte-level token is ASCII text: each of its letters a byte."""
    return all(letter.isascii() or letter in "\u0120\u010a" for letter in token)


def metadata(shape: Shape, vocabulary: Vocabulary) -> dict[str, MetaValue]:
    """Writes down every key of the file."""
    keys: dict[str, MetaValue] = {
        "block_count": shape.n_layer,
        "context_length": shape.n_ctx,
        "embedding_length": shape.n_embd,
        "feed_forward_length": shape.n_ff,
        "attention.head_count": shape.n_head,
        "attention.head_count_kv": shape.n_head_kv,
        "attention.key_length": shape.head_dim,
        "attention.value_length": shape.head_dim,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 1e6,
    }
    return {
        "general.architecture": "qwen3",
        "general.name": "random weights in the shape of Qwen3",
        "general.file_type": 1,
        **{f"qwen3.{key}": value for key, value in keys.items()},
        **vocabulary.metadata,
    }


def file_of(kind: str, shape: Shape | None = None, folder: Path | None = None) -> Path:
    """Gives the model in one type, after writing it if no earlier run has.

    Args:
        kind: A name in `TYPES`.
        shape: The sizes; Qwen3-0.6B's if None.
        folder: Where files are kept; below the cache folder if None.
    """
    shape = shape or Shape()
    folder = folder or cache_dir("bench-models")
    named = f"{zlib.crc32(repr(astuple(shape)).encode()):08x}"
    prefix = "qwen3-0.6b-shape" if shape == Shape() else f"qwen3-shape-{named}"
    target = folder / f"{prefix}-seed{SEED}-{kind}.gguf"
    if target.is_file():
        return target
    with locked(folder / ".lock"):
        if not target.is_file():
            _write(kind, shape, target)
    return target


def _write(kind: str, shape: Shape, target: Path) -> None:
    fetch_source()
    vocabulary = qwen_vocabulary()
    plan = list(tensor_shapes(shape, vocabulary.n_tokens))
    with (
        TemporaryDirectory(prefix=".partial-", dir=target.parent) as scratch,
        Ticker(f"writing {target.name}") as ticker,
    ):
        whole, packed = Path(scratch) / "f16.gguf", Path(scratch) / target.name

        def values() -> Iterator[Tensor]:
            for done, (name, size) in enumerate(plan, start=1):
                ticker.step = f"[{done}/{len(plan)}] {name}"
                yield draw(name, size, vocabulary.silent)

        stream_gguf(whole, metadata(shape, vocabulary), plan, values())
        ticker.step = f"packing as {kind}"
        quantize(whole, packed, kind)
        packed.replace(target)
    say(f"wrote {target}")


def quantize(source: Path, target: Path, kind: str) -> None:
    """Packs a file with llama.cpp's quantizer.

    Raises:
        SystemExit: It refused.
    """
    # The wall sets the engine up before its library loads, so it goes first.
    library_versions()
    import llama_cpp.llama_cpp as lib  # noqa: PLC0415, TID251 - the server never packs

    params: Any = lib.llama_model_quantize_default_params()
    params.ftype = TYPES[kind]
    params.nthread = len(os.sched_getaffinity(0))
    names = (str(source).encode(), str(target).encode())
    if lib.llama_model_quantize(*names, ctypes.byref(params)) != 0:
        raise SystemExit(f"llama.cpp could not pack {source.name} as {kind}")


def main() -> None:
    """Writes the types that are asked for, or all, and prints where they are."""
    end_on_signals()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "types", nargs="*", metavar="TYPE", help=f"of {', '.join(TYPES)} [default: all]"
    )
    for kind in parser.parse_args().types or TYPES:
        if kind not in TYPES:
            parser.error(f"{kind} is none of {', '.join(TYPES)}")
        path = file_of(kind)
        say(f"{path.stat().st_size / 1e6:.0f} MB  {path}")


if __name__ == "__main__":
    main()
