"""The shortest way through llama.cpp's own API: load a file, decode, look.

Tests of the made files use this rather than Kinetic's engine, so that a fault of one
is not taken for a fault of the other. Not for several threads.
"""

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import llama_cpp.llama_cpp as api
import numpy as np
import numpy.typing as npt

# The tiles of the K-quants take another path from 8 rows on. llama.cpp looks at this
# when the first matrix is multiplied, so it has to stand before any model is used.
os.environ.setdefault("GGML_CPU_TILED_MM", "0")

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Row:
    """One token of a batch."""

    token: int
    position: int
    sequence: int = 0
    wanted: bool = False  # whether its logits are


class NativeModel:
    """A loaded model with one context, with the settings that make rows agree."""

    def __init__(
        self,
        path: Path,
        *,
        n_ctx: int = 512,
        n_seq: int = 1,
        embeddings: bool = False,
        swa_full: bool = False,
        n_threads: int = 1,
    ) -> None:
        """Loads `path`; `n_ctx` tokens of context for each of `n_seq` sequences."""
        api.llama_backend_init()
        model_params = api.llama_model_default_params()
        model_params.n_gpu_layers = 0
        model_params.use_extra_bufts = False
        self._model = api.llama_model_load_from_file(bytes(path), model_params)
        if not self._model:
            raise ValueError(f"llama.cpp does not load {path}")
        self._vocab = api.llama_model_get_vocab(self._model)
        self.n_vocab = api.llama_vocab_n_tokens(self._vocab)
        params = api.llama_context_default_params()
        params.n_ctx = n_ctx * n_seq
        params.n_batch = params.n_ubatch = n_ctx
        params.n_seq_max = n_seq
        params.n_threads = params.n_threads_batch = n_threads
        params.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.kv_unified = False
        params.swa_full = swa_full
        params.embeddings = embeddings
        self._context = api.llama_init_from_model(self._model, params)
        if not self._context:
            api.llama_model_free(self._model)
            raise ValueError(f"llama.cpp makes no context for {path}")
        self._memory = api.llama_get_memory(self._context)
        self._batch = api.llama_batch_init(n_ctx, 0, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        api.llama_batch_free(self._batch)
        api.llama_free(self._context)
        api.llama_model_free(self._model)

    def tokens(self, text: str, *, add_special: bool = True) -> list[int]:
        """Tokenises with markers recognised."""
        raw = text.encode()
        room = len(raw) + 8
        ids = (api.llama_token * room)()
        count = api.llama_tokenize(
            self._vocab, raw, len(raw), ids, room, add_special, True
        )
        return list(ids[:count])

    def text(self, tokens: Sequence[int]) -> bytes:
        """The text of tokens, markers left out."""
        out = b""
        room = ctypes.create_string_buffer(128)
        for token in tokens:
            n = api.llama_token_to_piece(self._vocab, token, room, 128, 0, False)
            out += room.raw[:n]
        return out

    def meta(self, key: str) -> str | None:
        """A metadata value as llama.cpp prints it."""
        room = ctypes.create_string_buffer(4_096)
        n = api.llama_model_meta_val_str(self._model, key.encode(), room, 4_096)
        return room.value.decode() if n >= 0 else None

    def decode(self, rows: Sequence[Row]) -> list[Floats]:
        """Runs one batch.

        Returns:
            The logits [n_vocab] of the wanted rows, in their order.
        """
        self._fill(rows)
        status = api.llama_decode(self._context, self._batch)
        if status != 0:
            raise ValueError(f"llama_decode answered {status}")
        wanted = [i for i, row in enumerate(rows) if row.wanted]
        out = []
        for i in wanted:
            pointer = api.llama_get_logits_ith(self._context, i)
            out.append(np.ctypeslib.as_array(pointer, (self.n_vocab,)).copy())
        return out

    def prompt(
        self,
        tokens: Sequence[int],
        *,
        start: int = 0,
        sequence: int = 0,
        chunk: int | None = None,
    ) -> Floats:
        """Runs a prompt from position `start`, in chunks.

        Returns:
            The logits [n_vocab] after its last token.
        """
        last = len(tokens) - 1
        rows = [
            Row(token, start + i, sequence, wanted=i == last)
            for i, token in enumerate(tokens)
        ]
        size = chunk or len(rows)
        out: list[Floats] = []
        for first in range(0, len(rows), size):
            out = self.decode(rows[first : first + size])
        return out[0]

    def greedy(self, prompt: Sequence[int], n_tokens: int) -> list[int]:
        """The most likely continuation, token by token, in sequence 0."""
        self.clear()
        logits = self.prompt(prompt)
        out: list[int] = []
        while len(out) < n_tokens:
            token = int(logits.argmax())
            out.append(token)
            position = len(prompt) + len(out) - 1
            (logits,) = self.decode([Row(token, position, wanted=True)])
        return out

    def pooled(self, tokens: Sequence[int], size: int) -> Floats:
        """The pooled vector, or the scores, of one text [size]."""
        self.clear()
        self._fill([Row(token, i, wanted=True) for i, token in enumerate(tokens)])
        status = api.llama_decode(self._context, self._batch)
        pointer = api.llama_get_embeddings_seq(self._context, 0)
        if status != 0 or not pointer:
            raise ValueError(f"no vector: llama_decode answered {status}")
        return np.ctypeslib.as_array(pointer, (size,)).copy()

    def clear(self) -> None:
        """Forgets every sequence."""
        api.llama_memory_clear(self._memory, True)

    def cut(self, sequence: int, start: int) -> bool:
        """Forgets a sequence from position `start` on; tells whether it could."""
        return bool(api.llama_memory_seq_rm(self._memory, sequence, start, -1))

    def save(self, sequence: int) -> bytes:
        """The state of a sequence."""
        size = api.llama_state_seq_get_size(self._context, sequence)
        room = (ctypes.c_uint8 * size)()
        n = api.llama_state_seq_get_data(self._context, room, size, sequence)
        return bytes(room[:n])

    def restore(self, sequence: int, state: bytes) -> None:
        """Puts a saved state into a sequence."""
        room = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        n = api.llama_state_seq_set_data(self._context, room, len(state), sequence)
        if n != len(state):
            raise ValueError(f"only {n} of {len(state)} bytes were restored")

    def _fill(self, rows: Sequence[Row]) -> None:
        batch = self._batch
        batch.n_tokens = len(rows)
        for i, row in enumerate(rows):
            batch.token[i] = row.token
            batch.pos[i] = row.position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = row.sequence
            batch.logits[i] = row.wanted


def quantize(source: Path, target: Path, file_type: int) -> None:
    """Writes `source`, a float model, out in one of llama.cpp's quantised mixes."""
    params = api.llama_model_quantize_default_params()
    params.ftype = file_type
    params.nthread = 2
    status = api.llama_model_quantize(bytes(source), bytes(target), params)
    if status != 0:
        raise ValueError(f"llama.cpp does not quantise {source}: {status}")
