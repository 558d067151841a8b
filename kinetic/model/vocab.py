"""Text to token ids and back, with user-written markers kept plain."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from kinetic.errors import RequestError
from kinetic.model import tokenizing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kinetic.model.native.model import Model

_USER_DEFINED = 16
"""`LLAMA_TOKEN_ATTR_USER_DEFINED`: matched even when special tokens are not parsed."""

_MARKS = 1 | 8 | _USER_DEFINED
"""Tokens that text is cut at before it is tokenised: UNKNOWN, CONTROL too."""


class Vocab:
    """The vocabulary of a loaded model.

    Thread: any; everything is computed once at load.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.n_tokens = model.n_vocab
        self.bos = model.bos if model.bos >= 0 else None
        self.eos = model.eos if model.eos >= 0 else None
        self.add_bos = model.add_bos and self.bos is not None
        self.add_eos = model.add_eos and self.eos is not None
        everyone = range(model.n_vocab)
        self.ends = frozenset(t for t in everyone if model.is_end(t))
        """Tokens that end an answer; never text."""
        controls = [t for t in everyone if model.is_control(t)]
        attributes = [model.attributes(t) for t in everyone]
        users = [t for t in everyone if attributes[t] & _USER_DEFINED]
        self.controls = frozenset(controls)
        self._marks = frozenset(t for t in everyone if attributes[t] & _MARKS)
        self._special = {
            text: token
            for token in (*controls, *users)
            if (text := self._decode(token)).strip()
        }
        self.control_texts = tuple(t for t in map(self._decode, controls) if t.strip())
        """Texts of the control tokens."""
        self.user_texts = tuple(t for t in map(self._decode, users) if t.strip())
        """Texts of the user-defined tokens that are more than blanks."""
        self._markers = _alternation(text for text in self._special if len(text) > 1)
        self._any_mark = _alternation(filter(None, map(self._decode, self._marks)))
        start = model.tokenize(b"a", add_special=False, parse_special=False)
        self._adds_space = bool(start) and self._decode(start[0]).startswith(" ")
        line = model.tokenize(b"\n", add_special=False, parse_special=False)
        self._newline = tuple(line)
        plain = [model.piece(t, special=False) for t in everyone]
        self._plain = tuple(plain)
        self._lost = _bytes_without_token(self._plain) if model.is_bytewise else None

    def _tokens(
        self, text: str, *, add_special: bool, parse_special: bool
    ) -> list[int]:
        """The engine's ids of a text; raises RequestError for what it would drop."""
        raw = text.encode()
        if len(raw) > tokenizing.SHORT:
            tokenizing.check_marks(text, self._any_mark)
        if self._lost is not None and self._lost.search(raw):
            for char in sorted(set(text)):
                self._check_spelt(char)
        return self._model.tokenize(
            raw, add_special=add_special, parse_special=parse_special
        )

    def _check_spelt(self, char: str) -> None:
        raw = char.encode()
        ids = self._model.tokenize(raw, add_special=False, parse_special=False)
        if b"".join(map(self.full_piece, ids)) != raw:
            raise RequestError(
                f"has the character U+{ord(char):04X}, which this model's vocabulary"
                " cannot spell"
            )

    def _decode(self, token: int) -> str:
        return self._model.piece(token, special=True).decode("utf-8", "replace")

    def special_token(self, text: str) -> int | None:
        """The special token that is exactly `text`, if there is one."""
        return self._special.get(text)

    def visible(self, markers: Iterable[str]) -> frozenset[int]:
        """Control tokens to show as text: those of `markers` that end no answer."""
        found = (self._special.get(marker) for marker in markers)
        return frozenset(t for t in found if t is not None and t not in self.ends)

    def piece(self, token: int, visible: frozenset[int] = frozenset()) -> bytes:
        """Bytes of a token as they stand in an answer."""
        if token in visible:
            return self._model.piece(token, special=True)
        return self._plain[token]

    def full_piece(self, token: int) -> bytes:
        """Bytes of a token, control tokens included."""
        return self._model.piece(token, special=True)

    def text(self, token: int | None) -> str:
        """A token's own text; "" for None."""
        return "" if token is None else self._decode(token)

    def tokenize(self, text: str, *, add_special: bool = False) -> list[int]:
        """Token ids of text whose markers are special."""
        return self._tokens(text, add_special=add_special, parse_special=True)

    def tokenize_plain(self, text: str, *, add_special: bool = False) -> list[int]:
        """Token ids of text in which no marker is special.

        The engine matches user-defined tokens even when told not to parse special
        ones, so a marker is cut in two after its first character.
        """
        parts = []
        start = 0
        for found in self._markers.finditer(text):
            parts.append(text[start : found.start() + 1])
            start = found.start() + 1
        parts.append(text[start:])
        return self._join(parts, add_special=add_special, parse_special=False)

    def tokenize_guarded(self, text: str, guard: str | None) -> list[int]:
        """Token ids of a rendered prompt: one BOS where the model wants it.

        `guard` is the private character that stands inside markers which users
        wrote; the text is cut there, so that they stay ordinary tokens.
        """
        return self.with_bos(self.guarded_ids(text, guard))

    def guarded_ids(self, text: str, guard: str | None) -> list[int]:
        """Token ids of a piece of a rendered prompt, without a BOS of our own."""
        parts = [text] if guard is None else text.split(guard)
        return self._join(parts, add_special=False, parse_special=True)

    def with_bos(self, ids: list[int]) -> list[int]:
        """A prompt's ids with one BOS in front, where the model wants it."""
        if self.add_bos and ids[:1] != [self.bos] and self.bos is not None:
            return [self.bos, *ids]
        return ids

    def _join(
        self, parts: Sequence[str], *, add_special: bool, parse_special: bool
    ) -> list[int]:
        """Token ids of text that is cut where a marker must not be seen."""
        ids: list[int] = []
        for i, part in enumerate(parts):
            if i > 0 and self._adds_space:
                ids += self._behind(part, parse_special=parse_special)
                continue
            ids += self._tokens(
                part,
                add_special=add_special and i == 0,
                parse_special=parse_special,
            )
        return ids

    def _behind(self, part: str, *, parse_special: bool) -> list[int]:
        """Token ids of text after other text, where the engine would add a space.

        A new line in front takes that space; no token joins one with what follows.
        """
        ids = self._tokens("\n" + part, add_special=False, parse_special=parse_special)
        n = len(self._newline)
        if tuple(ids[:n]) == self._newline:
            return ids[n:]
        return self._tokens(part, add_special=False, parse_special=parse_special)

    def tokenize_prompt(self, prompt: str | Sequence[int | str]) -> list[int]:
        """Token ids of a completion's prompt: text, ids, or a mix of both.

        BOS is added where the model wants it and the prompt starts with text that
        does not already hold it. Raises RequestError for unknown ids.
        """
        parts = [prompt] if isinstance(prompt, str) else list(prompt)
        ids: list[int] = []
        for part in parts:
            if isinstance(part, str):
                ids += self.tokenize(part)
            else:
                self.check(part)
                ids.append(part)
        starts_with_text = not parts or isinstance(parts[0], str)
        if self.bos is not None and self.add_bos and starts_with_text:
            ids = ids if ids[:1] == [self.bos] else [self.bos, *ids]
        return ids

    def check(self, token: int, *, param: str = "prompt") -> None:
        """Raise RequestError unless `token` is in the vocabulary."""
        if not 0 <= token < self.n_tokens:
            message = (
                f"{param} holds token id {token}; ids are 0 to {self.n_tokens - 1}"
            )
            raise RequestError(message, param=param)

    def detokenize(self, tokens: Sequence[int]) -> bytes:
        """The text that has these checked token ids, control tokens included.

        The blank that some vocabularies put before a text, and after a marker, is
        taken away again. Ids below zero stand for pictures and have no text.
        """
        pieces = []
        begins = self._adds_space
        for token in tokens:
            piece = b"" if token < 0 else self.full_piece(token)
            is_mark = token < 0 or token in self._marks
            pieces.append(piece.removeprefix(b" ") if begins and not is_mark else piece)
            begins = self._adds_space and is_mark
        return b"".join(pieces)


def _bytes_without_token(pieces: Iterable[bytes]) -> re.Pattern[bytes] | None:
    """Finds bytes that the engine may drop: they are no token.

    None where there are none, and for vocabularies that do not spell bytes at all.
    """
    known = {piece[0] for piece in pieces if len(piece) == 1}
    missing = bytes(set(range(256)) - known)
    if not missing or not known.issuperset(range(0x20, 0x7F)):
        return None
    return re.compile(b"[" + re.escape(missing) + b"]")


def _alternation(texts: Iterable[str]) -> re.Pattern[str]:
    """Finds the longest of some texts.

    They share their beginnings: tried one by one, thousands of markers that begin with
    one character take 30 us at each of its places, and nobody else runs meanwhile.
    """
    found = frozenset(texts)
    return re.compile(_branches(found) if found else r"(?!)")


def _branches(texts: Collection[str]) -> str:
    by_head = defaultdict(list)
    for text in filter(None, texts):
        by_head[text[0]].append(text)
    options = []
    for group in by_head.values():
        shared = os.path.commonprefix(group)  # noqa: RUF071 - texts, not paths
        rests = {text.removeprefix(shared) for text in group}
        options.append(re.escape(shared) + (_branches(rests) if any(rests) else ""))
    return f"(?:{'|'.join(options)})" + ("?" if "" in texts else "")
