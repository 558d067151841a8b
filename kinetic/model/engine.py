"""A loaded model with its context: what the Decoder drives."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kinetic.errors import InternalError, ModelError
from kinetic.model import ffi
from kinetic.model.vocab import Vocab

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

MIB: Final = 1 << 20
_MAGIC = b"GGUF"
_POOLING = {"none": 0, "mean": 1, "cls": 2, "last": 3, "rank": 4}


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
        check_file(path)
        free = free_memory() if free_bytes is None else free_bytes
        size = path.stat().st_size
        if size > free:
            message = (
                f"{path.name} needs {size // MIB} MiB and {free // MIB} MiB of memory"
                " are free"
            )
            raise ModelError(message)
        self.path = path
        self.model = ffi.Model(
            path,
            n_gpu_layers=options.n_gpu_layers,
            extra_buffers=options.extra_buffers,
            progress=progress,
        )
        try:
            self._open(options, free)
        except BaseException:
            self.model.close()
            raise

    def _open(self, options: EngineOptions, free: int) -> None:
        self.metadata = self.model.metadata()
        self.architecture = self.metadata.get("general.architecture", "")
        self.vocab = Vocab(self.model)
        self.pooling = self._pooling(options.pooling)
        self.is_encoder = self.model.has_encoder and not self.model.has_decoder
        n_ctx = options.n_ctx or self.model.n_ctx_train or 2048
        per_sequence = sequence_bytes(self.metadata, self.architecture, n_ctx)
        n_parallel = options.n_parallel or default_parallel(per_sequence, free)
        if self.kind != "text":
            n_parallel = 1
        threads = options.n_threads or default_threads()
        n_batch = options.n_batch
        if self.kind != "text":
            n_batch = max(n_ctx, 512)
        self.options = replace(
            options,
            n_ctx=n_ctx,
            n_parallel=n_parallel,
            n_batch=n_batch,
            n_threads=threads,
        )
        self.context = ffi.Context(
            self.model,
            ffi.ContextOptions(
                n_ctx=n_ctx,
                n_sequences=n_parallel,
                n_batch=n_batch,
                n_threads=threads,
                # Encoders run one text a pass, which is exact by construction.
                flash_attention=options.flash_attention or self.is_encoder,
                pooling=-1 if options.pooling is None else _POOLING[options.pooling],
                embeddings=self.kind != "text",
            ),
        )
        self.n_ctx = self.context.n_ctx
        self.n_sequences = n_parallel
        self.n_batch = self.context.n_batch
        # Recurrent memory holds only its last state: it cannot step back.
        self.can_cut = not (self.model.is_recurrent or self.model.is_hybrid)

    def _pooling(self, asked: str | None) -> str:
        if asked is not None:
            return asked
        key = f"{self.architecture}.pooling_type"
        number = self.metadata.get(key, "0")
        names = {str(value): name for name, value in _POOLING.items()}
        return names.get(number, "none")

    @property
    def kind(self) -> str:
        """What the model serves: "text", "embedding" or "rerank"."""
        if self.pooling == "rank":
            return "rerank"
        if self.pooling != "none" or (
            self.model.has_encoder and not self.model.has_decoder
        ):
            return "embedding"
        if self.architecture in _ENCODERS:
            return "embedding"
        return "text"

    def decode(self, rows: Sequence[ffi.Rows]) -> list[npt.NDArray[np.float32]]:
        """Run one pass; one [n_logits, n_vocab] float32, read-only, per part."""
        return self.context.decode(rows)

    def embed(self, rows: ffi.Rows) -> npt.NDArray[np.float32]:
        """Run one whole input; its pooled vector [n], or [n_tokens, n] unpooled."""
        pooled = self.pooling != "none"
        n_out = self.model.n_embd_out
        if self.pooling == "rank":
            n_out = self.model.n_cls_out
        return self.context.embed(rows, pooled=pooled, n_out=n_out)

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

    def close(self) -> None:
        """Free the context, then the model."""
        self.context.close()
        self.model.close()


_ENCODERS = frozenset(
    {
        "bert",
        "nomic-bert",
        "nomic-bert-moe",
        "jina-bert-v2",
        "jina-bert-v3",
        "modern-bert",
        "neo-bert",
        "eurobert",
        "gemma-embedding",
    }
)


def check_file(path: Path) -> None:
    """Raise ModelError unless `path` is a readable GGUF file that is whole.

    The engine would report the same in many lines, or abort on some of it.
    """
    if not path.is_file():
        message = f"{path} is not a file"
        raise ModelError(message)
    try:
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


def free_memory() -> int:
    """Bytes of memory that can be used without swapping, cgroup limits included."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    try:
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123
            for line in file:
                if line.startswith("MemAvailable:"):
                    free = int(line.split()[1]) * 1024
    except OSError:
        pass
    return min(free, _cgroup_free(free))


def _cgroup_free(otherwise: int) -> int:
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:  # noqa: PTH123
            limit = file.read().strip()
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as file:  # noqa: PTH123
            used = int(file.read())
        return otherwise if limit == "max" else max(int(limit) - used, 0)
    except (OSError, ValueError):
        return otherwise


def default_threads() -> int:
    """As many threads as the process may use processors."""
    return max(len(os.sched_getaffinity(0)), 1)


def sequence_bytes(metadata: dict[str, str], architecture: str, n_ctx: int) -> int:
    """Memory of one full-context sequence: K and V of every layer in float16."""

    def number(key: str, otherwise: int) -> int:
        text = metadata.get(f"{architecture}.{key}", "")
        return int(text) if text.isdigit() else otherwise

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
