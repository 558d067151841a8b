"""The ctypes wall: the only module that touches `llama_cpp` and native memory.

Above it there are no pointers, buffer views or ctypes values. Rules kept here:

* A `Context` belongs to one thread at a time (the Decoder's once the server runs);
  a `Model`'s read-only calls (tokenise, pieces, metadata) are safe from any thread; a
  `Sampler` belongs to its slot's thread.
* Every callback and buffer that C keeps a pointer to is held by an attribute: a
  collected callback is a segmentation fault.
* Native code aborts on bad arguments, so they are checked before a call.
* Logits live until the next decode: rows are copied out, read-only, but for callers
  that ask for them as they lie there.
* What was acquired is freed once, in reverse order, by `close()`, never in `__del__`.
"""

from __future__ import annotations

import ctypes
import logging
import math
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kinetic.errors import InternalError, ModelError, RequestError
from kinetic.model import tokenizing
from kinetic.model.native import deep_stack

# K-quant tiles take over from 8 rows on and add in another order; read once by the
# library, so it must be set before the library is loaded.
os.environ.setdefault("GGML_CPU_TILED_MM", "0")

import llama_cpp
import llama_cpp.llama_cpp as lib

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kinetic.model.rows import Float32Array, Rows

_log = logging.getLogger("kinetic.engine")

LOWEST: Final = float(np.finfo(np.float32).min)
TOKEN_DATA: Final = np.dtype(
    [("id", np.int32), ("logit", np.float32), ("p", np.float32)]
)

_MOST_VIEWS = 256
_MOST_DRY = 16
_MOST_DRY_TAIL = 20  # MAX_SEQ_LEN of llama_sampler_init_dry
_CPU_DEVICE = 0  # ggml's enum ggml_backend_dev_type
_MOST_WORKERS = 512  # GGML_MAX_N_THREADS
_ROPES_OF_AXES = (lib.LLAMA_ROPE_TYPE_MROPE, lib.LLAMA_ROPE_TYPE_IMROPE)
_GGML_LEVELS = {2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_last_error: list[str] = []


def _on_log(level: int, text: bytes, _user: object) -> None:
    message = text.decode("utf-8", "replace").rstrip()
    # Level 1 is debug, 5 continues a line (progress dots): neither is worth a record.
    if level not in _GGML_LEVELS or not message:
        return
    if level >= 3:  # noqa: PLR2004 - ggml's own numbers, named by the table above
        _last_error.append(message)
        del _last_error[:-5]
    # The library's INFO is our DEBUG: a page of tensor shapes is no news to users.
    _log.log(_GGML_LEVELS[level] if level >= 4 else logging.DEBUG, "%s", message)  # noqa: PLR2004


def _engine_function(name: str, gives: Any, *takes: Any) -> Any:
    """A function of the engine's that the binding does not declare, or not like this.

    Unless `takes` are given, every argument must be a ctypes value.
    """
    # By index: by attribute it is the binding's own, and so would be its types.
    function = lib._lib[name]  # noqa: SLF001
    function.restype = gives
    if takes:
        function.argtypes = takes
    return function


_log_callback = lib.llama_log_callback(_on_log)
lib.llama_log_set(_log_callback, ctypes.c_void_p(0))
lib.llama_backend_init()
# As a number: the binding's pointer takes longer to make than the call.
_logits_address = _engine_function(
    "llama_get_logits_ith", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32
)


@dataclass(frozen=True, slots=True)
class DrySettings:
    """The DRY sampler's settings."""

    multiplier: float
    base: float
    allowed_length: int
    last_n: int
    """Tokens that are looked back on."""
    breakers: tuple[str, ...]


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


def library_versions() -> dict[str, str]:
    """Versions of the binding and of llama.cpp, as they name themselves."""
    return {
        "llama_cpp_python": str(llama_cpp.__version__),
        "llama_cpp": lib.llama_version().decode(),
        "system_info": lib.llama_print_system_info().decode().strip(),
    }


def library_folder() -> str:
    """Folder of the native libraries that are loaded."""
    return str(lib._base_path)  # noqa: SLF001 - the binding has no public name for it


def has_openmp() -> bool:
    """Whether the engine's CPU library runs on OpenMP's thread pool."""
    return "OPENMP = 1" in lib.llama_print_system_info().decode()


def log_here(register: Callable[[Any, Any], None]) -> None:
    """Have another of the engine's libraries log as this one does."""
    register(_log_callback, ctypes.c_void_p(0))


def reason(fallback: str) -> str:
    """What the engine last complained about, as one line; forgets it."""
    text = "; ".join(" ".join(line.split()) for line in _last_error) or fallback
    _last_error.clear()
    return text


class Model:
    """A loaded model file and its vocabulary.

    Thread: loading belongs to one thread, everything else is read-only and safe from
    any. Raises ModelError when the file cannot be loaded.
    """

    def __init__(
        self,
        path: Path,
        *,
        n_gpu_layers: int = 0,
        vocab_only: bool = False,
        extra_buffers: bool = False,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        params = lib.llama_model_default_params()
        params.n_gpu_layers = n_gpu_layers
        params.vocab_only = vocab_only
        # Repacked weights use one kernel for groups of four rows and another for the
        # rest, so a row's bits would depend on its neighbours.
        params.use_extra_bufts = extra_buffers

        def on_progress(done: float, _user: object) -> bool:
            if progress is not None:
                progress(done)
            return True

        self._progress = lib.llama_progress_callback(on_progress)
        params.progress_callback = self._progress
        _last_error.clear()
        handle = lib.llama_model_load_from_file(str(path).encode(), params)
        if not handle:
            message = f"cannot load {path}: {reason('the engine refused the file')}"
            raise ModelError(message)
        self._handle: Any = handle
        # Samplers whose breakers are looked up, to be copied; used last stand last.
        self._dry_known: OrderedDict[DrySettings, Any] = OrderedDict()
        self._dry_lock = threading.Lock()
        self._vocab: Any = lib.llama_model_get_vocab(handle)
        self.n_vocab = int(lib.llama_vocab_n_tokens(self._vocab))
        self.n_ctx_train = int(lib.llama_model_n_ctx_train(handle))
        self.n_embd = int(lib.llama_model_n_embd(handle))
        self.n_embd_in = int(lib.llama_model_n_embd_inp(handle))
        self.n_embd_out = int(lib.llama_model_n_embd_out(handle))
        self.n_axes = 4 if lib.llama_model_rope_type(handle) in _ROPES_OF_AXES else 1
        self.n_layer = int(lib.llama_model_n_layer(handle))
        self.n_swa = int(lib.llama_model_n_swa(handle))
        self.n_params = int(lib.llama_model_n_params(handle))
        self.size_bytes = int(lib.llama_model_size(handle))
        self.n_cls_out = int(lib.llama_model_n_cls_out(handle))
        self.is_recurrent = bool(lib.llama_model_is_recurrent(handle))
        self.is_hybrid = bool(lib.llama_model_is_hybrid(handle))
        self.has_encoder = bool(lib.llama_model_has_encoder(handle))
        self.has_decoder = bool(lib.llama_model_has_decoder(handle))
        self.vocab_type = int(lib.llama_vocab_type(self._vocab))
        self.is_bytewise = self.vocab_type == lib.LLAMA_VOCAB_TYPE_BPE
        self.bos = int(lib.llama_vocab_bos(self._vocab))
        self.eos = int(lib.llama_vocab_eos(self._vocab))
        self.sep = int(lib.llama_vocab_sep(self._vocab))
        self.nl = int(lib.llama_vocab_nl(self._vocab))
        self.add_bos = bool(lib.llama_vocab_get_add_bos(self._vocab))
        self.add_eos = bool(lib.llama_vocab_get_add_eos(self._vocab))
        self.add_sep = bool(lib.llama_vocab_get_add_sep(self._vocab))
        self.description = self._text(lib.llama_model_desc, handle)
        ftype = lib.llama_model_ftype(handle)
        name = lib.llama_ftype_name(ftype)
        self.ftype = name.decode("utf-8", "replace") if name else str(ftype)

    @staticmethod
    def _text(function: Callable[..., int], *args: object) -> str:
        size = 256
        while True:
            buffer = ctypes.create_string_buffer(size)
            n = function(*args, buffer, size)
            if n < size:
                return buffer.raw[: max(n, 0)].decode("utf-8", "replace")
            size = n + 1

    def metadata(self) -> dict[str, str]:
        """All scalar metadata of the file as text, in the file's order."""
        h = self._handle
        found = {}
        for i in range(lib.llama_model_meta_count(h)):
            key = self._text(lib.llama_model_meta_key_by_index, h, i)
            found[key] = self._text(lib.llama_model_meta_val_str_by_index, h, i)
        return found

    def class_labels(self) -> tuple[str, ...]:
        """Labels of a classifier's outputs; empty where the file names none."""
        raw = [
            lib.llama_model_cls_label(self._handle, i) for i in range(self.n_cls_out)
        ]
        return tuple(label.decode("utf-8", "replace") for label in raw if label)

    def tokenize(
        self, text: bytes, *, add_special: bool, parse_special: bool
    ) -> list[int]:
        """Token ids of UTF-8 `text`; any thread.

        Raises RequestError, whose message goes on from the text's name, for one that
        would take too long or too much stack.
        """
        work = partial(self._tokenize, text, add_special, parse_special)
        stack = self._stack_for(text)
        return deep_stack.run(work, stack, "tokenizer") if stack else work()

    def _stack_for(self, text: bytes) -> int:
        """Stack to tokenise a text on, in bytes; 0 where any thread's is enough."""
        if len(text) <= tokenizing.SHORT:
            return 0
        chars = text.decode("utf-8", "replace")
        tokenizing.check_length(chars)
        if self.vocab_type == lib.LLAMA_VOCAB_TYPE_SPM:
            tokenizing.check_bytewise(chars, len(text), self._characters)
        if not self.is_bytewise:
            return 0
        return tokenizing.pre_tokenizer_stack(chars, self._pre_tokenizer)

    @cached_property
    def _pre_tokenizer(self) -> str:
        return self.metadata().get("tokenizer.ggml.pre", "")

    @cached_property
    def _characters(self) -> frozenset[str]:
        """Characters that are tokens of their own."""
        pieces = (self.piece(token, special=True) for token in range(self.n_vocab))
        texts = (piece.decode("utf-8", "replace") for piece in pieces)
        return frozenset(text for text in texts if len(text) == 1)

    def _tokenize(
        self, text: bytes, add_special: bool, parse_special: bool
    ) -> list[int]:
        room = len(text) + 16
        while True:
            tokens = (ctypes.c_int32 * room)()
            n = lib.llama_tokenize(
                self._vocab, text, len(text), tokens, room, add_special, parse_special
            )
            if n >= 0:
                return list(tokens[:n])
            room = -n

    def piece(self, token: int, *, special: bool) -> bytes:
        """Bytes of a token; control tokens are empty unless `special`. Any thread."""
        if not 0 <= token < self.n_vocab:
            message = (
                f"token {token} is not one of the {self.n_vocab} in the vocabulary"
            )
            raise InternalError(message)
        room = 64
        while True:
            buffer = ctypes.create_string_buffer(room)
            n = lib.llama_token_to_piece(self._vocab, token, buffer, room, 0, special)
            if n >= 0:
                return buffer.raw[:n]
            room = -n

    def detokenize(
        self, tokens: Sequence[int], *, remove_special: bool, unparse_special: bool
    ) -> bytes:
        """Text of checked token ids as the engine joins them; any thread."""
        ids = (ctypes.c_int32 * max(len(tokens), 1))(*tokens)
        room = 8 * len(tokens) + 32
        while True:
            buffer = ctypes.create_string_buffer(room)
            n = lib.llama_detokenize(
                self._vocab,
                ids,
                len(tokens),
                buffer,
                room,
                remove_special,
                unparse_special,
            )
            if n >= 0:
                return buffer.raw[:n]
            room = -n

    def is_end(self, token: int) -> bool:
        """Whether a token ends an answer."""
        return bool(lib.llama_vocab_is_eog(self._vocab, token))

    def is_control(self, token: int) -> bool:
        """Whether a token is a control token, invisible in text."""
        return bool(lib.llama_vocab_is_control(self._vocab, token))

    def attributes(self, token: int) -> int:
        """Bit set of `llama_token_attr`."""
        return int(lib.llama_vocab_get_attr(self._vocab, token))

    def suppressed(self) -> tuple[int, ...]:
        """Tokens that the file says must never be drawn."""
        n = ctypes.c_int32(0)
        ids = lib.llama_vocab_get_suppress_tokens(self._vocab, ctypes.byref(n))
        return tuple(int(ids[i]) for i in range(n.value))

    @property
    def vocab_address(self) -> int:
        """Native vocabulary, for libraries that read it; an address, not a pointer."""
        return int(ctypes.cast(self._vocab, ctypes.c_void_p).value or 0)

    def prepare_dry(self, settings: DrySettings) -> None:
        """Look the breakers up in the vocabulary now, for the samplers that follow.

        Where both are many that takes tenths of a second. Raises RequestError for
        breakers that the engine would cut.
        """
        for i, text in enumerate(settings.breakers):
            n = self._n_tail(text)
            if n > _MOST_DRY_TAIL:
                raise RequestError(
                    f"dry_sequence_breakers[{i}] has {n} tokens behind its first"
                    f" character; at most {_MOST_DRY_TAIL} are looked for",
                    param="dry_sequence_breakers",
                )
        with self._dry_lock:
            self._dry_prototype(settings)

    def _n_tail(self, text: str) -> int:
        tail = text[1:].encode()
        return len(self.tokenize(tail, add_special=False, parse_special=False))

    def _dry(self, settings: DrySettings) -> Any:
        with self._dry_lock:
            return lib.llama_sampler_clone(self._dry_prototype(settings))

    def _dry_prototype(self, settings: DrySettings) -> Any:
        known = self._dry_known
        if settings in known:
            known.move_to_end(settings)
            return known[settings]
        texts = (ctypes.c_char_p * max(len(settings.breakers), 1))(
            *(text.encode() for text in settings.breakers)
        )
        made = lib.llama_sampler_init_dry(
            self._vocab,
            settings.multiplier,
            settings.base,
            settings.allowed_length,
            settings.last_n,
            texts,
            len(settings.breakers),
        )
        if made:
            known[settings] = made
        while len(known) > _MOST_DRY:
            lib.llama_sampler_free(known.popitem(last=False)[1])
        return made

    def close(self) -> None:
        """Free the model; its contexts and samplers must be closed before."""
        while self._dry_known:
            lib.llama_sampler_free(self._dry_known.popitem()[1])
        if self._handle:
            lib.llama_model_free(self._handle)
            self._handle = None


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
        _last_error.clear()
        handle = lib.llama_init_from_model(model._handle, params)  # noqa: SLF001
        if not handle:
            message = f"cannot create the context: {reason('out of memory?')}"
            raise ModelError(message)
        self._handle: Any = handle
        self._workers = _Workers(handle, options.n_threads)
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
        _last_error.clear()
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


class _WorkerOptions(ctypes.Structure):
    """`ggml_threadpool_params` of ggml.h."""

    _fields_ = (
        ("cpumask", ctypes.c_bool * _MOST_WORKERS),
        ("n_threads", ctypes.c_int),
        ("prio", ctypes.c_int),
        ("poll", ctypes.c_uint32),
        ("strict_cpu", ctypes.c_bool),
        ("paused", ctypes.c_bool),
    )


class _Workers:
    """The threads that a context computes with, kept from pass to pass.

    Without them the engine starts and ends threads for every pass. They look out for
    the next pass for some milliseconds and then sleep; llama-server's look out fifty
    times as long, which cost four streams 3 % here, and the machine its rest. Where the
    engine has none to give (an OpenMP build has its own) this does nothing. To be
    closed behind the context.
    """

    def __init__(self, context: Any, n_threads: int) -> None:
        self._pool: Any = None
        make = _cpu_function("ggml_threadpool_new", ctypes.c_void_p)
        free = _cpu_function("ggml_threadpool_free", None)
        if make is None or free is None or n_threads > _MOST_WORKERS:
            return
        options = _WorkerOptions()
        _engine_function("ggml_threadpool_params_init", None)(
            ctypes.byref(options), ctypes.c_int(n_threads)
        )
        options.poll = 1
        self._pool = make(ctypes.addressof(options))
        self._free = free
        if self._pool:
            attach = _engine_function("llama_attach_threadpool", None)
            attach(ctypes.c_void_p(context), ctypes.c_void_p(self._pool), None)

    def close(self) -> None:
        """End the threads."""
        if self._pool:
            self._free(self._pool)
            self._pool = None


def _cpu_function(name: str, gives: Any) -> Any:
    """A function of one address of the engine's processor library, or None."""
    if not hasattr(lib._lib, "ggml_backend_dev_by_type"):  # noqa: SLF001
        return None  # a build that holds ggml and does not show it
    device = _engine_function("ggml_backend_dev_by_type", ctypes.c_void_p)(_CPU_DEVICE)
    if not device:
        return None
    library = _engine_function("ggml_backend_dev_backend_reg", ctypes.c_void_p)
    find = _engine_function("ggml_backend_reg_get_proc_address", ctypes.c_void_p)
    found = library(ctypes.c_void_p(device))
    address = find(ctypes.c_void_p(found), ctypes.c_char_p(name.encode()))
    return ctypes.CFUNCTYPE(gives, ctypes.c_void_p)(address) if address else None


class Sampler:
    """A chain of llama.cpp samplers over plain logits rows.

    Thread: one at a time. The chain owns its members.
    """

    def __init__(self, n_vocab: int) -> None:
        self._chain: Any = lib.llama_sampler_chain_init(
            lib.llama_sampler_chain_default_params()
        )
        self._data = np.empty(n_vocab, TOKEN_DATA)
        fresh = np.zeros(n_vocab, TOKEN_DATA)
        fresh["id"] = np.arange(n_vocab)
        # As bytes: field by field, or as records, they would be copied one by one.
        self._fresh, self._bytes = fresh.view(np.uint8), self._data.view(np.uint8)
        self._array: Any = lib.llama_token_data_array()
        self._address = self._data.ctypes.data_as(ctypes.POINTER(lib.llama_token_data))

    def add(self, name: str, *args: object) -> None:
        """Append `llama_sampler_init_<name>(*args)`."""
        self._append(name, getattr(lib, f"llama_sampler_init_{name}")(*args))

    def _append(self, name: str, member: Any) -> None:
        if not member:
            message = f"the engine refused the sampler {name}"
            raise InternalError(message)
        lib.llama_sampler_chain_add(self._chain, member)

    def add_dry(self, model: Model, settings: DrySettings) -> None:
        """Append DRY with its sequence breakers."""
        self._append("dry", model._dry(settings))  # noqa: SLF001 - native, so it stays here

    def add_logit_bias(self, n_vocab: int, biases: Sequence[tuple[int, float]]) -> None:
        """Append a bias per token; -inf bans one."""
        entries = (lib.llama_logit_bias * max(len(biases), 1))()
        for entry, (token, bias) in zip(entries, biases, strict=False):
            entry.token = token
            entry.bias = bias
        self.add("logit_bias", n_vocab, len(biases), entries)

    def draw(self, logits: Float32Array) -> int:
        """Apply the chain to one row [n_vocab] and return the drawn token.

        The chain's state is not advanced: call `accept` with what is kept.
        Raises RequestError when no token is left: it was the request that banned them.
        """
        data = self._data
        self._bytes[:] = self._fresh  # the chain has sorted what was there
        data["logit"] = logits
        array = self._array
        array.data = self._address
        array.size = len(data)
        array.selected = -1
        array.sorted = False
        lib.llama_sampler_apply(self._chain, ctypes.byref(array))
        # Where every token is banned, the chain still names one of them.
        if not 0 <= array.selected < array.size or (
            array.data[array.selected].logit == -math.inf
        ):
            message = (
                "logit_bias, and what the answer is held to, leave no token to draw"
            )
            raise RequestError(message, param="logit_bias")
        return int(array.data[array.selected].id)

    def candidates(self) -> list[tuple[int, float]]:
        """Tokens that survived the last `draw`, with their probabilities."""
        array = self._array
        return [
            (int(array.data[i].id), float(array.data[i].p)) for i in range(array.size)
        ]

    def accept(self, token: int) -> None:
        """Tell the chain that a token was kept (or stood in the prompt)."""
        lib.llama_sampler_accept(self._chain, token)

    def close(self) -> None:
        """Free the chain and its members."""
        if self._chain:
            lib.llama_sampler_free(self._chain)
            self._chain = None
