"""A Slot, unstarted: late answers, early ends, and what its sequence keeps."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from kinetic.actors.messages import (
    Begin,
    BeginText,
    Cancel,
    Cut,
    Drew,
    EndText,
    Feed,
    FeedFailed,
    Job,
    Keep,
    KeepHeld,
    KeptState,
    Logits,
    Passes,
    PromptDone,
    PromptState,
    Renew,
    Renewed,
    Restore,
    Restored,
    SlotFreed,
    SlotIdle,
    SnapshotTaken,
    Spoken,
    TakeSnapshot,
    TextEnded,
    Withdraw,
    Withdrawn,
    Yield,
)
from kinetic.actors.policy.kept import StateRules
from kinetic.actors.slot import Slot, SlotOptions
from kinetic.errors import InternalError
from kinetic.model.constraints.matching import OutgrownError, Renewal
from kinetic.types import SamplingParams
from tests.support.refs import Ref

END = 0
N_VOCAB = 8
PROMPT = (1, 2, 3)
GREEDY = SamplingParams(temperature=0)


class World:
    """A slot and those whom it tells."""

    def __init__(self, *, can_cut=True):
        self.decoder, self.text, self.scheduler = Ref(), Ref(), Ref()
        self.renewer = Ref()
        peers = SimpleNamespace(
            on_death=lambda *_: None,
            thread=None,
            decoder=self.decoder,
            detokenizer=self.text,
            scheduler=self.scheduler,
            metrics=Ref(),
            renewer=self.renewer,
            cache=None,
        )
        options = SlotOptions(
            n_ctx=64, rules=StateRules(can_cut=can_cut), can_cut=can_cut
        )
        model = SimpleNamespace(suppressed=tuple)
        vocab = SimpleNamespace(ends=frozenset({END}), n_tokens=N_VOCAB)
        self.slot = Slot(0, model, vocab, options, peers)
        self.n_past = 0
        self.generation = 0

    def begin(self, name="r", *, n_keep=0, begin=None, **named):
        job = Job(
            request_id=name,
            index=0,
            prompt=PROMPT,
            sampling=GREEDY,
            **named,
        )
        self.generation += 1
        self.slot.hear(
            Begin(
                generation=self.generation,
                job=job,
                sink=None,
                n_keep=n_keep,
                **(begin or {}),
            )
        )

    def logits(self, *tokens):
        """The rows that the newest feed asked for: each makes its token likeliest."""
        feed = self.decoder.of(Feed)[-1]
        assert feed.n_logits == len(tokens)
        rows = np.zeros((len(tokens), N_VOCAB), np.float32)
        for row, token in zip(rows, tokens, strict=True):
            row[token] = 1
        self.n_past = feed.first + len(feed.tokens)
        self.slot.hear(
            Logits(
                serial=feed.serial,
                rows=rows,
                n_past=self.n_past,
                is_last=True,
                passes=Passes(),
            )
        )

    def restored(self, restore, *, fits=True):
        self.slot.hear(Restored(serial=restore.serial, fits=fits))

    def withdrawn(self, withdraw, n_past):
        self.slot.hear(Withdrawn(serial=withdraw.serial, n_past=n_past))

    def text_ends(self, n_generated, generation=1):
        self.slot.hear(TextEnded(generation=generation, n_generated=n_generated))


def cancel(name="r"):
    return Cancel(request_id=name, error=InternalError("gone"))


def test_others_need_not_wait_for_the_text_of_an_answer_that_is_over():
    world = World()
    world.begin()
    world.logits(END)
    assert len(world.decoder.of(Withdraw)) == 1
    assert world.scheduler.told == []
    world.text_ends(1)
    (idle,) = world.scheduler.of(SlotIdle)
    assert idle.tokens.tolist() == list(PROMPT)
    assert world.text.of(SlotFreed)


def test_a_late_answer_to_a_withdrawal_ends_nothing_that_began_since():
    world = World()
    world.begin("first")
    world.logits(END)
    world.text_ends(1)
    late = world.decoder.of(Withdraw)
    assert len(world.scheduler.of(SlotIdle)) == 1
    kept = KeptState(
        state=b"state", tokens=np.array(PROMPT, np.int32), n_prompt=3, n_keep=2
    )
    world.begin("second", begin={"kept": kept})
    assert world.decoder.of(Restore)
    world.slot.hear(cancel("second"))
    for withdraw in late:
        world.withdrawn(withdraw, 3)
    assert len(world.scheduler.of(SlotIdle)) == 1, "the state is not in place yet"
    world.restored(world.decoder.of(Restore)[-1])
    assert len(world.scheduler.of(SlotIdle)) == 1
    world.withdrawn(world.decoder.of(Withdraw)[-1], 3)
    assert len(world.scheduler.of(SlotIdle)) == 2
    assert len(world.text.of(EndText)) == 1


def test_a_late_copy_of_a_prompt_is_not_told_for_another_group():
    world = World()
    world.begin("first", group="a", begin={"share": True})
    world.logits(END)
    (take,) = world.decoder.of(TakeSnapshot)
    world.slot.hear(cancel("first"))
    row = np.zeros(N_VOCAB, np.float32)
    start = PromptState(state=b"b's", tokens=np.array(PROMPT, np.int32), logits=row)
    world.begin("second", group="b", begin={"start": start})
    world.slot.hear(SnapshotTaken(serial=take.serial, state=b"a's"))
    assert world.scheduler.of(PromptDone) == []
    n_drawn = len(world.text.of(Drew))
    world.restored(world.decoder.of(Restore)[-1])
    assert len(world.text.of(Drew)) == n_drawn + 1, "the second answer goes on"


def test_tokens_drawn_behind_the_texts_end_are_dropped():
    world = World()
    world.begin(stops=("x",))
    for token in (4, 5, 6):
        world.logits(token)
    # The text ends with its first token; the third is fed and not run.
    world.text_ends(1)
    world.withdrawn(world.decoder.of(Withdraw)[-1], world.n_past)
    assert [cut.n_keep for cut in world.decoder.of(Cut)] == [len(PROMPT) + 1]
    (idle,) = world.scheduler.of(SlotIdle)
    assert idle.tokens.tolist() == [*PROMPT, 4]


def test_memory_that_cannot_drop_tokens_runs_one_ahead_of_the_text():
    world = World(can_cut=False)
    world.begin(stops=("x",))
    world.logits(4)
    assert len(world.decoder.of(Feed)) == 2, "one may be ahead"
    world.logits(5)
    assert len(world.decoder.of(Feed)) == 2
    world.slot.hear(Spoken(generation=1, n_tokens=1))
    assert [feed.tokens.tolist() for feed in world.decoder.of(Feed)[1:]] == [[4], [5]]
    world.text_ends(2)
    world.withdrawn(world.decoder.of(Withdraw)[-1], 5)
    assert world.decoder.of(Cut) == []


@pytest.mark.parametrize("named", [{}, {"n_logprobs": None}])
def test_where_only_ends_and_limits_count_nothing_waits_for_text(named):
    world = World(can_cut=False)
    world.begin(**named)
    for token in (4, 5, 6):
        world.logits(token)
    assert len(world.decoder.of(Feed)) == 4


def test_words_of_an_earlier_answer_change_nothing():
    world = World()
    world.begin("first", n_logprobs=1)
    world.logits(END)
    world.text_ends(1)
    world.begin("second", n_logprobs=1, n_keep=2)
    world.logits(4)
    feeds = len(world.decoder.of(Feed))
    world.slot.hear(Spoken(generation=1, n_tokens=40))
    world.text_ends(1, generation=1)
    assert len(world.decoder.of(Feed)) == feeds
    assert len(world.scheduler.of(SlotIdle)) == 1
    world.logits(END)
    world.text_ends(2, generation=2)
    assert len(world.scheduler.of(SlotIdle)) == 2


# --- Answers that come late, twice, or never ----------------------------------------


OTHER = (5, 6, 7, 8)


def kept_state(tokens=PROMPT, n_keep=2):
    return KeptState(
        state=b"state",
        tokens=np.array(tokens, np.int32),
        n_prompt=len(tokens),
        n_keep=n_keep,
    )


def ended(world, name="first", n_past=0, **begin):
    """An answer that was cancelled before the Decoder answered anything."""
    world.begin(name, **begin)
    world.slot.hear(cancel(name))
    world.withdrawn(world.decoder.of(Withdraw)[-1], n_past)
    assert len(world.scheduler.of(SlotIdle)) == world.generation


def what_was_told(world):
    """Everything that a late answer could have led to."""
    refs = (world.decoder, world.text, world.scheduler)
    return [list(ref.told) for ref in refs]


def test_a_state_put_back_late_is_not_the_next_answers():
    world = World()
    ended(world, begin={"kept": kept_state()})
    (late,) = world.decoder.of(Restore)
    world.begin("second", begin={"kept": kept_state()})
    before = what_was_told(world)
    world.restored(late)
    world.restored(late, fits=False)
    assert what_was_told(world) == before
    world.restored(world.decoder.of(Restore)[-1])
    (feed,) = world.decoder.of(Feed)
    assert (feed.first, feed.tokens.tolist()) == (2, [3])
    before = what_was_told(world)
    world.restored(world.decoder.of(Restore)[-1], fits=False)
    assert what_was_told(world) == before, "once is enough"


def test_a_state_that_is_never_put_back_ends_with_its_request():
    world = World()
    world.begin("first", begin={"kept": kept_state()})
    world.slot.hear(cancel("first"))
    assert world.scheduler.told == []
    world.withdrawn(world.decoder.of(Withdraw)[-1], 0)
    (idle,) = world.scheduler.of(SlotIdle)
    assert idle.tokens.tolist() == []
    assert world.text.of(SlotFreed)


def test_a_feed_that_failed_late_does_not_empty_the_next_answers_memory():
    world = World()
    ended(world)
    (late,) = world.decoder.of(Feed)
    failed = FeedFailed(serial=late.serial, error=InternalError("boom"))
    world.begin("second")
    world.logits(4)
    before = what_was_told(world)
    world.slot.hear(failed)
    assert what_was_told(world) == before
    world.logits(5)
    assert [feed.first for feed in world.decoder.of(Feed)] == [0, 0, 3, 4]


def test_rows_that_come_late_or_twice_draw_nothing():
    world = World()
    ended(world)
    late = world.decoder.of(Feed)[0]
    world.begin("second")
    rows = Logits(
        serial=late.serial,
        rows=np.zeros((1, N_VOCAB), np.float32),
        n_past=3,
        is_last=True,
        passes=Passes(),
    )
    before = what_was_told(world)
    world.slot.hear(rows)
    assert what_was_told(world) == before
    world.logits(4)
    n_drawn = len(world.text.of(Drew))
    world.slot.hear(replace(rows, serial=world.decoder.of(Feed)[-2].serial))
    assert len(world.text.of(Drew)) == n_drawn


def test_copies_are_known_by_their_questions_in_any_order():
    cache = Ref()
    world = World()
    world.slot._peers.cache = cache  # type: ignore[assignment]
    for token in (4, 5):
        world.begin(f"r{token}")
        world.logits(token)
        world.logits(END)
        world.text_ends(2, generation=world.generation)
        world.slot.hear(KeepHeld())
    first, second = world.decoder.of(TakeSnapshot)
    for take, state in ((second, b"second"), (first, b"first"), (second, b"again")):
        world.slot.hear(SnapshotTaken(serial=take.serial, state=state))
    told = [(keep.tokens.tolist(), keep.state) for keep in cache.of(Keep)]
    assert told == [([1, 2, 3, 5], b"second"), ([1, 2, 3, 4], b"first")]


def test_a_copy_of_a_prompt_is_told_once_and_only_for_its_own_answer():
    world = World()
    world.begin("first", group="a", begin={"share": True})
    world.logits(4)
    (take,) = world.decoder.of(TakeSnapshot)
    world.slot.hear(SnapshotTaken(serial=take.serial, state=b"a's"))
    world.slot.hear(SnapshotTaken(serial=take.serial, state=b"again"))
    (done,) = world.scheduler.of(PromptDone)
    assert (done.group, done.start.state) == ("a", b"a's")


def test_a_late_yield_ends_no_later_prefill():
    world = World()
    ended(world, is_prefill=True, max_tokens=0)
    world.begin("second", is_prefill=True, max_tokens=0)
    n_ends = len(world.text.of(EndText))
    world.slot.hear(Yield(generation=1))
    assert len(world.text.of(EndText)) == n_ends
    world.slot.hear(Yield(generation=2))
    world.slot.hear(Yield(generation=2))
    assert len(world.text.of(EndText)) == n_ends + 1


# --- Whatever it is told, a slot builds on its own prompt alone ---------------------


def foreign_beginnings():
    row = np.zeros(N_VOCAB, np.float32)
    other = np.array(OTHER, np.int32)
    longer = np.array((*PROMPT, 4), np.int32)
    return {
        "a kept state": {"kept": kept_state(OTHER)},
        "one that shares less": {"kept": kept_state((1, 9, 3))},
        "a group's prompt": {
            "start": PromptState(state=b"o", tokens=other, logits=row)
        },
        "a longer prompt": {
            "start": PromptState(state=b"l", tokens=longer, logits=row)
        },
    }


@pytest.mark.parametrize(
    "begin", foreign_beginnings().values(), ids=foreign_beginnings()
)
def test_a_state_of_another_prompt_is_not_put_back(begin, caplog):
    world = World()
    world.begin(begin=begin)
    assert world.decoder.of(Restore) == []
    (feed,) = world.decoder.of(Feed)
    assert (feed.first, feed.tokens.tolist()) == (0, list(PROMPT))
    assert [m.n_cached for m in world.text.of(BeginText)] == [0]
    assert "another prompt" in caplog.text


def test_memory_of_another_prompt_is_not_built_on(caplog):
    world = World()
    world.begin()
    world.logits(END)
    world.text_ends(1)
    job = Job(request_id="other", index=0, prompt=(1, 2, 9, 9), sampling=GREEDY)
    world.slot.hear(Begin(generation=2, job=job, sink=None, n_keep=3))
    assert world.decoder.of(Feed)[-1].tokens.tolist() == [1, 2, 9, 9]
    assert "another prompt" in caplog.text


def test_rows_that_come_twice_while_the_text_is_behind_draw_nothing():
    world = World(can_cut=False)
    world.begin(stops=("x",))
    world.logits(4)
    world.logits(5)
    n_drawn = len(world.text.of(Drew))
    before = what_was_told(world)
    feed = world.decoder.of(Feed)[-1]
    rows = np.zeros((1, N_VOCAB), np.float32)
    world.slot.hear(
        Logits(serial=feed.serial, rows=rows, n_past=5, is_last=True, passes=Passes())
    )
    assert what_was_told(world) == before
    assert len(world.text.of(Drew)) == n_drawn


# --- Constraints that meet a limit --------------------------------------------------


class Outgrown:
    """A constraint, and its matcher, that meets a limit at one place."""

    def __init__(self, at):
        self._at, self.accepted, self.resumed = at, [], None

    def matcher(self):
        return self

    def mask(self, row):
        if len(self.accepted) == self._at and self.resumed is None:
            raise OutgrownError
        return row

    def accept(self, token):
        self.accepted.append(token)

    def renewal(self):
        return Renewal(self, tuple(self.accepted))

    def resume(self, walker):
        self.resumed = walker


def test_a_slot_whose_constraint_met_a_limit_steps_aside_until_it_is_renewed():
    world, constraint = World(), Outgrown(at=1)
    world.begin(constraint=constraint)
    world.logits(4)
    n_feeds, n_drawn = len(world.decoder.of(Feed)), len(world.text.of(Drew))
    world.logits(5)
    assert len(world.decoder.of(Withdraw)) == 1, "no pass waits for it"
    assert len(world.decoder.of(Feed)) == n_feeds
    assert len(world.text.of(Drew)) == n_drawn
    (renew,) = world.renewer.of(Renew)
    assert renew.slot_id == 0
    assert renew.renewal.accepted == (4,)
    world.withdrawn(world.decoder.of(Withdraw)[-1], world.n_past)
    assert world.scheduler.of(SlotIdle) == []
    renewed = Renewed(serial=renew.serial, walker="a walker")
    world.slot.hear(renewed)
    assert constraint.resumed == "a walker"
    assert constraint.accepted == [4, 5]
    assert world.decoder.of(Feed)[-1].tokens.tolist() == [5]
    assert [d.token for d in world.text.of(Drew)[-1].drawn] == [5]
    before = what_was_told(world)
    world.slot.hear(renewed)
    assert what_was_told(world) == before, "once is enough"
    world.logits(END)
    assert [d.token for d in world.text.of(Drew)[-1].drawn] == [END]


def test_a_constraint_that_cannot_be_renewed_ends_its_answer():
    world = World()
    world.begin(constraint=Outgrown(at=1))
    world.logits(4)
    world.logits(5)
    error = InternalError("too complex")
    (renew,) = world.renewer.of(Renew)
    world.slot.hear(Renewed(serial=renew.serial, walker=None, error=error))
    last = world.text.of(Drew)[-1]
    assert (last.drawn, last.error) == ((), error)


def test_what_is_renewed_for_an_earlier_answer_is_dropped():
    world, constraint = World(), Outgrown(at=0)
    world.begin("first", constraint=constraint)
    world.logits(4)
    world.slot.hear(cancel("first"))
    (first,) = world.renewer.of(Renew)
    late = Renewed(serial=first.serial, walker="late")
    world.slot.hear(late)
    world.begin("second", constraint=constraint, n_keep=2)
    world.logits(4)
    second = world.renewer.of(Renew)[-1]
    world.slot.hear(late)
    assert constraint.resumed is None
    world.slot.hear(Renewed(serial=second.serial, walker="in time"))
    assert constraint.resumed == "in time"
