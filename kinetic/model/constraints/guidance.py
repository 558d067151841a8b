"""The wall to llguidance: what a grammar allows next, token by token.

llguidance reports trouble as text in a matcher, and as Rust panics, which are no
`Exception`. Both become errors of ours here. What it cannot report is the end of the
native stack, which ends the process: it walks grammars recursively. So grammars are
compiled on threads with a stack that fits everything which the limits let through.

Source: llguidance 1.9.1, docs/syntax.md, docs/json_schema.md and python/llguidance.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import llguidance
import numpy as np

from kinetic.errors import InternalError, RequestError, UnsupportedFeature
from kinetic.model.native import deep_stack

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from kinetic.model.native.model import Model
    from kinetic.model.vocab import Vocab

_log = logging.getLogger("kinetic.constraint")

STACK_BYTES: Final = 128 << 20
"""Of a compiling thread; measured need: 15 KB a level of nested references."""

SLICES: Final = (
    r"[A-Za-z]{1,10}",
    r" [A-Za-z]{1,20}",
    r"[^\x00-\x7F]{1,12}",
    r'[^"\\\x00-\x1F\x7F ]{1,10}',
    r' ?[^"\\\x00-\x1F\x7F ]{1,30}',
    r'[^"\\\x00-\x1F\x7F]{1,30}',
    r'[^"\\\x00-\x1F\x7F]+',
)
"""Groups of tokens that are looked at as one where a text allows all of them.

The library's own are made for strings that allow everything. With these, strings whose
blanks are bounded take 0.7 ms a mask at their start instead of 1.4, and prose by a
grammar 0.8 instead of 1.5 (152,000 tokens); most steps take 0.03 either way.
"""

HEADER: Final = '%llguidance {"no_forcing": true}\n'
"""Leaves it to the model how a text is cut into tokens, as llama.cpp does.

The library would force one way of cutting, and a banned token a dead end.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeLimits:
    """What one grammar may cost llguidance; its names, its defaults where not said."""

    max_items_in_row: int = 10_000
    """An object of n optional properties needs 4 n."""
    initial_lexer_fuel: int = 1_000_000
    """About 20 ms of compiling."""
    step_lexer_fuel: int = 400_000
    """About 30 ms of one step."""
    step_max_items: int = 400_000
    """About 20 ms of one step; grammars read character by character need it."""
    max_lexer_states: int = 250_000
    """0.3 KB each; a token of a string with a maxLength may need 20."""
    max_grammar_size: int = 500_000


class GrammarRefusedError(ValueError):
    """llguidance's reason for not taking a grammar."""


class ModelTokens:
    """The model's vocabulary as llguidance wants it.

    Control tokens and those that end an answer are never text: a grammar can name them
    by id only. User-defined tokens are text, as they are in an answer.
    """

    def __init__(self, model: Model, vocab: Vocab) -> None:
        if not vocab.ends:
            message = (
                "this model has no token that ends an answer to hold one to a form"
            )
            raise UnsupportedFeature(message)
        self.n_vocab = model.n_vocab
        plain = [vocab.piece(token) for token in range(model.n_vocab)]
        self.special = frozenset(
            token
            for token, piece in enumerate(plain)
            if token in vocab.controls or token in vocab.ends or not piece
        )
        """Tokens that are not text."""
        self.pieces: tuple[bytes, ...] = tuple(
            vocab.full_piece(token) if token in self.special else piece
            for token, piece in enumerate(plain)
        )
        self._tokenizer = _Tokenizer(self.pieces, self.special, model, min(vocab.ends))
        self.native = llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(self._tokenizer),
            n_vocab=model.n_vocab,
            eos_token=sorted(vocab.ends),
            slices=list(SLICES),
        )

    def canonical(self, text: bytes) -> list[int]:
        """Text cut into tokens as the model would; never special ones."""
        return self._tokenizer(text)


class _Tokenizer:
    """What `llguidance.TokenizerWrapper` reads."""

    def __init__(
        self,
        pieces: Sequence[bytes],
        special: frozenset[int],
        model: Model,
        end: int,
    ) -> None:
        self.tokens = pieces
        self.special_token_ids = sorted(special)
        self.bos_token_id = None
        self.eos_token_id = end
        self._model = model
        self._text = {
            piece: token
            for token, piece in reversed(list(enumerate(pieces)))
            if piece and token not in special
        }
        self._longest = max(map(len, self._text), default=1)

    def __call__(self, text: bytes | str) -> list[int]:
        raw = text.encode() if isinstance(text, str) else text
        ids = self._cut(raw)
        if self._joined(ids) == raw:
            return ids
        # Some vocabularies put a blank before a text, but not behind a line break.
        ids = self._cut(b"\n" + raw)
        for start in range(1, min(4, len(ids) + 1)):
            if self._joined(ids[start:]) == raw:
                return ids[start:]
        return self._greedy(raw)

    def _cut(self, raw: bytes) -> list[int]:
        try:
            return self._model.tokenize(raw, add_special=False, parse_special=False)
        except RequestError:
            # Too slow for the engine; any way of cutting is as good.
            return []

    def _joined(self, ids: Sequence[int]) -> bytes:
        return b"".join(self.tokens[i] for i in ids)

    def _greedy(self, raw: bytes) -> list[int]:
        ids = []
        at = 0
        while at < len(raw):
            for length in range(min(self._longest, len(raw) - at), 0, -1):
                token = self._text.get(raw[at : at + length])
                if token is not None:
                    ids.append(token)
                    at += length
                    break
            else:
                return ids
        return ids


class Walker:
    """Grammars that one text is held to, each with where the text stands in it.

    Thread: one at a time.
    """

    def __init__(self, natives: Sequence[llguidance.LLMatcher]) -> None:
        self.natives = tuple(natives)

    def copy(self) -> Walker:
        """The same place; what the lexers learn is shared."""
        return Walker([native.deep_copy() for native in self.natives])

    @property
    def error(self) -> str | None:
        """The library's reason, if one of them has failed."""
        for native in self.natives:
            if native.is_error():
                return native.get_error()
        return None

    def consume(self, token: int) -> bool:
        """Go on behind a token; whether all allow it."""
        return all(native.consume_token(token) for native in self.natives)

    def replay(self, tokens: list[int]) -> int:
        """Go on behind tokens; how many of them all allow."""
        return min(native.try_consume_tokens(tokens) for native in self.natives)

    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        return all(native.is_accepting() for native in self.natives)

    def is_stopped(self) -> bool:
        """Whether nothing may follow."""
        return any(native.is_stopped() for native in self.natives)

    def forced_text(self) -> bytes:
        """What must follow by one of them; a copy looks ahead."""
        if self.error is not None:
            return b""
        ahead = self.natives[0].deep_copy()
        text = ahead.compute_ff_bytes()
        return b"" if ahead.is_error() else text


def compiled(tokens: ModelTokens, larks: Sequence[str], limits: NativeLimits) -> Walker:
    """Grammars at their start, to be copied and never advanced.

    Raises GrammarRefusedError with llguidance's reason.
    """
    made = Walker([one_matcher(tokens.native, lark, limits) for lark in larks])
    first = made.copy()
    Masker(tokens.n_vocab).fill(first)
    if first.error is not None:
        raise GrammarRefusedError(f"it is too complex: {reason_of(first.error)}")
    return made


def one_matcher(
    tokenizer: llguidance.LLTokenizer, lark: str, limits: NativeLimits
) -> llguidance.LLMatcher:
    """One grammar at its start; raises GrammarRefusedError."""
    native_limits = llguidance.LLParserLimits(
        max_items_in_row=limits.max_items_in_row,
        initial_lexer_fuel=limits.initial_lexer_fuel,
        step_lexer_fuel=limits.step_lexer_fuel,
        step_max_items=limits.step_max_items,
        max_lexer_states=limits.max_lexer_states,
        max_grammar_size=limits.max_grammar_size,
        verbose_errors=False,
    )

    def work() -> llguidance.LLMatcher:
        return llguidance.LLMatcher(
            tokenizer, HEADER + lark, log_level=0, limits=native_limits
        )

    try:
        matcher = deep_stack.run(work, STACK_BYTES, "constraint-compiler")
    except BaseException as error:
        if not is_panic(error):
            raise
        _log.warning("llguidance panicked while compiling: %s", error)
        raise GrammarRefusedError("it is too large or too complex") from None
    if matcher.is_error():
        raise GrammarRefusedError(reason_of(matcher.get_error()))
    return matcher


def is_panic(error: BaseException) -> bool:
    """Whether an error is a Rust panic; PyO3 gives its class no importable name."""
    return type(error).__name__ == "PanicException"


def reason_of(text: str) -> str:
    """The library's words for what is wrong, without the places in our own text."""
    first = text.split("\n", 1)[0].strip()
    if first.startswith("panic"):
        _log.warning("llguidance panicked while compiling: %s", first)
        return "it is too large or too complex"
    return _PLACE.sub("", first)[:300]


_PLACE = re.compile(r"^(?:at )?[0-9]+\([0-9]+\): |failed to compile JSON schema: ")
"""Where in our own text the reason stands: nothing to a client."""

_LIMIT = re.compile(r"too many|row has|fuel|too large", re.IGNORECASE)
"""llguidance's words for what is too much; its stop reason is the same for all."""

_table: npt.NDArray[np.float32] | None = None


def _limit_table() -> npt.NDArray[np.float32]:
    """Rows of 16 upper limits, +inf or -inf, for every 16 bits of a mask; 4 MB."""
    global _table  # noqa: PLW0603 - made once, when the first mask is asked for
    if _table is None:
        words = np.arange(1 << 16, dtype="<u2").view(np.uint8).reshape(-1, 2)
        bits = np.unpackbits(words, axis=1, bitorder="little")
        _table = np.where(bits, np.float32(np.inf), np.float32(-np.inf))
    return _table


class Masker:
    """Applies the masks of one matcher to logits.

    Thread: one at a time. A mask of 150,000 bits is applied in 0.05 ms, whatever its
    pattern; `np.where` on unpacked bits takes up to ten times as long.
    """

    def __init__(self, n_vocab: int) -> None:
        self._n_vocab = n_vocab
        # llguidance writes whole words of 32 bits.
        self._words = np.zeros(2 * ((n_vocab + 31) // 32), np.uint16)
        self._other = np.zeros_like(self._words)
        self._limits = np.empty((len(self._words), 16), np.float32)
        self._table = _limit_table()

    def fill(self, walker: Walker) -> None:
        """Take what a walker allows now; behind an error that is nothing of worth."""
        first, *others = walker.natives
        _fill(first, self._words)
        for other in others:
            _fill(other, self._other)
            self._words &= self._other

    def allowed(self) -> npt.NDArray[np.bool_]:
        """The mask [n_vocab]: True where a token is allowed."""
        raw = self._words.view(np.uint8)
        bits = np.unpackbits(raw, count=self._n_vocab, bitorder="little")
        return bits.view(np.bool_)

    def is_empty(self) -> bool:
        """Whether no token is allowed."""
        return not self._words.any()

    def applied(self, row: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """A new row [n_vocab] float32: the given one, -inf where nothing is allowed."""
        np.take(self._table, self._words, axis=0, out=self._limits, mode="clip")
        return np.minimum(self._limits.reshape(-1)[: self._n_vocab], row)


def _fill(native: llguidance.LLMatcher, words: npt.NDArray[np.uint16]) -> None:
    if not native.is_error():
        native.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)


def is_limit(walker: Walker) -> bool:
    """Whether a walker has failed because something became too much."""
    error = walker.error
    return error is not None and bool(_LIMIT.search(reason_of(error)))


def check(walker: Walker) -> None:
    """Raise RequestError if a limit was passed, InternalError for other trouble."""
    if walker.error is None:
        return
    reason = reason_of(walker.error)
    if is_limit(walker):
        message = f"the constraint is too complex at this point of the answer: {reason}"
        raise RequestError(message)
    raise InternalError(f"the constraint failed: {reason}")
