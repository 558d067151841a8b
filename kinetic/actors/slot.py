"""A Slot: the seat that owns one sequence and makes one answer at a time."""

from __future__ import annotations

import secrets
import string
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

import numpy as np

from kinetic.actors.base import KineticActor, tell
from kinetic.actors.generation import OutputText
from kinetic.actors.messages import (
    Begin,
    Cancel,
    Cut,
    Delta,
    Failed,
    Feed,
    FeedFailed,
    Finished,
    GenerationEnded,
    GenerationMoved,
    GenerationStarted,
    Job,
    Logits,
    PromptDone,
    PromptMoved,
    PromptScored,
    PromptState,
    Restore,
    Restored,
    Sink,
    SinkEvent,
    SlotIdle,
    SlotMessage,
    SnapshotTaken,
    Started,
    TakeSnapshot,
    Withdraw,
    Withdrawn,
)
from kinetic.errors import KineticError
from kinetic.model.chat.calls import parser_for
from kinetic.model.sampling import TokenSampler, likeliest, log_softmax
from kinetic.types import Finish, Timings, TokenLogprob, Usage

if TYPE_CHECKING:
    import numpy.typing as npt

    from kinetic.actors.system import Peers
    from kinetic.model.constraint import Matcher
    from kinetic.model.ffi import Model
    from kinetic.model.vocab import Vocab

_ALPHABET = string.ascii_letters + string.digits
_PROGRESS_EVERY = 16  # generated tokens between two progress messages to Metrics


def new_call_id() -> str:
    """An id that every chat template takes: nine letters or digits."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(9))


@dataclass(slots=True)
class _Running:
    """The generation that a slot is making."""

    job: Job
    sink: Sink
    sampler: TokenSampler
    text: OutputText
    visible: frozenset[int]
    matcher: Matcher | None
    n_cached: int
    began_s: float
    share: bool
    first_token_s: float | None = None
    n_prompt_done: int = 0
    n_generated: int = 0
    has_new_line: bool = False
    output: list[int] = field(default_factory=list)
    prompt_entries: list[TokenLogprob] = field(default_factory=list)
    start: PromptState | None = None


class Slot(KineticActor):
    """Owns one sequence. Hears: Begin, Cancel, and the Decoder's answers.

    Tells: Decoder, the request's sink, Scheduler, Metrics. Sends the next Feed before
    it does any text work, so that text is made while the next pass runs.
    """

    def __init__(
        self, slot_id: int, model: Model, vocab: Vocab, n_ctx: int, peers: Peers
    ) -> None:
        super().__init__(peers.on_death)
        self._slot_id = slot_id
        self._model = model
        self._vocab = vocab
        self._n_ctx = n_ctx
        self._peers = peers
        self._tokens: list[int] = []  # what was fed: the sequence holds a prefix of it
        self._n_prompt = 0  # how many of them were fed as a prompt
        self._serial = 0
        self._running: _Running | None = None
        self._is_owed = False  # the Decoder has something of ours to answer
        self._last: SinkEvent | None = None  # the end, told once the slot is idle
        self._closing = False  # the generation is over, Withdrawn has not come yet

    def release(self) -> None:
        """Free a sampler left over."""
        if self._running is not None:
            self._running.sampler.close()

    def hear(self, message: SlotMessage) -> None:
        """One case per message, as in messages.py."""
        match message:
            case Begin():
                self._begin(message)
            case Cancel():
                self._cancel(message)
            case Logits():
                self._logits(message)
            case Withdrawn():
                self._withdrawn(message)
            case Restored():
                self._restored(message)
            case FeedFailed():
                self._feed_failed(message)
            case SnapshotTaken():
                self._snapshot_taken(message)
            case _:
                assert_never(message)

    # --- The generation's life ------------------------------------------------------

    def _begin(self, begin: Begin) -> None:
        job = begin.job
        now = time.monotonic()
        n_prompt = len(job.prompt)
        n_cached = begin.n_keep if begin.start is None else n_prompt
        try:
            sampler = TokenSampler(
                self._model,
                job.sampling,
                job.prompt,
                self._n_ctx,
                banned=tuple(self._vocab.ends) if job.ignore_eos else (),
            )
            matcher = None if job.constraint is None else job.constraint.matcher()
        except KineticError as error:
            begin.sink.put(Failed(index=job.index, error=error))
            self._tell_idle()
            return
        parser = None if job.output is None else parser_for(job.output, new_call_id)
        self._running = _Running(
            job=job,
            sink=begin.sink,
            sampler=sampler,
            text=OutputText(stops=job.stops, parser=parser, min_indent=job.min_indent),
            visible=self._vocab.visible(job.visible_markers),
            matcher=matcher,
            n_cached=n_cached,
            began_s=now,
            share=begin.share,
            n_prompt_done=n_cached,
            start=begin.start,
        )
        begin.sink.put(
            Started(
                index=job.index,
                slot_id=self._slot_id,
                n_prompt=n_prompt,
                n_cached=n_cached,
            )
        )
        tell(
            self._peers.metrics,
            GenerationStarted(
                slot_id=self._slot_id,
                job=job,
                n_cached=n_cached,
                queued_s=_timings(self._running).queued_s,
            ),
        )
        self._say_progress(self._running)
        if begin.start is not None:
            self._restore(begin.start)
        else:
            self._feed_prompt(begin.n_keep)

    def _restore(self, start: PromptState) -> None:
        n_tokens = len(start.tokens)
        self._tokens = [int(token) for token in start.tokens]
        self._n_prompt = n_tokens
        self._is_owed = True
        message = Restore(slot_id=self._slot_id, state=start.state, n_tokens=n_tokens)
        tell(self._peers.decoder, message)

    def _restored(self, message: Restored) -> None:
        running = self._running
        self._is_owed = False
        if running is None or self._closing or running.start is None:
            return
        if message.fits:
            self._advance(running, running.start.logits[np.newaxis])
        else:
            running.n_cached = 0
            running.n_prompt_done = 0
            self._tokens = []
            self._feed_prompt(0)
        running.start = None

    def _feed_prompt(self, n_keep: int) -> None:
        running = self._running
        assert running is not None  # noqa: S101 - callers have one
        prompt = running.job.prompt
        if len(self._tokens) > n_keep:
            tell(self._peers.decoder, Cut(slot_id=self._slot_id, n_keep=n_keep))
        self._tokens = list(prompt)
        self._n_prompt = len(prompt)
        n_rows = len(prompt) - n_keep
        wanted = n_rows if running.job.prompt_logprobs else 1
        self._feed(prompt[n_keep:], first=n_keep, n_logits=wanted, is_step=False)

    def _feed(
        self, tokens: tuple[int, ...], *, first: int, n_logits: int, is_step: bool
    ) -> None:
        self._serial += 1
        self._is_owed = True
        rows = np.array(tokens, np.int32)
        rows.flags.writeable = False
        tell(
            self._peers.decoder,
            Feed(
                slot_id=self._slot_id,
                serial=self._serial,
                first=first,
                tokens=rows,
                n_logits=n_logits,
                is_step=is_step,
            ),
        )

    def _cancel(self, cancel: Cancel) -> None:
        running = self._running
        if running is None or self._closing:
            return
        if running.job.request_id != cancel.request_id:
            return
        self._close("cancelled", Failed(index=running.job.index, error=cancel.error))

    def _feed_failed(self, message: FeedFailed) -> None:
        running = self._running
        self._tokens = []
        self._n_prompt = 0
        if running is None or self._closing or message.serial != self._serial:
            return
        self._is_owed = False
        self._close("failed", Failed(index=running.job.index, error=message.error))

    def _close(self, outcome: str, last: SinkEvent) -> None:
        """End the generation; the slot is idle once the Decoder has let go.

        The sink hears `last` behind the Scheduler's SlotIdle, so that whoever goes on
        with this conversation at once finds the slot that holds it.
        """
        running = self._running
        assert running is not None  # noqa: S101 - callers have one
        self._closing = True
        self._last = last
        tell(self._peers.decoder, Withdraw(slot_id=self._slot_id, serial=self._serial))
        running.sampler.close()
        tell(
            self._peers.metrics,
            GenerationEnded(
                slot_id=self._slot_id,
                outcome=outcome,
                usage=_usage(running),
                timings=_timings(running),
                n_prompt_done=running.n_prompt_done,
                has_new_line=running.has_new_line,
            ),
        )

        if not self._is_owed:
            # Everything fed has been run: nothing to wait for.
            self._let_go(len(self._tokens))

    def _withdrawn(self, message: Withdrawn) -> None:
        if self._closing and message.serial == self._serial:
            self._let_go(message.n_past)

    def _let_go(self, n_past: int) -> None:
        running, last = self._running, self._last
        del self._tokens[n_past:]
        self._n_prompt = min(self._n_prompt, n_past)
        self._running = None
        self._last = None
        self._closing = False
        self._is_owed = False
        self._tell_idle()
        if running is not None and last is not None:
            running.sink.put(last)

    def _tell_idle(self) -> None:
        held = np.array(self._tokens, np.int32)
        held.flags.writeable = False
        tell(
            self._peers.scheduler,
            SlotIdle(slot_id=self._slot_id, tokens=held, n_prompt=self._n_prompt),
        )

    # --- Tokens ---------------------------------------------------------------------

    def _logits(self, message: Logits) -> None:
        running = self._running
        if running is None or self._closing or message.serial != self._serial:
            return
        self._is_owed = not message.is_last
        if running.first_token_s is None:
            self._prompt_ran(running, message)
        if message.is_last and not self._closing:
            self._advance(running, message.rows[-1:])

    def _prompt_ran(self, running: _Running, message: Logits) -> None:
        if running.job.prompt_logprobs:
            self._score_prompt(running, message)
        running.n_prompt_done = message.n_past
        self._say_progress(running)
        if not message.is_last:
            self._tell_moved(running)
            return
        if running.job.prompt_logprobs:
            entries = tuple(running.prompt_entries)
            running.sink.put(PromptScored(index=running.job.index, tokens=entries))
        if running.share:
            running.start = PromptState(
                state=b"",
                tokens=np.array(running.job.prompt, np.int32),
                logits=message.rows[-1],
            )
            tell(self._peers.decoder, TakeSnapshot(slot_id=self._slot_id))

    def _snapshot_taken(self, message: SnapshotTaken) -> None:
        running = self._running
        if running is None or running.start is None or running.job.group is None:
            return
        start = PromptState(
            state=message.state,
            tokens=running.start.tokens,
            logits=running.start.logits,
        )
        running.start = None
        tell(
            self._peers.scheduler,
            PromptDone(slot_id=self._slot_id, group=running.job.group, start=start),
        )

    def _score_prompt(self, running: _Running, message: Logits) -> None:
        """Each row scores the token behind it; the first token has no row."""
        prompt = running.job.prompt
        count = running.job.n_logprobs or 0
        if not running.prompt_entries:
            first = TokenLogprob(
                token_id=prompt[0],
                piece=self._vocab.full_piece(prompt[0]),
                logprob=0.0,
            )
            running.prompt_entries.append(first)
        for row in message.rows:
            at = len(running.prompt_entries)
            if at >= len(prompt):
                return
            piece = self._vocab.full_piece(prompt[at])
            running.prompt_entries.append(self._score(row, prompt[at], piece, count))

    def _score(
        self, row: npt.NDArray[np.float32], token: int, piece: bytes, count: int
    ) -> TokenLogprob:
        logprobs = log_softmax(row)
        top = tuple(
            (other, self._vocab.full_piece(other), float(logprobs[other]))
            for other in likeliest(logprobs, count)
        )
        return TokenLogprob(
            token_id=token, piece=piece, logprob=float(logprobs[token]), top=top
        )

    def _advance(self, running: _Running, rows: npt.NDArray[np.float32]) -> None:
        """Draw the next token, feed it, and only then do its text."""
        if running.first_token_s is None:
            running.first_token_s = time.monotonic()
        job = running.job
        if job.max_tokens == 0:
            self._finish(running, Finish(reason="limit"), b"", None)
            return
        row = rows[0]
        try:
            masked = row if running.matcher is None else running.matcher.mask(row)
            token = running.sampler.draw(masked)
            if running.matcher is not None:
                running.matcher.accept(token)
        except KineticError as error:
            self._close("failed", Failed(index=job.index, error=error))
            return
        running.n_generated += 1
        running.output.append(token)
        if token in self._vocab.ends:
            entry = self._entry(running, row, token, b"")
            self._finish(running, Finish(reason="eos"), b"", entry)
            return
        piece = self._vocab.piece(token, running.visible)
        limit = self._limit(running)
        if limit is not None:
            entry = self._entry(running, row, token, piece)
            self._finish(running, limit, piece, entry)
            return
        first = len(self._tokens)
        self._tokens.append(token)
        self._feed((token,), first=first, n_logits=1, is_step=True)
        self._say(running, piece, self._entry(running, row, token, piece))

    def _entry(
        self, running: _Running, row: npt.NDArray[np.float32], token: int, piece: bytes
    ) -> TokenLogprob | None:
        count = running.job.n_logprobs
        if count is None:
            return None
        if running.job.post_sampling_probs:
            # The likeliest token alone is left where nothing else can be drawn.
            left = dict(running.sampler.probabilities()) or {token: 1.0}
            top = tuple(
                (other, self._vocab.full_piece(other), p)
                for other, p in list(left.items())[:count]
                if p > 0
            )
            share = left.get(token, 1.0)
            return TokenLogprob(token_id=token, piece=piece, logprob=share, top=top)
        return self._score(row, token, piece, count)

    def _limit(self, running: _Running) -> Finish | None:
        job = running.job
        if job.max_tokens is not None and running.n_generated >= job.max_tokens:
            return Finish(reason="limit")
        if len(job.prompt) + running.n_generated >= self._n_ctx:
            return Finish(reason="limit", context_full=True)
        return None

    def _say(self, running: _Running, piece: bytes, entry: TokenLogprob | None) -> None:
        out = running.text.feed(piece, entry)
        running.has_new_line = running.has_new_line or b"\n" in piece
        finish = out.finish
        if finish is None and self._is_out_of_time(running, piece):
            finish = Finish(reason="limit")
        running.sink.put(
            Delta(
                index=running.job.index,
                pieces=out.pieces,
                tokens=(running.output[-1],),
                logprobs=out.logprobs,
                n_generated=running.n_generated,
                timings=_timings(running) if running.job.progress else None,
            )
        )
        if finish is not None:
            self._end(running, finish)
        elif running.n_generated % _PROGRESS_EVERY == 1:
            self._tell_moved(running)

    def _is_out_of_time(self, running: _Running, piece: bytes) -> bool:
        most = running.job.stop_at_newline_after_s
        if most is None or running.first_token_s is None or b"\n" not in piece:
            return False
        return time.monotonic() - running.first_token_s > most

    def _finish(
        self,
        running: _Running,
        finish: Finish,
        piece: bytes,
        entry: TokenLogprob | None,
    ) -> None:
        """Take the last token's text and end."""
        out = running.text.feed(piece, entry)
        running.has_new_line = running.has_new_line or b"\n" in piece
        last = (running.output[-1],) if running.n_generated else ()
        delta = Delta(
            index=running.job.index,
            pieces=out.pieces,
            tokens=last,
            logprobs=out.logprobs,
            n_generated=running.n_generated,
            timings=_timings(running) if running.job.progress else None,
        )
        running.sink.put(delta)
        self._end(running, out.finish or finish)

    def _say_progress(self, running: _Running) -> None:
        if running.job.progress:
            moved = PromptMoved(
                index=running.job.index,
                n_done=running.n_prompt_done,
                seconds=_timings(running).prompt_s,
            )
            running.sink.put(moved)

    def _tell_moved(self, running: _Running) -> None:
        moved = GenerationMoved(
            slot_id=self._slot_id,
            n_prompt_done=running.n_prompt_done,
            n_generated=running.n_generated,
            timings=_timings(running),
            has_new_line=running.has_new_line,
        )
        tell(self._peers.metrics, moved)

    def _end(self, running: _Running, finish: Finish) -> None:
        rest = running.text.end(truncated=finish.reason == "limit")
        if rest.pieces or rest.logprobs:
            delta = Delta(
                index=running.job.index,
                pieces=rest.pieces,
                tokens=(),
                logprobs=rest.logprobs,
                n_generated=running.n_generated,
            )
            running.sink.put(delta)
        finish = running.text.stopped or finish
        finished = Finished(
            index=running.job.index,
            finish=finish,
            usage=_usage(running),
            timings=_timings(running),
            slot_id=self._slot_id,
        )
        self._close(finish.reason, finished)


def _usage(running: _Running) -> Usage:
    return Usage(
        n_prompt=len(running.job.prompt),
        n_cached=running.n_cached,
        n_generated=running.n_generated,
    )


def _timings(running: _Running) -> Timings:
    now = time.monotonic()
    first = running.first_token_s
    return Timings(
        queued_s=max(running.began_s - running.job.arrived_s, 0.0),
        prompt_s=(now if first is None else first) - running.began_s,
        predicted_s=0.0 if first is None else now - first,
    )
