"""The Decoder: the only code that decodes or touches sequence memory."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from kinetic.actors.base import KineticActor, tell
from kinetic.actors.drafting.drafter import StepClock
from kinetic.actors.encoding import PictureRun
from kinetic.actors.messages import (
    Cut,
    DecoderMessage,
    DropEmbed,
    Embed,
    EmbedStep,
    EncodeStep,
    Feed,
    FeedFailed,
    Logits,
    PassDone,
    Passes,
    PassesDone,
    Propose,
    Proposed,
    RatesMeasured,
    Restore,
    Restored,
    SnapshotTaken,
    Step,
    TakeSnapshot,
    Withdraw,
    Withdrawn,
)
from kinetic.actors.policy.plan import BatchPlan, Pending, Share, shape
from kinetic.actors.vectors import VectorRun
from kinetic.errors import InternalError
from kinetic.model.drafts.draft_model import ModelGuess
from kinetic.model.job import position_of
from kinetic.model.rows import PictureRows, Rows

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kinetic.actors.peers import Peers
    from kinetic.model.drafts.draft_model import DraftModel
    from kinetic.model.engine.api import Engine, PictureEncoder
    from kinetic.model.job import ImageSpan, Picture

_log = logging.getLogger(__name__)

_TELL_S = 0.1  # between two words to Metrics while passes are run
_RATE_ROWS = 16  # prompt rows from which on a pass tells the prompt's speed


@dataclass(slots=True)
class _Waiting:
    """A feed and how much of it has been run."""

    feed: Feed
    arrived: int
    n_done: int = 0
    digest: str = ""
    """Of the picture whose vectors are at hand."""
    vectors: tuple[npt.NDArray[np.float32], ...] = ()
    """One array for each of its tiles."""

    @property
    def index(self) -> int:
        """The prompt's token that is run next."""
        return self.feed.first + self.n_done

    @property
    def next_image(self) -> ImageSpan | None:
        """The picture that is being run, or the next one."""
        index = self.index
        return next((span for span in self.feed.images if span.end > index), None)

    @property
    def lacks(self) -> Picture | None:
        """The picture that must be encoded before anything else can be run."""
        span = self.next_image
        if span is None or span.first > self.index:
            return None
        return None if span.picture.digest == self.digest else span.picture


class Decoder(KineticActor):
    """Owns the engine's context, and has pictures encoded.

    Hears: Feed, Cut, Restore, TakeSnapshot, Propose, Withdraw, Embed, DropEmbed. Tells:
    Slot, Scheduler, Metrics. A pass is run once every slot that got logits from the
    last one has answered (by a Feed or a Withdraw), so that steps share their passes.
    """

    def __init__(
        self,
        engine: Engine,
        plan: BatchPlan,
        peers: Peers,
        encoder: PictureEncoder | None = None,
        guesser: DraftModel | None = None,
    ) -> None:
        super().__init__(peers.on_death, peers.thread)
        self._engine = engine
        self._plan = plan
        self._peers = peers
        self._vectors = VectorRun(engine, peers)
        self._pictures = PictureRun(encoder, lambda step: tell(self.actor_ref, step))
        self._guesser = guesser
        self._guesser_failed = False
        self._waiting: dict[int, _Waiting] = {}
        self._owed: set[int] = set()  # slots with logits that have not answered yet
        self._n_past = [0] * engine.n_sequences  # tokens in each sequence's memory
        self._arrivals = 0
        self._prompt_had_turn = False  # the last pass held prompt rows
        self._clock = StepClock(plan.rows_per_sequence)
        self._step_told = False  # one Step at most is in the mailbox
        self._untold: list[PassDone] = []
        self._told_s = 0.0

    def release(self) -> None:
        """Free the context in the thread that used it.

        The model stays: others may still be reading its vocabulary. Whoever loaded it
        frees it once every thread has ended.
        """
        self._pictures.close()
        if self._guesser is not None:
            self._guesser.close()
        self._engine.close_context()

    def hear(self, message: DecoderMessage) -> None:
        """One case per message, in the order of messages/decoder.py."""
        match message:
            case Feed():
                self._feed(message)
            case Cut():
                self._cut(message)
            case Restore():
                self._restore(message)
            case TakeSnapshot():
                self._snapshot(message)
            case Propose():
                self._propose(message)
            case Withdraw():
                self._withdraw(message)
            case Embed():
                self._vectors.begin(message)
                self.actor_ref.tell(EmbedStep())
            case DropEmbed():
                self._vectors.drop(message)
            case Step():
                self._step()
            case EmbedStep():
                if self._vectors.step():
                    self.actor_ref.tell(EmbedStep())
            case EncodeStep():
                self._encode_step(message)
            case _:
                assert_never(message)

    def _feed(self, feed: Feed) -> None:
        if feed.first != self._n_past[feed.slot_id]:
            message = f"slot {feed.slot_id} feeds position {feed.first} out of turn"
            raise InternalError(message)
        self._arrivals += 1
        self._waiting[feed.slot_id] = _Waiting(feed=feed, arrived=self._arrivals)
        self._owed.discard(feed.slot_id)
        self._go()

    def _cut(self, cut: Cut) -> None:
        if self._n_past[cut.slot_id] > cut.n_keep:
            self._engine.cut(cut.slot_id, cut.position)
            self._n_past[cut.slot_id] = cut.n_keep

    def _restore(self, restore: Restore) -> None:
        started = time.perf_counter()
        fits = self._engine.restore(restore.slot_id, restore.state)
        seconds = max(time.perf_counter() - started, 1e-9)
        if fits and self._peers.cache is not None:
            rate = RatesMeasured(restore_bytes_per_s=len(restore.state) / seconds)
            tell(self._peers.cache, rate)
        self._n_past[restore.slot_id] = restore.n_tokens if fits else 0
        if not fits:
            _log.warning("a kept state does not fit this engine, it is not used")
        restored = Restored(serial=restore.serial, fits=fits)
        tell(self._peers.slots[restore.slot_id], restored)

    def _snapshot(self, message: TakeSnapshot) -> None:
        state = self._engine.snapshot(message.slot_id)
        taken = SnapshotTaken(serial=message.serial, state=state)
        tell(self._peers.slots[message.slot_id], taken)

    def _propose(self, message: Propose) -> None:
        """Let the draft model guess: here, so that no two models run at once."""
        ask, guess = message.ask, ModelGuess()
        if self._guesser is not None and not self._guesser_failed:
            try:
                guess = self._guesser.guess(
                    message.slot_id,
                    ask.first,
                    ask.tokens,
                    count=ask.count,
                    least=ask.least,
                )
            except InternalError as error:
                _log.warning("the draft model failed, it is not asked again: %s", error)
                self._guesser_failed = True
        proposed = Proposed(serial=message.serial, guess=guess)
        tell(self._peers.slots[message.slot_id], proposed)

    def _withdraw(self, message: Withdraw) -> None:
        slot_id = message.slot_id
        self._waiting.pop(slot_id, None)
        self._owed.discard(slot_id)
        tell(
            self._peers.slots[slot_id],
            Withdrawn(serial=message.serial, n_past=self._n_past[slot_id]),
        )
        if not self._waiting and not self._owed:
            self._tell_passes(time.perf_counter())
        self._go()

    def _go(self) -> None:
        if self._waiting and not self._owed and not self._step_told:
            self._step_told = True
            # Told, not called: what is already in the mailbox joins this pass.
            self.actor_ref.tell(Step())

    def _step(self) -> None:
        self._step_told = False
        if self._owed:
            return
        ready = self._ready()
        if not ready:
            return
        shares = shape(
            self._plan,
            [_pending(waiting) for waiting in ready],
            n_batch=self._engine.n_batch,
            prompt_had_turn=self._prompt_had_turn,
        )
        self._run(shares)
        self._go()

    def _ready(self) -> list[_Waiting]:
        """What can be run now; what stands before a picture has it encoded first."""
        ready = []
        for waiting in self._waiting.values():
            lacking = waiting.lacks
            if lacking is not None:
                found = self._pictures.vectors(lacking)
                if found is None:
                    continue
                waiting.digest, waiting.vectors = lacking.digest, found
            ready.append(waiting)
        return ready

    def _encode_step(self, message: EncodeStep) -> None:
        if self._step_told:
            # A pass is due: one piece between two passes, not two.
            self.actor_ref.tell(message)
            return
        lacking = [(w, w.lacks.digest) for w in self._waiting.values() if w.lacks]
        ended = self._pictures.step(message, {digest for _, digest in lacking})
        if ended is None:
            self.actor_ref.tell(message)
            return
        for waiting, digest in lacking:
            if digest != ended.digest:
                continue
            if ended.error is not None:
                self._lose(waiting.feed.slot_id, ended.error)
            elif ended.vectors:
                waiting.digest, waiting.vectors = digest, ended.vectors
        self._go()

    def _run(self, shares: tuple[Share, ...]) -> None:
        rows = [self._rows(share) for share in shares]
        started = time.perf_counter()
        try:
            # Not copied: no pass is run before the slots have drawn from these.
            logits = self._engine.decode(rows, copy=False)
        except InternalError as error:
            for share in shares:
                self._lose(share.slot_id, error)
            return
        seconds = time.perf_counter() - started
        n_rows = n_prompt_rows = 0
        for share in shares:
            n_rows += share.n_rows
            if not self._waiting[share.slot_id].feed.is_step:
                n_prompt_rows += share.n_rows
        passes = self._timed(seconds, shares, n_prompt_rows)
        for share, found in zip(shares, logits, strict=True):
            self._deliver(share, found, passes)
        self._prompt_had_turn = n_prompt_rows > 0
        if n_prompt_rows >= _RATE_ROWS and self._peers.cache is not None:
            # What a step beside the prompt cost is in it: that is what a prompt
            # costs at such a time.
            rate = RatesMeasured(prompt_tokens_per_s=n_prompt_rows / seconds)
            tell(self._peers.cache, rate)
        done = PassDone(
            seconds=seconds,
            n_rows=n_rows,
            n_sequences=len(shares),
            n_prompt_rows=n_prompt_rows,
            n_max_tokens=max([self._n_past[share.slot_id] for share in shares]),
            n_held=sum(self._n_past),
        )
        self._untold.append(done)
        if started - self._told_s >= _TELL_S:
            self._tell_passes(started)

    def _tell_passes(self, now_s: float) -> None:
        """Tell Metrics of the passes it has not heard of.

        Not of each by itself: on small models that alone cost a step some percent.
        """
        if self._untold:
            tell(self._peers.metrics, PassesDone(passes=tuple(self._untold)))
            self._untold.clear()
        self._told_s = now_s

    def _rows(self, share: Share) -> Rows:
        waiting = self._waiting[share.slot_id]
        feed = waiting.feed
        end = waiting.n_done + share.n_rows
        # The wanted rows are the feed's last n_logits; this share may hold some.
        first_wanted = len(feed.tokens) - feed.n_logits
        # The feed's pictures are counted from its own first token's position on.
        ahead = position_of(feed.images, waiting.index) - feed.first
        position = feed.position + ahead
        return Rows(
            sequence=share.slot_id,
            first=position,
            tokens=feed.tokens[waiting.n_done : end],
            n_logits=min(max(end - first_wanted, 0), share.n_rows),
            embedded=_embedded(waiting, position, share.n_rows),
        )

    def _timed(
        self, seconds: float, shares: tuple[Share, ...], n_prompt_rows: int
    ) -> Passes:
        """What the slots are told of this pass and of those before."""
        if len(shares) == 1 and n_prompt_rows == 0:
            self._clock.saw(seconds, shares[0].n_rows)
        return Passes(costs=self._clock.costs, last_s=seconds, n_sequences=len(shares))

    def _deliver(
        self, share: Share, logits: npt.NDArray[np.float32], passes: Passes
    ) -> None:
        waiting = self._waiting[share.slot_id]
        waiting.n_done += share.n_rows
        self._n_past[share.slot_id] += share.n_rows
        is_last = waiting.n_done == len(waiting.feed.tokens)
        if is_last:
            del self._waiting[share.slot_id]
            self._owed.add(share.slot_id)
        # A prompt's chunk without rows is told too: it shows the slot its progress.
        tell(
            self._peers.slots[share.slot_id],
            Logits(
                serial=waiting.feed.serial,
                rows=logits,
                n_past=self._n_past[share.slot_id],
                is_last=is_last,
                passes=passes,
            ),
        )

    def _lose(self, slot_id: int, error: InternalError) -> None:
        """A failed pass leaves its sequences in an unknown state: empty them."""
        serial = self._waiting.pop(slot_id).feed.serial
        self._engine.cut(slot_id, 0)
        self._n_past[slot_id] = 0
        tell(self._peers.slots[slot_id], FeedFailed(serial=serial, error=error))


def _pending(waiting: _Waiting) -> Pending:
    feed, span = waiting.feed, waiting.next_image
    end = feed.first + len(feed.tokens)
    is_image = span is not None and span.first <= waiting.index
    if span is not None:
        end = span.end if is_image else span.first
    return Pending(
        slot_id=feed.slot_id,
        first=waiting.index,
        n_rows=end - waiting.index,
        is_step=feed.is_step,
        arrived=waiting.arrived,
        is_image=is_image,
        is_whole=is_image and span is not None and span.sees_ahead,
    )


def _embedded(waiting: _Waiting, position: int, n_rows: int) -> PictureRows | None:
    """A picture's next rows; None where tokens are next."""
    span = waiting.next_image
    if span is None or span.first > waiting.index:
        return None
    first = waiting.index - span.first
    rows = slice(first, first + n_rows)
    axes = span.tile.axes
    return PictureRows(
        vectors=waiting.vectors[span.number][rows],
        axes=None if axes is None else axes.at(position)[:, rows],
        sees_ahead=span.sees_ahead,
    )
