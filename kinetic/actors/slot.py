"""A Slot: the seat that owns one sequence and makes one answer at a time."""

from __future__ import annotations

import secrets
import string
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

import numpy as np

from kinetic.actors.base import KineticActor, tell
from kinetic.actors.drafting import Ask, DraftBasis, Drafter, Drafting, Passes
from kinetic.actors.drawing import Drawn, TokenSource
from kinetic.actors.generation import OutputText
from kinetic.actors.kept import StateRules, exact_length
from kinetic.actors.messages import (
    Begin,
    Cancel,
    Failed,
    FeedFailed,
    Finished,
    GenerationEnded,
    GenerationStarted,
    Job,
    Keep,
    KeepHeld,
    Logits,
    PromptDone,
    PromptScored,
    PromptState,
    Proposed,
    Record,
    Restored,
    SinkEvent,
    SlotIdle,
    SlotMessage,
    SnapshotTaken,
    Started,
    Withdrawn,
    Yield,
)
from kinetic.actors.running import Running
from kinetic.actors.scoring import PromptScores
from kinetic.actors.sequence import Sequence, frozen
from kinetic.errors import InternalError, KineticError
from kinetic.model.chat.calls import parser_for
from kinetic.model.sampling import TokenSampler
from kinetic.types import Finish

if TYPE_CHECKING:
    from collections.abc import Sequence as Items

    import numpy.typing as npt

    from kinetic.actors.system import Peers
    from kinetic.model.ffi import Model
    from kinetic.model.vocab import Vocab

_ALPHABET = string.ascii_letters + string.digits
_PROGRESS_EVERY = 16  # generated tokens between two progress messages to Metrics


def new_call_id() -> str:
    """An id that every chat template takes: nine letters or digits."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(9))


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOptions:
    """What all slots have in common."""

    n_ctx: int
    """Positions of one sequence."""
    rules: StateRules
    drafting: Drafting | None = None
    """How slots draft; None: not at all."""


class Slot(KineticActor):
    """Owns one sequence. Hears: Begin, KeepHeld, Yield, Cancel, the Decoder's answers.

    Tells: Decoder, the request's sink, Scheduler, Cache, Receipt, Metrics. Sends the
    next Feed before it does any text work, so that text is made while the next pass
    runs.
    """

    def __init__(
        self,
        slot_id: int,
        model: Model,
        vocab: Vocab,
        options: SlotOptions,
        peers: Peers,
    ) -> None:
        super().__init__(peers.on_death)
        self._slot_id = slot_id
        self._model = model
        self._vocab = vocab
        self._n_ctx = options.n_ctx
        self._rules = options.rules
        self._drafting = options.drafting
        self._passes = Passes()  # as the Decoder told them last
        self._peers = peers
        self._sequence = Sequence(slot_id, peers.decoder)
        self._scope: tuple[str, ...] = ()  # what the held tokens stand beside
        self._displaced: deque[Keep] = deque()  # without their states yet
        self._running: Running | None = None
        self._last: SinkEvent | None = None  # the end, told once the slot is idle
        self._closing = False  # the generation is over, Withdrawn has not come yet

    def release(self) -> None:
        """Free a sampler left over."""
        if self._running is not None:
            self._running.source.close()

    def hear(self, message: SlotMessage) -> None:
        """One case per message, in the order of messages/slot.py."""
        match message:
            case Begin():
                self._begin(message)
            case KeepHeld():
                self._keep_held()
            case Yield():
                self._yield()
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
            case Proposed():
                self._proposed(message)
            case _:
                assert_never(message)

    # --- The generation's life ------------------------------------------------------

    def _begin(self, begin: Begin) -> None:
        if begin.keep:
            self._keep_held()
        try:
            running = self._generation(begin)
        except KineticError as error:
            self._tell_idle()
            begin.sink.put(Failed(index=begin.job.index, error=error))
            return
        self._running = running
        self._scope = begin.job.scope
        begin.sink.put(
            Started(
                index=begin.job.index,
                slot_id=self._slot_id,
                n_prompt=len(begin.job.prompt),
                n_cached=running.n_cached,
            )
        )
        tell(
            self._peers.metrics,
            GenerationStarted(
                slot_id=self._slot_id,
                job=begin.job,
                n_cached=running.n_cached,
                queued_s=running.timings().queued_s,
            ),
        )
        running.tell_progress()
        if begin.start is not None:
            start = begin.start
            n_prompt = len(start.tokens)
            images = begin.job.images
            self._sequence.restore(start.tokens, n_prompt, start.state, images)
        elif begin.kept is not None:
            kept = begin.kept
            images = begin.job.images
            self._sequence.restore(kept.tokens, kept.n_prompt, kept.state, images)
        else:
            self._feed_prompt(running, begin.n_keep)
        # While the prompt is run: a long one takes a while to look through.
        running.drafter = self._drafter(running)

    def _generation(self, begin: Begin) -> Running:
        """Set up what the job needs; raises KineticError where it cannot be."""
        job = begin.job
        n_cached = begin.n_keep
        if begin.start is not None:
            n_cached = len(job.prompt)
        elif begin.kept is not None:
            n_cached = begin.kept.n_keep
        matcher = None if job.constraint is None else job.constraint.matcher()
        parser = None if job.output is None else parser_for(job.output, new_call_id)
        scores = None
        if job.prompt_logprobs:
            scores = PromptScores(self._vocab, job.prompt, job.n_logprobs or 0)
        sampler = TokenSampler(
            self._model,
            job.sampling,
            _text_tokens(job),
            self._n_ctx,
            banned=tuple(self._vocab.ends) if job.ignore_eos else (),
        )
        tells_left = job.post_sampling_probs and job.n_logprobs is not None
        return Running(
            job=job,
            sink=begin.sink,
            slot_id=self._slot_id,
            n_ctx=self._n_ctx,
            source=TokenSource(sampler, matcher, tells_left=tells_left),
            text=OutputText(stops=job.stops, parser=parser, min_indent=job.min_indent),
            visible=self._vocab.visible(job.visible_markers),
            n_cached=n_cached,
            began_s=time.monotonic(),
            share=begin.share,
            n_prompt_done=n_cached,
            scores=scores,
            start=begin.start,
            kept=begin.kept,
        )

    def _drafter(self, running: Running) -> Drafter | None:
        job = running.job
        if self._drafting is None or job.max_tokens == 0:
            return None
        basis = DraftBasis(
            slot_id=self._slot_id,
            job=job,
            matcher=running.source.matcher,
            n_vocab=self._vocab.n_tokens,
            ends=self._vocab.ends,
            n_ctx=self._n_ctx,
        )
        return self._drafting.make(basis)

    def _restored(self, message: Restored) -> None:
        running = self._running
        self._sequence.is_owed = False
        if not message.fits:
            self._sequence.lose()
        if running is None or self._closing:
            return
        start, kept = running.start, running.kept
        running.start = running.kept = None
        if not message.fits:
            running.n_cached = running.n_prompt_done = 0
            self._feed_prompt(running, 0)
        elif start is not None:
            self._advance(running, start.logits[np.newaxis])
        elif kept is not None:
            self._feed_prompt(running, kept.n_keep)

    def _feed_prompt(self, running: Running, n_keep: int) -> None:
        job = running.job
        self._sequence.feed_prompt(
            job.prompt, n_keep, all_rows=job.prompt_logprobs, images=job.images
        )

    def _yield(self) -> None:
        running = self._running
        if running is not None and running.job.is_prefill and not self._closing:
            self._close("limit", running.finished(Finish(reason="limit")))

    def _cancel(self, cancel: Cancel) -> None:
        running = self._running
        if running is None or self._closing:
            return
        if running.job.request_id != cancel.request_id:
            return
        self._close("cancelled", Failed(index=running.job.index, error=cancel.error))

    def _feed_failed(self, message: FeedFailed) -> None:
        running = self._running
        self._sequence.lose()
        if running is None or self._closing or message.serial != self._sequence.serial:
            return
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
        self._sequence.withdraw()
        running.source.close()
        tell(
            self._peers.metrics,
            GenerationEnded(
                slot_id=self._slot_id,
                outcome=outcome,
                usage=running.usage(),
                timings=running.timings(),
                n_prompt_done=running.n_prompt_done,
                has_new_line=running.has_new_line,
            ),
        )
        if not self._sequence.is_owed:
            # Everything fed has been run: nothing to wait for.
            self._let_go(len(self._sequence.tokens))

    def _withdrawn(self, message: Withdrawn) -> None:
        if self._closing and message.serial == self._sequence.serial:
            self._let_go(message.n_past)

    def _let_go(self, n_past: int) -> None:
        running, last = self._running, self._last
        self._sequence.settle(n_past)
        if running is not None and (running.drafted or running.n_drafts):
            # Drafts may stand behind the text's end, be they right or wrong.
            self._sequence.cut(len(running.job.prompt) + running.n_generated)
        self._running = None
        self._last = None
        self._closing = False
        self._tell_idle()
        if running is not None and last is not None:
            self._tell_end(running, last)

    def _tell_end(self, running: Running, last: SinkEvent) -> None:
        """Tell the request's end, or let Receipt tell it along with the receipt."""
        if running.job.receipt is None or not isinstance(last, Finished):
            running.sink.put(last)
            return
        if self._peers.receipt is None:
            error = InternalError("this server makes no receipts")
            running.sink.put(Failed(index=running.job.index, error=error))
            return
        tell(
            self._peers.receipt,
            Record(
                job=running.job,
                sink=running.sink,
                finished=last,
                tokens=tuple(running.output),
                pieces=tuple(running.delivered),
            ),
        )

    def _tell_idle(self) -> None:
        sequence = self._sequence
        tell(
            self._peers.scheduler,
            SlotIdle(
                slot_id=self._slot_id,
                tokens=sequence.held(),
                n_prompt=sequence.n_prompt,
                can_cut=self._rules.can_cut or not sequence.is_restored,
            ),
        )

    # --- Keeping --------------------------------------------------------------------

    def _keep_held(self) -> None:
        """Have the held tokens' state copied for the Cache, as far as it is exact."""
        sequence = self._sequence
        length = exact_length(self._rules, len(sequence.tokens))
        may_cut = self._rules.can_cut or not sequence.is_restored
        if length == 0 or (length < len(sequence.tokens) and not may_cut):
            return
        sequence.cut(length)
        keep = Keep(
            scope=self._scope,
            tokens=sequence.held(),
            n_prompt=sequence.n_prompt,
            state=b"",
        )
        self._displaced.append(keep)
        sequence.take_snapshot("keep")

    def _snapshot_taken(self, message: SnapshotTaken) -> None:
        if message.purpose == "keep":
            keep = self._displaced.popleft()
            if self._peers.cache is not None:
                tell(self._peers.cache, replace(keep, state=message.state))
            return
        running = self._running
        if running is None or running.start is None or running.job.group is None:
            return
        start = replace(running.start, state=message.state)
        running.start = None
        tell(
            self._peers.scheduler,
            PromptDone(slot_id=self._slot_id, group=running.job.group, start=start),
        )

    # --- Tokens ---------------------------------------------------------------------

    def _logits(self, message: Logits) -> None:
        running = self._running
        if running is None or self._closing or message.serial != self._sequence.serial:
            return
        self._sequence.is_owed = not message.is_last
        self._passes = message.passes
        rows = message.rows
        if running.first_token_s is None:
            self._prompt_ran(running, message)
            rows = rows[-1:]
        if message.is_last:
            self._advance(running, rows)

    def _prompt_ran(self, running: Running, message: Logits) -> None:
        if running.scores is not None:
            running.scores.feed(message.rows)
        running.n_prompt_done = message.n_past
        running.tell_progress()
        if not message.is_last:
            tell(self._peers.metrics, running.moved())
            return
        if running.scores is not None:
            entries = tuple(running.scores.entries)
            running.sink.put(PromptScored(index=running.job.index, tokens=entries))
        if running.share:
            prompt = frozen(running.job.prompt)
            logits = message.rows[-1]
            running.start = PromptState(state=b"", tokens=prompt, logits=logits)
            self._sequence.take_snapshot("share")

    def _advance(self, running: Running, rows: npt.NDArray[np.float32]) -> None:
        """Draw the next tokens, feed the last, and only then do their text.

        `rows` are the logits in front of each drafted token and behind the last: one
        row where nothing was drafted.
        """
        if running.first_token_s is None:
            running.first_token_s = time.monotonic()
        job = running.job
        if job.max_tokens == 0:
            running.tell((), None)
            self._end(running, Finish(reason="limit"))
            return
        ends, most = self._vocab.ends, running.room
        drafted, running.drafted = running.drafted, ()
        draws = running.source.draw(rows, drafted, most=most, ends=ends)
        if drafted:
            running.n_drafts += 1
            running.n_drafted += len(drafted)
            n_wrong = len(drafted) - draws.n_right
            self._sequence.cut(len(self._sequence.tokens) - n_wrong)
        if not draws.is_over:
            self._feed_next(running, draws.drawn)
        for i, drawn in enumerate(draws.drawn):
            running.n_accepted += i < len(drafted) and drawn.token == drafted[i]
            finish = running.say(drawn, self._vocab)
            if finish is not None:
                # Where the text ended the answer, what was drawn behind never was.
                self._end(running, finish)
                return
            if running.n_generated % _PROGRESS_EVERY == 1:
                tell(self._peers.metrics, running.moved())
        if draws.error is not None:
            self._close("failed", Failed(index=job.index, error=draws.error))

    def _feed_next(self, running: Running, drawn: Items[Drawn]) -> None:
        """Feed the last token drawn, and behind it what is likely to follow."""
        token = drawn[-1].token
        drafter, drafting = running.drafter, self._drafting
        if drafter is not None and drafting is not None:
            drafter.keep([found.token for found in drawn])
            # The last token of all is drawn from a row and never fed.
            most = min(drafting.most, running.room - len(drawn) - 1)
            if most > 0 and self._can_step_back():
                found = drafter.draft(most, self._passes)
                if isinstance(found, Ask):
                    # Text work goes on meanwhile; the Decoder waits for this slot.
                    running.unfed = (token, most)
                    self._sequence.ask(found)
                    return
                running.drafted = tuple(found)[:most]
        self._sequence.feed_step((token, *running.drafted))

    def _proposed(self, message: Proposed) -> None:
        running = self._running
        if running is None or self._closing or running.unfed is None:
            # The answer that asked is over. A later one asks behind a pass of its own,
            # before which the Decoder has answered this.
            return
        token, most = running.unfed
        running.unfed = None
        if running.drafter is not None:
            running.drafted = tuple(running.drafter.take(message.guess))[:most]
        self._sequence.feed_step((token, *running.drafted))

    def _can_step_back(self) -> bool:
        """Whether wrong drafts could be cut from the memory as it is."""
        return self._rules.can_cut or not self._sequence.is_restored

    def _end(self, running: Running, finish: Finish) -> None:
        running.tell_rest(truncated=finish.reason == "limit")
        finish = running.text.stopped or finish
        self._close(finish.reason, running.finished(finish))


def _text_tokens(job: Job) -> tuple[int, ...]:
    """The prompt as penalties see it: pictures are no words."""
    if not job.images:
        return job.prompt
    return tuple(token for token in job.prompt if token >= 0)
