"""A small model that guesses how a larger one's answers go on."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kinetic.errors import ModelError
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from kinetic.model.vocab import Vocab

_log = logging.getLogger(__name__)

CATCH_UP: Final = 256
"""Tokens of a text that are read in one go, so that nobody waits long for them."""

MOST_PADDING: Final = 128
"""How many tokens one vocabulary may have more: files are padded differently."""

_SMOOTHING = 0.2
_N_MEASURED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGuess:
    """What the draft model would go on with."""

    tokens: tuple[int, ...] = ()
    chances: tuple[float, ...] = ()
    """How likely it holds each token, from 0 to 1."""
    step_s: float = 0.0
    """How long it takes for a token, about."""
    n_steps: int = 0
    """Tokens it computed for this, the one it was not sure enough of included."""


class DraftModel:
    """Goes on with texts, one for each slot. Thread: the Decoder's.

    Nothing here has to be exact, so its engine may use every fast kernel: a guess is
    only ever compared with what the model draws.
    """

    def __init__(self, engine: LlamaEngine, *, n_target: int) -> None:
        """Take an engine with one sequence for each slot, whose memory can be cut.

        `n_target` is the size of the vocabulary that it guesses for.
        """
        self._engine = engine
        self._n_vocab = engine.model.n_vocab
        self._n_common = min(self._n_vocab, n_target)
        self._texts: list[list[int]] = [[] for _ in range(engine.n_sequences)]
        self._held: list[list[int]] = [[] for _ in range(engine.n_sequences)]
        # Leading tokens of each text that are known to stand in memory.
        self._n_same = [0] * engine.n_sequences
        self.step_s = self._measured()
        """How long a token takes, about."""

    def _measured(self) -> float:
        """Run a few tokens, so that nobody has to find out on an answer."""
        token = np.zeros(1, np.int32)
        times = []
        for first in range(min(_N_MEASURED, self._engine.n_ctx)):
            started = time.perf_counter()
            self._engine.decode([Rows(0, first, token, 1)])
            times.append(time.perf_counter() - started)
        self._engine.cut(0, 0)
        # The first ones make room and warm up; a pause of the machine is no step.
        return min(times)

    def guess(
        self,
        slot_id: int,
        first: int,
        tokens: Sequence[int],
        *,
        count: int,
        least: float,
    ) -> ModelGuess:
        """Take what is new in a slot's text, and go on with it.

        A text that it is far behind with is read a piece at a time: then there is no
        guess yet.

        Args:
            slot_id: Whose text.
            first: Where the new tokens begin; what stood there is replaced.
            tokens: The text's tokens from there on.
            count: Most tokens to guess.
            least: How sure it must be of each, from 0 to 1.

        Raises InternalError when the engine fails.
        """
        text = self._texts[slot_id]
        del text[first:]
        text.extend(tokens)
        n_same = self._compared(slot_id, first)
        behind = text[n_same:]
        too_long = len(text) + count > self._engine.n_ctx
        if too_long or not all(0 <= token < self._n_vocab for token in behind):
            return ModelGuess()
        self._cut(slot_id, n_same)
        piece, is_whole = behind[:CATCH_UP], len(behind) <= CATCH_UP
        row = self._run(slot_id, piece, n_logits=int(is_whole))
        if not is_whole:
            return ModelGuess()
        return self._go_on(slot_id, row[0], count, least)

    def _compared(self, slot_id: int, first: int) -> int:
        """Leading tokens of the text that stand in memory; the last is run again.

        What was compared before and stands in front of `first` is so still.
        """
        text, held = self._texts[slot_id], self._held[slot_id]
        most = min(len(text) - 1, len(held))
        n = min(self._n_same[slot_id], first, most)
        while n < most and text[n] == held[n]:
            n += 1
        self._n_same[slot_id] = n
        return n

    def _go_on(
        self, slot_id: int, row: npt.NDArray[np.float32], count: int, least: float
    ) -> ModelGuess:
        found: list[int] = []
        chances: list[float] = []
        n_steps = 0
        while True:
            n_steps += 1
            token, chance = likeliest_of(row[: self._n_common])
            if chance < least:
                break
            found.append(token)
            chances.append(chance)
            if len(found) == count:
                break
            row = self._run(slot_id, [token], n_logits=1)[0]
        return ModelGuess(
            tokens=tuple(found),
            chances=tuple(chances),
            step_s=self.step_s,
            n_steps=n_steps,
        )

    def _run(
        self, slot_id: int, tokens: Sequence[int], *, n_logits: int
    ) -> npt.NDArray[np.float32]:
        held = self._held[slot_id]
        started = time.perf_counter()
        done = 0
        while True:
            piece = np.array(tokens[done : done + self._engine.n_batch], np.int32)
            is_last = done + len(piece) == len(tokens)
            wanted = n_logits if is_last else 0
            (rows,) = self._engine.decode([Rows(slot_id, len(held), piece, wanted)])
            held.extend(piece.tolist())
            done += len(piece)
            if is_last:
                break
        if len(tokens) == 1:
            self._took(time.perf_counter() - started)
        return rows

    def _cut(self, slot_id: int, n_keep: int) -> None:
        held = self._held[slot_id]
        if len(held) > n_keep:
            self._engine.cut(slot_id, n_keep)
            del held[n_keep:]

    def _took(self, seconds: float) -> None:
        self.step_s += _SMOOTHING * (min(seconds, 2 * self.step_s) - self.step_s)

    def close(self) -> None:
        """Free the model, in the thread that used it."""
        self._engine.close()


def likeliest_of(row: npt.NDArray[np.float32]) -> tuple[int, float]:
    """The likeliest token of a row [n_vocab] float32, and its probability."""
    best = int(row.argmax())
    shares = np.exp(row - row[best])
    return best, float(1 / shares.sum())


def load_draft_model(
    path: Path, target: LlamaEngine, *, n_gpu_layers: int = 0
) -> DraftModel:
    """Load a model that drafts for `target`; raises ModelError where it cannot."""
    engine = LlamaEngine(
        path,
        EngineOptions(
            n_ctx=target.n_ctx,
            n_parallel=target.n_sequences,
            n_batch=min(target.n_batch, CATCH_UP),
            n_threads=target.options.n_threads,
            n_gpu_layers=n_gpu_layers,
            flash_attention=True,
            extra_buffers=True,
        ),
    )
    try:
        _check(engine, target)
    except BaseException:
        engine.close()
        raise
    return DraftModel(engine, n_target=target.model.n_vocab)


def _check(engine: LlamaEngine, target: LlamaEngine) -> None:
    name = engine.path.name
    if engine.kind != "text":
        raise ModelError(f"{name} makes no text: it cannot draft")
    if not engine.can_cut:
        raise ModelError(
            f"{name} cannot draft: its memory cannot step back behind a wrong guess"
        )
    if difference := vocab_difference(target.vocab, engine.vocab):
        raise ModelError(
            f"{name} cannot draft for {target.path.name}, their vocabularies differ:"
            f" {difference}"
        )


def vocab_difference(target: Vocab, draft: Vocab) -> str:
    """The first thing that two vocabularies differ in; "" where ids mean the same."""
    sizes = (target.n_tokens, draft.n_tokens)
    if abs(sizes[0] - sizes[1]) > MOST_PADDING:
        return f"{sizes[0]} tokens against {sizes[1]}"
    common = range(min(sizes))
    for token in common:
        pieces = (target.full_piece(token), draft.full_piece(token))
        if pieces[0] != pieces[1]:
            return f"token {token} is {_shown(pieces[0])} against {_shown(pieces[1])}"
    for name, ours, theirs in (
        ("control", target.controls, draft.controls),
        ("end", target.ends, draft.ends),
    ):
        for token in sorted(ours ^ theirs):
            if token in common:
                whose = "the first" if token in ours else "the second"
                shown = _shown(target.full_piece(token))
                return f"token {token}, {shown}, is {name} token of {whose} alone"
    if target.bos != draft.bos:
        return f"a text begins with token {target.bos} against {draft.bos}"
    return ""


def _shown(piece: bytes) -> str:
    return repr(piece.decode("utf-8", "replace"))
