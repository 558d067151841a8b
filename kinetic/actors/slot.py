"""A Slot: the seat that owns one sequence and makes one answer at a time."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

import numpy as np

from kinetic.actors.base import KineticActor, tell
from kinetic.actors.drafting.drafter import DraftBasis, Drafter, Drafting
from kinetic.actors.messages import (
    Ask,
    Begin,
    BeginText,
    Cancel,
    Drew,
    EndText,
    Failed,
    FeedFailed,
    Job,
    Keep,
    KeepHeld,
    KeptState,
    Logits,
    Passes,
    PrefixLost,
    PromptDone,
    PromptRan,
    PromptState,
    Proposed,
    Renew,
    Renewed,
    Restored,
    SlotFreed,
    SlotIdle,
    SlotMessage,
    SnapshotTaken,
    Spoken,
    TextEnded,
    Withdrawn,
    Yield,
)
from kinetic.actors.policy.kept import StateRules, exact_length
from kinetic.actors.policy.prefix import shared_length
from kinetic.actors.slots.drawing import Draws, TokenSource
from kinetic.actors.slots.running import PromptCopy, Running
from kinetic.actors.slots.sequence import Sequence, frozen
from kinetic.actors.slots.stages import (
    Closing,
    Guessing,
    Lagging,
    Prompting,
    Renewing,
    Restoring,
    Spent,
    Stepping,
)
from kinetic.errors import KineticError
from kinetic.model.constraints.matching import Renewal
from kinetic.model.sampler_chain import TokenSampler
from kinetic.types import Outcome

if TYPE_CHECKING:
    import numpy.typing as npt

    from kinetic.actors.peers import Peers
    from kinetic.model.native.model import Model
    from kinetic.model.vocab import Vocab

_log = logging.getLogger(__name__)

_MOST_UNSPOKEN = 32
"""Tokens with their rows that may wait to become text: rows are large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOptions:
    """What all slots have in common."""

    n_ctx: int
    """Positions of one sequence."""
    rules: StateRules
    can_cut: bool
    """Whether memory that was not put back can drop its last tokens."""
    drafting: Drafting | None = None
    """How slots draft; None: not at all."""


class Slot(KineticActor):
    """Owns one sequence. Hears: Begin, KeepHeld, Yield, Cancel, what others answer.

    Tells: Decoder, Detokenizer, Scheduler, Cache, Renewer. Runs in the Decoder's
    thread: between two passes there is nothing but drawing to do, and drawing is done
    between passes.
    """

    def __init__(
        self,
        slot_id: int,
        model: Model,
        vocab: Vocab,
        options: SlotOptions,
        peers: Peers,
    ) -> None:
        super().__init__(peers.on_death, peers.thread)
        self._slot_id = slot_id
        self._model = model
        self._vocab = vocab
        self._n_ctx = options.n_ctx
        self._rules = options.rules
        self._can_cut = options.can_cut
        self._drafting = options.drafting
        self._passes = Passes()  # as the Decoder told them last
        self._peers = peers
        self._sequence = Sequence(slot_id, peers.decoder)
        self._scope: tuple[str, ...] = ()  # what the held tokens stand beside
        self._displaced: dict[int, Keep] = {}  # without their states yet, by serial
        self._running: Running | None = None

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
                self._yield(message)
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
            case Renewed():
                self._renewed(message)
            case Spoken():
                self._spoken(message)
            case TextEnded():
                self._text_ended(message)
            case _:
                assert_never(message)

    # --- The generation's life ------------------------------------------------------

    def _begin(self, begin: Begin) -> None:
        if begin.keep:
            self._keep_held()
        began_s = time.monotonic()
        begin, job = self._trusted(begin), begin.job
        try:
            running = self._generation(begin)
        except KineticError as error:
            self._tell_idle(begin.generation)
            begin.sink.put(Failed(index=job.index, error=error))
            return
        self._running = running
        self._scope = job.scope
        n_cached = begin.n_keep
        if begin.start is not None:
            n_cached = len(job.prompt)
            self._restore(running, begin.start, n_cached)
        elif begin.kept is not None:
            n_cached = begin.kept.n_keep
            self._restore(running, begin.kept, begin.kept.n_prompt)
        else:
            self._feed_prompt(running, n_cached)
        tell(
            self._peers.detokenizer,
            BeginText(
                slot_id=self._slot_id,
                generation=running.generation,
                job=job,
                sink=begin.sink,
                n_cached=n_cached,
                began_s=began_s,
                tells_spoken=running.lead is not None,
            ),
        )
        running.drafter = self._drafter(running)

    def _trusted(self, begin: Begin) -> Begin:
        """Without what does not belong to the job's own prompt: that would be a bug.

        It would be another conversation's memory, so nobody's word is taken for it.
        """
        prompt = frozen(begin.job.prompt)
        start, kept = begin.start, begin.kept
        if start is not None:
            belongs = np.array_equal(start.tokens, prompt)
        elif kept is not None:
            belongs = kept.n_keep <= shared_length(prompt, kept.tokens)
        else:
            belongs = begin.n_keep == 0 or begin.n_keep <= shared_length(
                prompt, self._sequence.held()
            )
        if belongs:
            return begin
        _log.error(
            "slot %d was to build on another prompt's memory: it runs the whole prompt",
            self._slot_id,
        )
        return replace(begin, start=None, kept=None, n_keep=0)

    def _generation(self, begin: Begin) -> Running:
        """Set up what the job needs; raises KineticError where it cannot be."""
        job = begin.job
        matcher = None if job.constraint is None else job.constraint.matcher()
        sampler = TokenSampler(
            self._model,
            job.sampling,
            _text_tokens(job),
            self._n_ctx,
            banned=tuple(self._vocab.ends) if job.ignore_eos else (),
        )
        tells_any = job.n_logprobs is not None
        return Running(
            job=job,
            generation=begin.generation,
            n_ctx=self._n_ctx,
            source=TokenSource(
                sampler,
                matcher,
                tells_row=tells_any and not job.post_sampling_probs,
                tells_left=tells_any and job.post_sampling_probs,
            ),
            share=begin.share,
            lead=self._lead(job),
        )

    def _lead(self, job: Job) -> int | None:
        """How many drawn tokens may wait to become text; None: any number."""
        if not self._can_cut and (job.stops or job.output is not None):
            # What is run after the text's end would stay, and no later prompt begins
            # with it.
            return 1
        return None if job.n_logprobs is None else _MOST_UNSPOKEN

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

    def _restore(
        self, running: Running, state: PromptState | KeptState, n_prompt: int
    ) -> None:
        running.stage = Restoring(state)
        images = running.job.images
        self._sequence.restore(state.tokens, n_prompt, state.state, images)

    def _restored(self, message: Restored) -> None:
        running = self._answered(message.serial)
        if running is None or not isinstance(running.stage, Restoring):
            return
        state = running.stage.state
        self._sequence.settle(len(self._sequence.tokens) if message.fits else 0)
        if not message.fits:
            tell(self._peers.detokenizer, PrefixLost(slot_id=self._slot_id))
            self._feed_prompt(running, 0)
        elif isinstance(state, PromptState):
            self._advance(running, state.logits[np.newaxis])
        else:
            self._feed_prompt(running, state.n_keep)

    def _answered(self, serial: int) -> Running | None:
        """The generation that asked; None where it has gone on since."""
        return self._running if serial == self._sequence.serial else None

    def _feed_prompt(self, running: Running, n_keep: int) -> None:
        job = running.job
        running.stage = Prompting()
        self._sequence.feed_prompt(
            job.prompt, n_keep, all_rows=job.prompt_logprobs, images=job.images
        )

    def _yield(self, message: Yield) -> None:
        running = self._running
        if running is not None and running.generation == message.generation:
            self._cut_short(running, Outcome.LIMIT)

    def _cancel(self, cancel: Cancel) -> None:
        running = self._running
        if running is not None and running.job.request_id == cancel.request_id:
            self._cut_short(running, Outcome.CANCELLED, cancel.error)

    def _feed_failed(self, message: FeedFailed) -> None:
        running = self._answered(message.serial)
        if running is not None and isinstance(running.stage, Prompting | Stepping):
            self._sequence.settle(0)
            self._cut_short(running, Outcome.FAILED, message.error)

    def _cut_short(
        self, running: Running, outcome: Outcome, error: KineticError | None = None
    ) -> None:
        """End the generation before its text ends."""
        if isinstance(running.stage, Closing):
            return
        end = EndText(slot_id=self._slot_id, outcome=outcome, error=error)
        tell(self._peers.detokenizer, end)
        self._close(running)

    def _text_ended(self, message: TextEnded) -> None:
        running = self._running
        if running is None or running.generation != message.generation:
            return
        # What was drawn after the text's end never was.
        running.n_drawn = message.n_generated
        if not isinstance(running.stage, Closing):
            self._close(running)

    def _close(self, running: Running) -> None:
        """Let the sequence go; the slot is idle once the Decoder has let go, too."""
        running.stage = Closing()
        self._sequence.withdraw()
        running.source.close()
        if not self._sequence.is_owed:
            # Everything fed has been run: nothing to wait for.
            self._let_go(running, len(self._sequence.tokens))

    def _withdrawn(self, message: Withdrawn) -> None:
        running = self._answered(message.serial)
        if running is not None and isinstance(running.stage, Closing):
            self._let_go(running, message.n_past)

    def _let_go(self, running: Running, n_past: int) -> None:
        self._sequence.settle(n_past)
        if self._can_drop():
            # What was drawn, or drafted, after the text's end.
            self._sequence.cut(len(running.job.prompt) + running.n_drawn)
        self._running = None
        self._tell_idle(running.generation)
        # After SlotIdle, so that whoever goes on with this conversation at once finds
        # the slot that holds it.
        tell(self._peers.detokenizer, SlotFreed(slot_id=self._slot_id))

    def _tell_idle(self, generation: int) -> None:
        sequence = self._sequence
        tell(
            self._peers.scheduler,
            SlotIdle(
                slot_id=self._slot_id,
                generation=generation,
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
        self._displaced[sequence.take_snapshot()] = keep

    def _snapshot_taken(self, message: SnapshotTaken) -> None:
        keep = self._displaced.pop(message.serial, None)
        if keep is not None:
            if self._peers.cache is not None:
                tell(self._peers.cache, replace(keep, state=message.state))
            return
        running = self._running
        copy = None if running is None else running.copy
        if running is None or copy is None or copy.serial != message.serial:
            return
        running.copy = None
        done = PromptDone(
            slot_id=self._slot_id,
            group=copy.group,
            start=replace(copy.start, state=message.state),
        )
        tell(self._peers.scheduler, done)

    # --- Tokens ---------------------------------------------------------------------

    def _logits(self, message: Logits) -> None:
        if not self._peers.decoder.is_alive():
            # It died after this pass, and the rows' memory went with it.
            return
        running = self._answered(message.serial)
        if running is None or not isinstance(running.stage, Prompting | Stepping):
            return
        self._sequence.is_owed = not message.is_last
        self._passes = message.passes
        rows = message.rows
        drafted: tuple[int, ...] = ()
        if isinstance(running.stage, Stepping):
            drafted = running.stage.drafted
        else:
            self._prompt_ran(running, message)
            rows = rows[-1:]
        if message.is_last:
            self._advance(running, rows, drafted)

    def _prompt_ran(self, running: Running, message: Logits) -> None:
        job = running.job
        ran = PromptRan(
            slot_id=self._slot_id,
            n_done=message.n_past,
            is_last=message.is_last,
            rows=_own(message.rows) if job.prompt_logprobs else None,
        )
        tell(self._peers.detokenizer, ran)
        if message.is_last and running.share and job.group is not None:
            start = PromptState(
                state=b"", tokens=frozen(job.prompt), logits=_own(message.rows[-1])
            )
            serial = self._sequence.take_snapshot()
            running.copy = PromptCopy(serial=serial, group=job.group, start=start)

    def _advance(
        self,
        running: Running,
        rows: npt.NDArray[np.float32],
        drafted: tuple[int, ...] = (),
    ) -> None:
        """Draw the next tokens, feed the last, and hand them on to become text.

        `rows` are the logits in front of each drafted token and after the last: one
        row where nothing was drafted.
        """
        draws: Draws | Renewal = Draws((), 0, is_over=True)
        if running.job.max_tokens != 0:
            ends, most = self._vocab.ends, running.room
            draws = running.source.draw(rows, drafted, most=most, ends=ends)
        self._drew(running, draws, drafted)

    def _renewed(self, message: Renewed) -> None:
        running = self._answered(message.serial)
        if running is not None and isinstance(running.stage, Renewing):
            drafted = running.stage.drafted
            draws = running.source.resume(message.walker, message.error)
            self._drew(running, draws, drafted)

    def _drew(
        self, running: Running, draws: Draws | Renewal, drafted: tuple[int, ...]
    ) -> None:
        if isinstance(draws, Renewal):
            # Withdrawn, so that the others' passes do not wait for it.
            running.stage = Renewing(drafted)
            self._sequence.withdraw()
            serial = self._sequence.serial
            renew = Renew(slot_id=self._slot_id, serial=serial, renewal=draws)
            tell(self._peers.renewer, renew)
            return
        running.n_drawn += len(draws.drawn)
        if drafted:
            n_wrong = len(drafted) - draws.n_right
            self._sequence.cut(len(self._sequence.tokens) - n_wrong)
        if draws.is_over:
            # Nothing follows: the others' pass need not wait for this one's text.
            running.stage = Spent()
            self._sequence.withdraw()
        else:
            self._go_on(running, tuple(drawn.token for drawn in draws.drawn))
        drew = Drew(
            slot_id=self._slot_id,
            drawn=draws.drawn,
            drafted=drafted,
            at_s=time.monotonic(),
            error=draws.error,
        )
        tell(self._peers.detokenizer, drew)

    def _go_on(self, running: Running, tokens: tuple[int, ...]) -> None:
        """Feed what was drawn, unless the text is too far behind."""
        behind = running.n_drawn - running.n_spoken
        if running.lead is not None and behind > running.lead:
            running.stage = Lagging(tokens)
        else:
            self._feed_next(running, tokens)

    def _spoken(self, message: Spoken) -> None:
        running = self._running
        if running is not None and running.generation == message.generation:
            running.n_spoken = max(running.n_spoken, message.n_tokens)
            if isinstance(running.stage, Lagging):
                self._go_on(running, running.stage.tokens)

    def _feed_next(self, running: Running, tokens: tuple[int, ...]) -> None:
        """Feed the last token drawn, and after it what is likely to follow."""
        token = tokens[-1]
        drafted: tuple[int, ...] = ()
        drafter, drafting = running.drafter, self._drafting
        if drafter is not None and drafting is not None:
            drafter.keep(tokens)
            # The last token of all is drawn from a row and never fed.
            most = min(drafting.most, running.room - 1)
            if most > 0 and self._can_drop():
                found = drafter.draft(most, self._passes)
                if isinstance(found, Ask):
                    running.stage = Guessing(token, most)
                    self._sequence.ask(found)
                    return
                drafted = tuple(found)[:most]
        self._feed_step(running, token, drafted)

    def _proposed(self, message: Proposed) -> None:
        running = self._answered(message.serial)
        if running is None or not isinstance(running.stage, Guessing):
            return
        asked = running.stage
        drafted: tuple[int, ...] = ()
        if running.drafter is not None:
            drafted = tuple(running.drafter.take(message.guess))[: asked.most]
        self._feed_step(running, asked.token, drafted)

    def _feed_step(
        self, running: Running, token: int, drafted: tuple[int, ...]
    ) -> None:
        running.stage = Stepping(drafted)
        self._sequence.feed_step((token, *drafted))

    def _can_drop(self) -> bool:
        """Whether the memory can drop its last tokens as it is, whatever was drafted.

        Recurrent memory cannot; a window cannot once a state was put back.
        """
        return self._can_cut and (self._rules.can_cut or not self._sequence.is_restored)


def _own(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """A copy, read-only, that outlives the pass."""
    rows = rows.copy()
    rows.flags.writeable = False
    return rows


def _text_tokens(job: Job) -> tuple[int, ...]:
    """The prompt as penalties see it: pictures are no words."""
    if not job.images:
        return job.prompt
    return tuple(token for token in job.prompt if token >= 0)
