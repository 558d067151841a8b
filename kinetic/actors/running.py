"""One generation as its slot knows it: what it counts, says and has room for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kinetic.actors.messages import (
    Delta,
    Finished,
    GenerationMoved,
    PromptMoved,
)
from kinetic.actors.scoring import score, score_drawn
from kinetic.types import Finish, Timings, TokenLogprob, Usage

if TYPE_CHECKING:
    from kinetic.actors.drafting import Drafter
    from kinetic.actors.drawing import Drawn, TokenSource
    from kinetic.actors.generation import Output, OutputText
    from kinetic.actors.messages import Job, KeptState, PromptState, Sink
    from kinetic.actors.scoring import PromptScores
    from kinetic.model.vocab import Vocab
    from kinetic.types import OutputPiece


@dataclass(slots=True, kw_only=True)
class Running:
    """The generation that a slot is making. Thread: the slot's."""

    job: Job
    sink: Sink
    slot_id: int
    n_ctx: int
    """Positions of the slot's sequence."""
    source: TokenSource
    text: OutputText
    visible: frozenset[int]
    """Control tokens to show as text."""
    n_cached: int
    began_s: float
    share: bool
    """The prompt's state is for others too."""
    n_prompt_done: int
    scores: PromptScores | None
    start: PromptState | None
    """The prompt as another one has run it, until it is put back; or as it is run here,
    until its state is copied for others."""
    kept: KeptState | None
    """What is being put back."""
    drafter: Drafter | None = None
    drafted: tuple[int, ...] = ()
    """What the last feed's tokens but the first are: guessed, to be checked."""
    unfed: tuple[int, int] | None = None
    """A token that waits for drafts, and how many there may be."""
    first_token_s: float | None = None
    n_generated: int = 0
    n_drafts: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    has_new_line: bool = False
    output: list[int] = field(default_factory=list)
    delivered: list[OutputPiece] = field(default_factory=list)
    """Kept for a receipt alone."""

    @property
    def room(self) -> int:
        """How many more tokens the answer may have; at least one while it runs."""
        room = self.n_ctx - len(self.job.prompt)
        if self.job.max_tokens is not None:
            room = min(room, self.job.max_tokens)
        return room - self.n_generated

    def say(self, drawn: Drawn, vocab: Vocab) -> Finish | None:
        """Count a token and tell its text; why the answer ends with it, if it does."""
        self.n_generated += 1
        self.output.append(drawn.token)
        is_end = drawn.token in vocab.ends
        piece = b"" if is_end else vocab.piece(drawn.token, self.visible)
        out = self.text.feed(piece, self._entry(drawn, piece, vocab))
        self.has_new_line = self.has_new_line or b"\n" in piece
        finish = Finish(reason="eos") if is_end else self._limit()
        finish = out.finish or finish
        if finish is None and self._is_out_of_time(piece):
            finish = Finish(reason="limit")
        self.tell((drawn.token,), out)
        return finish

    def _entry(self, drawn: Drawn, piece: bytes, vocab: Vocab) -> TokenLogprob | None:
        count = self.job.n_logprobs
        if count is None:
            return None
        if self.job.post_sampling_probs:
            return score_drawn(vocab, drawn.left, drawn.token, piece, count)
        return score(vocab, drawn.row, drawn.token, piece, count)

    def _limit(self) -> Finish | None:
        most = self.job.max_tokens
        if most is not None and self.n_generated >= most:
            return Finish(reason="limit")
        if len(self.job.prompt) + self.n_generated >= self.n_ctx:
            return Finish(reason="limit", context_full=True)
        return None

    def _is_out_of_time(self, piece: bytes) -> bool:
        most = self.job.stop_at_newline_after_s
        if most is None or self.first_token_s is None or b"\n" not in piece:
            return False
        return time.monotonic() - self.first_token_s > most

    # --- What the request's sink hears ----------------------------------------------

    def tell(self, tokens: tuple[int, ...], out: Output | None) -> None:
        """Tell the tokens drawn since the last delta, and what their text gave."""
        delta = Delta(
            index=self.job.index,
            pieces=() if out is None else out.pieces,
            tokens=tokens,
            logprobs=() if out is None else out.logprobs,
            n_generated=self.n_generated,
            timings=self.timings() if self.job.progress else None,
        )
        if self.job.receipt is not None:
            self.delivered += delta.pieces
        self.sink.put(delta)

    def tell_rest(self, *, truncated: bool) -> None:
        """Tell what the text held back; the answer is over."""
        rest = self.text.end(truncated=truncated)
        if rest.pieces or rest.logprobs:
            self.tell((), rest)

    def tell_progress(self) -> None:
        """Tell how far the prompt is, where that was asked for."""
        if self.job.progress:
            moved = PromptMoved(
                index=self.job.index,
                n_done=self.n_prompt_done,
                seconds=self.timings().prompt_s,
            )
            self.sink.put(moved)

    # --- What is told of it ---------------------------------------------------------

    def usage(self) -> Usage:
        """Tokens up to now."""
        return Usage(
            n_prompt=len(self.job.prompt),
            n_cached=self.n_cached,
            n_generated=self.n_generated,
            n_drafts=self.n_drafts,
            n_drafted=self.n_drafted,
            n_accepted=self.n_accepted,
        )

    def timings(self) -> Timings:
        """Times up to now."""
        now = time.monotonic()
        first = self.first_token_s
        return Timings(
            queued_s=max(self.began_s - self.job.arrived_s, 0.0),
            prompt_s=(now if first is None else first) - self.began_s,
            predicted_s=0.0 if first is None else now - first,
        )

    def moved(self) -> GenerationMoved:
        """How far it is, for Metrics."""
        return GenerationMoved(
            slot_id=self.slot_id,
            n_prompt_done=self.n_prompt_done,
            n_generated=self.n_generated,
            timings=self.timings(),
            has_new_line=self.has_new_line,
            n_drafted=self.n_drafted,
            n_accepted=self.n_accepted,
        )

    def finished(self, finish: Finish) -> Finished:
        """Its end, for the sink."""
        return Finished(
            index=self.job.index,
            finish=finish,
            usage=self.usage(),
            timings=self.timings(),
            slot_id=self.slot_id,
        )
