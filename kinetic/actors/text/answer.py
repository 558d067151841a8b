"""One answer's text as it grows: what its request hears and what is counted of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kinetic.actors.messages import (
    Delta,
    Failed,
    Finished,
    GenerationEnded,
    GenerationMoved,
    PromptMoved,
    PromptScored,
)
from kinetic.actors.text.scoring import score, score_drawn
from kinetic.types import CallPiece, Finish, Outcome, Timings, TokenLogprob, Usage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kinetic.actors.messages import BeginText, Drawn, Drew, SinkEvent
    from kinetic.actors.text.output import Output, OutputText
    from kinetic.actors.text.scoring import PromptScores
    from kinetic.errors import KineticError
    from kinetic.model.vocab import Vocab
    from kinetic.types import OutputPiece, ToolCall


@dataclass(slots=True, kw_only=True)
class Answer:
    """The answer that a slot is making. Thread: the Detokenizer's."""

    begun: BeginText
    vocab: Vocab
    n_ctx: int
    """Positions of the slot's sequence."""
    text: OutputText
    visible: frozenset[int]
    """Control tokens to show as text."""
    scores: PromptScores | None
    n_cached: int
    n_prompt_done: int
    first_token_s: float | None = None
    n_generated: int = 0
    n_drafts: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    has_new_line: bool = False
    output: list[int] = field(default_factory=list)
    delivered: list[OutputPiece] = field(default_factory=list)
    """Kept for a receipt alone."""
    written: list[bytes] = field(default_factory=list)
    """Kept for a verdict alone, as the next."""
    calls: list[ToolCall] = field(default_factory=list)
    last: SinkEvent | None = None
    """The end, told once the slot is idle."""

    # --- What comes in --------------------------------------------------------------

    def prompt_ran(
        self, n_done: int, rows: npt.NDArray[np.float32] | None, *, is_last: bool
    ) -> None:
        """A piece of the prompt was run; `rows` [n, n_vocab] where it is scored."""
        self.n_prompt_done = n_done
        if self.scores is not None and rows is not None:
            self.scores.feed(rows)
        self.tell_progress()
        if is_last and self.scores is not None:
            entries = tuple(self.scores.entries)
            self.put(PromptScored(index=self.begun.job.index, tokens=entries))

    def say(self, drew: Drew) -> Outcome | None:
        """Count what a pass gave and tell its text; the outcome if the answer ends."""
        if self.first_token_s is None:
            self.first_token_s = drew.at_s
        if self.begun.job.max_tokens == 0:
            self._tell((), None)
            return self._end(Finish(reason=Outcome.LIMIT))
        drafted = drew.drafted
        self.n_drafts += bool(drafted)
        self.n_drafted += len(drafted)
        for i, drawn in enumerate(drew.drawn):
            self.n_accepted += i < len(drafted) and drawn.token == drafted[i]
            finish = self._say(drawn)
            if finish is not None:
                # Where the text ended the answer, what was drawn later never was.
                return self._end(finish)
        if drew.error is not None:
            return self.fail(Outcome.FAILED, drew.error)
        return None

    def _say(self, drawn: Drawn) -> Finish | None:
        """Count a token and tell its text; why the answer ends with it, if it does."""
        self.n_generated += 1
        self.output.append(drawn.token)
        vocab = self.vocab
        is_end = drawn.token in vocab.ends
        piece = b"" if is_end else vocab.piece(drawn.token, self.visible)
        if self.begun.job.verdict is not None:
            self.written.append(piece)
        out = self.text.feed(piece, self._entry(drawn, piece))
        self.has_new_line = self.has_new_line or b"\n" in piece
        finish = Finish(reason=Outcome.EOS) if is_end else self._limit()
        finish = out.finish or finish
        if finish is None and self._is_out_of_time(piece):
            finish = Finish(reason=Outcome.LIMIT)
        self._tell((drawn.token,), out)
        return finish

    def _entry(self, drawn: Drawn, piece: bytes) -> TokenLogprob | None:
        job = self.begun.job
        count = job.n_logprobs
        if count is None:
            return None
        if drawn.row is None:
            return score_drawn(self.vocab, drawn.left, drawn.token, piece, count)
        return score(self.vocab, drawn.row, drawn.token, piece, count)

    def _limit(self) -> Finish | None:
        job = self.begun.job
        if job.max_tokens is not None and self.n_generated >= job.max_tokens:
            return Finish(reason=Outcome.LIMIT)
        if len(job.prompt) + self.n_generated >= self.n_ctx:
            return Finish(reason=Outcome.LIMIT, context_full=True)
        return None

    def _is_out_of_time(self, piece: bytes) -> bool:
        most = self.begun.job.stop_at_newline_after_s
        if most is None or self.first_token_s is None or b"\n" not in piece:
            return False
        return time.monotonic() - self.first_token_s > most

    # --- Its end --------------------------------------------------------------------

    def _end(self, finish: Finish) -> Outcome:
        rest = self.text.end(truncated=finish.reason is Outcome.LIMIT)
        if rest.pieces or rest.logprobs:
            self._tell((), rest)
        return self.finish(self.text.stopped or finish)

    def finish(self, finish: Finish) -> Outcome:
        """End it as it is; the outcome."""
        self.last = Finished(
            index=self.begun.job.index,
            warnings=self._warnings(finish),
            finish=finish,
            usage=self.usage(),
            timings=self.timings(),
            slot_id=self.begun.slot_id,
        )
        return finish.reason

    def _warnings(self, finish: Finish) -> tuple[str, ...]:
        """What a whole answer's schema has against it; one that was cut has none."""
        verdict = self.begun.job.verdict
        if verdict is None or finish.reason not in {Outcome.EOS, Outcome.CALLS}:
            return ()
        text = b"".join(self.written).decode("utf-8", "replace")
        return verdict.warnings(text, self.calls)

    def fail(self, outcome: Outcome, error: KineticError) -> Outcome:
        """End it by an error; the outcome."""
        self.last = Failed(
            index=self.begun.job.index,
            error=error,
            usage=self.usage(),
            timings=self.timings(),
        )
        return outcome

    # --- What the request's sink hears ----------------------------------------------

    def put(self, event: SinkEvent) -> None:
        """Tell the request."""
        self.begun.sink.put(event)

    def _tell(self, tokens: tuple[int, ...], out: Output | None) -> None:
        """Tell the tokens drawn since the last delta, and what their text gave."""
        job = self.begun.job
        delta = Delta(
            index=job.index,
            pieces=() if out is None else out.pieces,
            tokens=tokens,
            logprobs=() if out is None else out.logprobs,
            n_generated=self.n_generated,
            timings=self.timings() if job.progress else None,
        )
        if job.receipt is not None:
            self.delivered += delta.pieces
        if job.verdict is not None:
            calls = [p.call for p in delta.pieces if isinstance(p, CallPiece)]
            self.calls += calls
        self.put(delta)

    def tell_progress(self) -> None:
        """Tell how far the prompt is, where that was asked for."""
        if self.begun.job.progress:
            moved = PromptMoved(
                index=self.begun.job.index,
                n_done=self.n_prompt_done,
                seconds=self.timings().prompt_s,
            )
            self.put(moved)

    # --- What is counted of it ------------------------------------------------------

    def usage(self) -> Usage:
        """Tokens up to now."""
        return Usage(
            n_prompt=len(self.begun.job.prompt),
            n_cached=self.n_cached,
            n_generated=self.n_generated,
            n_drafts=self.n_drafts,
            n_drafted=self.n_drafted,
            n_accepted=self.n_accepted,
        )

    def timings(self) -> Timings:
        """Times up to now."""
        now = time.monotonic()
        began_s, first = self.begun.began_s, self.first_token_s
        return Timings(
            queued_s=max(began_s - self.begun.job.arrived_s, 0.0),
            prompt_s=(now if first is None else first) - began_s,
            predicted_s=0.0 if first is None else now - first,
        )

    def moved(self) -> GenerationMoved:
        """How far it is, for Metrics."""
        return GenerationMoved(
            slot_id=self.begun.slot_id,
            n_prompt_done=self.n_prompt_done,
            n_generated=self.n_generated,
            timings=self.timings(),
            has_new_line=self.has_new_line,
            n_drafted=self.n_drafted,
            n_accepted=self.n_accepted,
        )

    def ended(self, outcome: Outcome) -> GenerationEnded:
        """That it is over, for Metrics."""
        return GenerationEnded(
            slot_id=self.begun.slot_id,
            outcome=outcome,
            usage=self.usage(),
            timings=self.timings(),
            n_prompt_done=self.n_prompt_done,
            has_new_line=self.has_new_line,
        )
