"""The native context: the sequences' memory and the passes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kinetic.errors import InternalError, ModelError
from kinetic.model.native.library import engine_function, forget_reason, lib, reason
from kinetic.model.native.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinetic.model.native.model import Model
    from kinetic.model.rows import Float32Array, Rows

_MOST_VIEWS = 256
# As a number: the binding's pointer takes longer to make than the call.
_logits_address = engine_function(
    "llama_get_logits_ith", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32
)


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """What shapes the native context; part of a plan's identity."""

    n_ctx: int
    """Context of one sequence, in tokens."""
    n_sequences: int
    n_batch: int
    n_threads: int
    flash_attention: bool = False
    unified: bool = False
    pooling: int = -1
    embeddings: bool = False


class Context:
    """The native context: every sequence's memory and the decode call.

    Thread: one at a time. Raises ModelError when it cannot be made (no memory).
    """

    def __init__(self, model: Model, options: ContextOptions) -> None:
        params = lib.llama_context_default_params()
        params.n_ctx = options.n_ctx * options.n_sequences
        params.n_batch = options.n_batch
        params.n_ubatch = options.n_batch
        params.n_seq_max = options.n_sequences
        params.n_threads = options.n_threads
        params.n_threads_batch = options.n_threads
        # 1 is on, 0 is off, -1 automatic: the CPU's flash attention has three code
        # paths, chosen by rows, sequences and context length.
        params.flash_attn_type = 1 if options.flash_attention else 0
        params.kv_unified = options.unified
        # A window's hidden cells stay in place, so that a kept state sums in the
        # same order when it is used again.
        params.swa_full = True
        params.no_perf = True
        params.pooling_type = options.pooling
        params.embeddings = options.embeddings
        forget_reason()
        handle = lib.llama_init_from_model(model._handle, params)  # noqa: SLF001
        if not handle:
            message = f"cannot create the context: {reason('out of memory?')}"
            raise ModelError(message)
        self._handle: Any = handle
        self._workers = Workers(handle, options.n_threads)
        self._memory: Any = lib.llama_get_memory(handle)
        self.n_vocab = model.n_vocab
        self.n_embd_in = model.n_embd_in
        self.n_axes = model.n_axes
        self.n_embd_out = model.n_embd_out
        self.n_ctx = int(lib.llama_n_ctx_seq(handle))
        self.n_sequences = options.n_sequences
        self.n_batch = int(lib.llama_n_batch(handle))
        self._views: dict[tuple[int, int], Float32Array] = {}
        self._make_batch()

    def _make_batch(self) -> None:
        n = self.n_batch
        self._token = np.zeros(n, np.int32)
        self._pos = np.zeros(n, np.int32)
        self._n_seq = np.ones(n, np.int32)
        self._seq = np.zeros(n, np.int32)
        self._want = np.zeros(n, np.int8)
        seq_type = ctypes.POINTER(ctypes.c_int32)
        base = self._seq.ctypes.data
        self._seq_pointers = (seq_type * n)(
            *(ctypes.cast(base + 4 * i, seq_type) for i in range(n))
        )
        batch: Any = lib.llama_batch()
        batch.token = self._token.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        batch.embd = None
        batch.pos = self._pos.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        batch.n_seq_id = self._n_seq.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        batch.seq_id = self._seq_pointers
        batch.logits = self._want.ctypes.data_as(ctypes.POINTER(ctypes.c_int8))
        self._batch = batch

    def _fill(self, rows: Sequence[Rows]) -> int:
        n = 0
        for part in rows:
            k = len(part.tokens)
            fits = (
                0 <= part.sequence < self.n_sequences
                and part.first >= 0
                and part.first + k <= self.n_ctx
                and n + k <= self.n_batch
                and 0 <= part.n_logits <= k
            )
            if not k or not fits:
                message = f"a pass out of bounds: {part.sequence}, {part.first}, {k}"
                raise InternalError(message)
            ids = part.tokens.tolist()
            if min(ids) < 0 or max(ids) >= self.n_vocab:
                message = "a pass with a token that is not in the vocabulary"
                raise InternalError(message)
            self._token[n : n + k] = part.tokens
            self._pos[n : n + k] = np.arange(part.first, part.first + k)
            self._seq[n : n + k] = part.sequence
            self._want[n : n + k - part.n_logits] = 0
            self._want[n + k - part.n_logits : n + k] = 1
            n += k
        self._batch.n_tokens = n
        return n

    def _run(self, rows: Sequence[Rows]) -> int:
        if any(part.embedded is not None for part in rows):
            return self._run_embedded(rows)
        n = self._fill(rows)
        self._decode(self._batch)
        return n

    def _decode(self, batch: Any) -> None:
        forget_reason()
        result = lib.llama_decode(self._handle, batch)
        if result != 0:
            # 1: no room in the memory, 2: aborted, -1: bad batch, below: fatal.
            message = f"decode failed ({result}): {reason('no reason given')}"
            raise InternalError(message)

    def _run_embedded(self, rows: Sequence[Rows]) -> int:
        """Run a picture's tokens; a batch holds ids or vectors, never both."""
        part, *others = rows
        embedded = part.embedded
        n = len(part.tokens)
        fits = (
            embedded is not None
            and not others
            and 0 < n <= self.n_batch
            and 0 <= part.sequence < self.n_sequences
            and 0 <= part.first < self.n_ctx
            and 0 <= part.n_logits <= n
            and embedded.vectors.shape == (n, self.n_embd_in)
            and (embedded.axes is None or embedded.axes.shape == (4, n))
        )
        if embedded is None or not fits:
            message = f"a picture's pass out of bounds: {part.sequence}, {part.first}"
            raise InternalError(message)
        axes = embedded.axes
        if axes is None:
            line = np.arange(part.first, part.first + n, dtype=np.int32)
            axes = np.broadcast_to(line, (4, n))
        vectors = np.ascontiguousarray(embedded.vectors, np.float32)
        positions = np.ascontiguousarray(axes[: self.n_axes], np.int32)
        self._seq[:n] = part.sequence
        self._want[: n - part.n_logits] = 0
        self._want[n - part.n_logits : n] = 1
        batch: Any = lib.llama_batch()
        batch.n_tokens = n
        batch.token = None
        batch.embd = vectors.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        batch.pos = positions.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        batch.n_seq_id = self._batch.n_seq_id
        batch.seq_id = self._seq_pointers
        batch.logits = self._batch.logits
        if not embedded.sees_ahead:
            self._decode(batch)
            return n
        lib.llama_set_causal_attn(self._handle, False)
        try:
            self._decode(batch)
        finally:
            lib.llama_set_causal_attn(self._handle, True)
        return n

    def decode(self, rows: Sequence[Rows], *, copy: bool = True) -> list[Float32Array]:
        """Run one pass and give each part its logits.

        Returns one array [n_logits, n_vocab] float32, read-only, per part of `rows`.
        Without `copy` they are the engine's own memory, good until its next pass.
        Raises InternalError when the engine fails; the sequences' memory is then
        unknown and must be cleared.
        """
        self._run(rows)
        out = []
        end = 0
        for part in rows:
            end += len(part.tokens)
            out.append(self._logits(end - part.n_logits, end, copy=copy))
        return out

    def _logits(self, first: int, end: int, *, copy: bool) -> Float32Array:
        """The logits of a pass's rows from `first` on, all of which wanted them."""
        count = end - first
        if count == 0:
            return np.empty((0, self.n_vocab), np.float32)
        address, last = self._row_address(first), self._row_address(end - 1)
        # The engine gives rows out in the order of the pass, one behind the other.
        if last - address != 4 * self.n_vocab * (count - 1):
            raise InternalError("the engine's rows are not in order")
        # Rows mostly lie where they lay: a view costs more to make than to find.
        view = self._views.get((address, count))
        if view is None:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            memory = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
            view = np.ctypeslib.as_array(memory, (count, self.n_vocab))
            view.flags.writeable = False
            self._views[address, count] = view
        if not copy:
            return view
        logits = view.copy()
        logits.flags.writeable = False
        return logits

    def _row_address(self, row: int) -> int:
        address = _logits_address(self._handle, row)
        if not address:
            raise InternalError(f"the engine gave no logits for row {row}")
        return int(address)

    def fill(self, rows: Rows) -> None:
        """Run a part of an input into the memory of an embedding context.

        Outputs stay on, though nobody reads them: switched off for a pass, the graph
        has another shape of the same size, and the engine's allocator takes it for the
        old one (seen to end the process with an LFM2 model).
        """
        self._run([rows])

    def embed(self, rows: Rows, *, is_pooled: bool, n_out: int) -> Float32Array:
        """Run an input, or its last part, and return its vector or its tokens'.

        Returns [n_out] float32 when `is_pooled`, else [n_tokens, n_out]; read-only.
        """
        n = self._run([rows])
        if is_pooled:
            pointer = lib.llama_get_embeddings_seq(self._handle, rows.sequence)
            if not pointer:
                raise InternalError("the engine gave no vector")
            vectors = np.ctypeslib.as_array(pointer, (n_out,)).copy()
        else:
            vectors = np.empty((n, n_out), np.float32)
            for i in range(n):
                pointer = lib.llama_get_embeddings_ith(self._handle, i)
                vectors[i] = np.ctypeslib.as_array(pointer, (n_out,))
        vectors.flags.writeable = False
        return vectors

    def pooling(self) -> int:
        """The pooling in force, as `llama_pooling_type`."""
        return int(lib.llama_pooling_type(self._handle))

    def cut(self, sequence: int, n_keep: int) -> bool:
        """Drop a sequence's memory from position `n_keep` on; False when refused."""
        return bool(lib.llama_memory_seq_rm(self._memory, sequence, n_keep, -1))

    def clear(self, sequence: int) -> None:
        """Drop all of a sequence's memory; encoders keep none."""
        if self._memory:
            lib.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def length(self, sequence: int) -> int:
        """Tokens that a sequence's memory holds."""
        return int(lib.llama_memory_seq_pos_max(self._memory, sequence)) + 1

    def snapshot(self, sequence: int) -> bytes:
        """A copy of a sequence's memory that `restore` takes."""
        size = lib.llama_state_seq_get_size(self._handle, sequence)
        buffer = (ctypes.c_uint8 * size)()
        n = lib.llama_state_seq_get_data(self._handle, buffer, size, sequence)
        return bytes(memoryview(buffer)[:n])

    def restore(self, sequence: int, state: bytes) -> bool:
        """Replace a sequence's memory by a snapshot; False when it does not fit.

        On False the sequence is empty. Only states whose checksum was verified may
        come here: the engine trusts their contents.
        """
        self.clear(sequence)
        buffer = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        n = lib.llama_state_seq_set_data(self._handle, buffer, len(state), sequence)
        if n != len(state):
            self.clear(sequence)
            return False
        return True

    def close(self) -> None:
        """Free the context."""
        if self._handle:
            lib.llama_free(self._handle)
            self._handle = None
            self._workers.close()
