"""A vocabulary of the 256 bytes, so that constraints can be tried byte by byte."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from kinetic.model.constraints.constraint import ConstraintCompiler
from kinetic.model.constraints.matching import Constraint, Matcher, OutgrownError
from kinetic.types import ConstraintSpec

END = 256
_ROW = np.zeros(END + 1, np.float32)
_CLOSING = b'"]}'


class ByteModel:
    """The part of `Model` that a compiler asks."""

    n_vocab = END + 1

    def tokenize(
        self, text: bytes, *, add_special: bool, parse_special: bool
    ) -> list[int]:
        del add_special
        return [END] if parse_special and text == b"<end>" else list(text)


class ByteVocab:
    """The part of `Vocab` that a compiler asks."""

    ends = frozenset([END])
    controls = frozenset([END])

    def piece(self, token: int) -> bytes:
        return b"" if token == END else bytes([token])

    def full_piece(self, token: int) -> bytes:
        return b"<end>" if token == END else bytes([token])

    def special_token(self, text: str) -> int | None:
        return END if text == "<end>" else None


def new_compiler(**options: Any) -> ConstraintCompiler:
    """A compiler for bytes."""
    return ConstraintCompiler(
        cast("Any", ByteModel()), cast("Any", ByteVocab()), **options
    )


@functools.cache
def compiler() -> ConstraintCompiler:
    """One compiler for all tests."""
    return new_compiler()


def compiled(kind: str, source: str, **fields: Any) -> Constraint:
    """A constraint over bytes."""
    return compiler().compile(ConstraintSpec(kind=kind, source=source, **fields))


def allowed(row: np.ndarray[Any, Any]) -> list[int]:
    """Tokens that a masked row leaves."""
    found: list[int] = np.isfinite(row).nonzero()[0].tolist()
    return found


def masked(matcher: Matcher) -> np.ndarray[Any, Any]:
    """A row as the matcher masks it, renewed here where it has met a limit."""
    try:
        return matcher.mask(_ROW)
    except OutgrownError:
        matcher.resume(matcher.renewal().walker())
        return matcher.mask(_ROW)


def accepts(constraint: Constraint, text: str | bytes) -> bool:
    """Whether an answer may be exactly this text."""
    matcher = constraint.matcher()
    for byte in text.encode() if isinstance(text, str) else text:
        if byte not in allowed(masked(matcher)):
            return False
        matcher.accept(byte)
    return END in allowed(masked(matcher))


@dataclass(frozen=True)
class Sample:
    """An answer drawn from what the masks allow."""

    text: str
    is_finished: bool


def sample(
    constraint: Constraint,
    rng: random.Random,
    *,
    most: int = 120,
    hurry: Sequence[int] = _CLOSING,
) -> Sample:
    """Draw an answer; `hurry` lists bytes that are taken more often than others."""
    matcher = constraint.matcher()
    out = bytearray()
    for _ in range(most):
        options = allowed(masked(matcher))
        if END in options:
            options.remove(END)
            if not options or rng.random() < 0.3:
                return Sample(out.decode("utf-8"), is_finished=True)
        closing = [byte for byte in options if byte in hurry]
        take_closing = closing and rng.random() < 0.35
        byte = rng.choice(closing if take_closing else options)
        matcher.accept(byte)
        out.append(byte)
    return Sample(out.decode("utf-8", "replace"), is_finished=False)
