"""A loaded model file: its facts, its vocabulary and its tokeniser."""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from kinetic.errors import InternalError, ModelError, RequestError
from kinetic.model import tokenizing
from kinetic.model.native import deep_stack
from kinetic.model.native.library import forget_reason, lib, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_MOST_DRY = 16
_MOST_DRY_TAIL = 20  # MAX_SEQ_LEN of llama_sampler_init_dry
_ROPES_OF_AXES = (lib.LLAMA_ROPE_TYPE_MROPE, lib.LLAMA_ROPE_TYPE_IMROPE)


@dataclass(frozen=True, slots=True)
class DrySettings:
    """The DRY sampler's settings."""

    multiplier: float
    base: float
    allowed_length: int
    last_n: int
    """Tokens that are looked back on."""
    breakers: tuple[str, ...]


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
        forget_reason()
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
