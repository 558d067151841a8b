"""A loaded model with its context: what the Decoder drives."""

from __future__ import annotations

import logging
import os
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kinetic.config import MIB
from kinetic.errors import InternalError, ModelError
from kinetic.files.gguf import read_header
from kinetic.files.store import shards
from kinetic.model.engine import pooling
from kinetic.model.memory import free_memory
from kinetic.model.native.context import Context, ContextOptions
from kinetic.model.native.model import Model
from kinetic.model.vocab import Vocab

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from kinetic.model.rows import Rows

_log = logging.getLogger(__name__)

_MAGIC = b"GGUF"
_LEARNED_POSITIONS = frozenset({"gpt2", "mpt", "starcoder"})
"""Text models with a table of positions in place of a rule for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How a model is to be loaded; zeros mean "choose"."""

    n_ctx: int = 0
    """Context of one sequence in tokens; 0 is the model's own."""
    n_parallel: int = 0
    n_batch: int = 512
    n_threads: int = 0
    n_gpu_layers: int = 0
    pooling: str | None = None
    flash_attention: bool = False
    """Leaves the row-invariant path; only to show that the probe notices."""
    extra_buffers: bool = False
    """Repacked weights; leaves the row-invariant path too."""


class LlamaEngine:
    """llama.cpp's model and context.

    Thread: one at a time for everything but `model` and `vocab`, which any thread
    may read. Raises ModelError when the file cannot be served.
    """

    def __init__(
        self,
        path: Path,
        options: EngineOptions,
        *,
        progress: Callable[[float], None] | None = None,
        free_bytes: int | None = None,
    ) -> None:
        parts = shards(path)
        for part in parts:
            check_file(part)
        free = free_memory() if free_bytes is None else free_bytes
        size = sum(part.stat().st_size for part in parts)
        if size > free:
            message = (
                f"{path.name} needs {size // MIB} MiB and {free // MIB} MiB of memory"
                " are free"
            )
            raise ModelError(message)
        self.path = path
        header = read_header(path, most_items=0)
        self.serving = pooling.serving(header, options.pooling)
        self.model = Model(
            path,
            n_gpu_layers=options.n_gpu_layers,
            # An input that is always run alone may use every fast kernel.
            extra_buffers=options.extra_buffers or self.kind != "text",
            progress=progress,
        )
        try:
            # The engine hands texts out up to their first NUL.
            texts = {k: v for k, v in header.values.items() if isinstance(v, str)}
            whole = {key: text for key, text in texts.items() if "\0" in text}
            self.metadata = {**self.model.metadata(), **whole}
            self._open(options, free)
        except BaseException:
            self.model.close()
            raise

    def _open(self, options: EngineOptions, free: int) -> None:
        self.architecture = self.metadata.get("general.architecture", "")
        self.vocab = Vocab(self.model)
        n_ctx = self._choose_context(options, free)
        per_sequence = sequence_bytes(self.metadata, self.architecture, n_ctx)
        n_parallel = options.n_parallel or default_parallel(per_sequence, free)
        n_batch = options.n_batch
        if self.kind != "text":
            n_parallel = 1
            splits = self.serving.splits
            n_batch = min(n_batch, pooling.SPLIT_ROWS) if splits else n_ctx
        elif n_parallel * per_sequence > free:
            message = (
                f"{n_parallel} slots of {n_ctx} tokens need"
                f" {n_parallel * per_sequence // MIB} MiB and {free // MIB} MiB of"
                " memory are free: choose fewer with --ctx-size or --parallel"
            )
            raise ModelError(message)
        self.options = replace(
            options,
            n_ctx=n_ctx,
            n_parallel=n_parallel,
            n_batch=n_batch,
            n_threads=options.n_threads or default_threads(),
        )
        self.context = Context(
            self.model,
            ContextOptions(
                n_ctx=n_ctx,
                n_sequences=n_parallel,
                n_batch=n_batch,
                n_threads=self.options.n_threads,
                flash_attention=options.flash_attention or self.kind != "text",
                pooling=pooling.POOLINGS[self.serving.pooling],
                embeddings=self.kind != "text",
            ),
        )
        self.n_ctx = n_ctx if self.kind != "text" else self.context.n_ctx
        self.n_sequences = n_parallel
        self.n_batch = self.context.n_batch
        # Recurrent memory holds only its last state: it cannot step back.
        self.can_cut = not (self.model.is_recurrent or self.model.is_hybrid)

    def _choose_context(self, options: EngineOptions, free: int) -> int:
        trained = self.model.n_ctx_train or 2048
        n_ctx = options.n_ctx or trained
        if self.kind == "text":
            if n_ctx > trained and self.architecture in _LEARNED_POSITIONS:
                # Behind the trained length there is no position to read: an abort.
                message = (
                    f"{self.path.name} knows {trained} positions, so its context"
                    f" cannot be {n_ctx} tokens (--ctx-size)"
                )
                raise ModelError(message)
            return n_ctx
        # Behind the trained length there may be no position to read: an abort.
        if self.serving.splits:
            per_token = sequence_bytes(self.metadata, self.architecture, 1)
            most = min(trained, max(free // 2 // per_token, 1))
        else:
            most = pooling.longest_input(
                n_ctx=trained,
                n_vocab=self.model.n_vocab,
                n_embd=self.model.n_embd,
                free_bytes=free,
            )
        if n_ctx > most:
            why = "the model was trained for" if most == trained else "memory allows"
            _log.warning("inputs of at most %d tokens are taken: %s no more", most, why)
        return min(n_ctx, most)

    @property
    def kind(self) -> str:
        """What the model serves: "text", "embedding" or "rerank"."""
        return self.serving.kind

    @property
    def n_vector(self) -> int:
        """Length of a vector; for scores, how many the head gives."""
        is_rank = self.serving.pooling == "rank"
        return self.model.n_cls_out if is_rank else self.model.n_embd_out

    def parts(self, n_tokens: int) -> tuple[tuple[int, int], ...]:
        """The passes of an input as (first, end)."""
        return pooling.parts(n_tokens, n_batch=self.n_batch, splits=self.serving.splits)

    def decode(
        self, rows: Sequence[Rows], *, copy: bool = True
    ) -> list[npt.NDArray[np.float32]]:
        """Run one pass; one [n_logits, n_vocab] float32, read-only, per part.

        Without `copy` they are good until the next pass.
        """
        return self.context.decode(rows, copy=copy)

    def embed(self, rows: Rows, *, is_last: bool) -> npt.NDArray[np.float32] | None:
        """Run one of an input's `parts`; its vector after the last one.

        Returns [n_vector] float32, read-only, or one for each token where nothing is
        pooled: [n_tokens, n_vector].
        """
        if rows.first == 0:
            self.context.clear(rows.sequence)
        if not is_last:
            self.context.fill(rows)
            return None
        is_pooled = self.serving.pooling != "none"
        return self.context.embed(rows, is_pooled=is_pooled, n_out=self.n_vector)

    def cut(self, sequence: int, n_keep: int) -> None:
        """Drop a sequence's memory from position `n_keep` on.

        Raises InternalError when the memory cannot step back (see `can_cut`).
        """
        if n_keep == 0:
            self.context.clear(sequence)
        elif not self.context.cut(sequence, n_keep):
            message = f"sequence {sequence} cannot be cut to {n_keep} tokens"
            raise InternalError(message)

    def snapshot(self, sequence: int) -> bytes:
        """A copy of a sequence's memory."""
        return self.context.snapshot(sequence)

    def restore(self, sequence: int, state: bytes) -> bool:
        """Replace a sequence's memory; False, and empty, when it does not fit."""
        return self.context.restore(sequence, state)

    def close_context(self) -> None:
        """Free the context, in the thread that used it; the model stays."""
        self.context.close()

    def close(self) -> None:
        """Free the context, then the model."""
        self.context.close()
        self.model.close()


def check_file(path: Path) -> None:
    """Raise ModelError unless `path` is a readable GGUF file that is whole.

    The engine would report the same in many lines, or abort on some of it.
    """
    try:
        if not path.is_file():
            message = f"{path} is not a file"
            raise ModelError(message)
        with path.open("rb") as file:
            head = file.read(24)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise ModelError(message) from error
    if head[:4] != _MAGIC:
        message = f"{path} is not a GGUF file"
        raise ModelError(message)
    if len(head) < 24:  # noqa: PLR2004 - magic, version, two counts
        message = f"{path} is cut short: {len(head)} bytes"
        raise ModelError(message)
    version = struct.unpack_from("<I", head, 4)[0]
    if version not in {2, 3}:
        message = f"{path} is GGUF version {version}; 2 and 3 can be read"
        raise ModelError(message)


def default_threads() -> int:
    """As many threads as the process may use processors."""
    return max(len(os.sched_getaffinity(0)), 1)


def sequence_bytes(metadata: dict[str, str], architecture: str, n_ctx: int) -> int:
    """Memory of one full-context sequence: K and V of every layer in float16."""

    def number(key: str, otherwise: int) -> int:
        text = metadata.get(f"{architecture}.{key}", "")
        return int(text) if text.isdecimal() else otherwise

    n_head = number("attention.head_count", 1)
    n_head_kv = number("attention.head_count_kv", n_head)
    width = number("embedding_length", 1) // max(n_head, 1)
    k_width = number("attention.key_length", width)
    v_width = number("attention.value_length", width)
    layers = number("block_count", 1)
    return 2 * layers * n_ctx * n_head_kv * (k_width + v_width)


def default_parallel(bytes_per_sequence: int, free_bytes: int) -> int:
    """As many full-context sequences as half the free memory holds, 1 to 4."""
    return max(1, min(4, free_bytes // 2 // max(bytes_per_sequence, 1)))
