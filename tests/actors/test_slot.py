"""A Slot, unstarted: late answers, early ends, and what its sequence keeps."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from kinetic.actors.drafting import Passes
from kinetic.actors.kept import StateRules
from kinetic.actors.messages import (
    Begin,
    Cancel,
    Cut,
    Drew,
    EndText,
    Feed,
    Job,
    KeptState,
    Logits,
    PromptDone,
    PromptState,
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
)
from kinetic.actors.slot import Slot, SlotOptions
from kinetic.errors import InternalError
from kinetic.types import SamplingParams
from tests.support.refs import Ref

END = 0
N_VOCAB = 8
PROMPT = (1, 2, 3)


class World:
    """A slot and those whom it tells."""

    def __init__(self, *, can_cut=True):
        self.decoder, self.text, self.scheduler = Ref(), Ref(), Ref()
        peers = SimpleNamespace(
            on_death=lambda *_: None,
            thread=None,
            decoder=self.decoder,
            detokenizer=self.text,
            scheduler=self.scheduler,
            metrics=Ref(),
            cache=None,
        )
        options = SlotOptions(
            n_ctx=64, rules=StateRules(can_cut=can_cut), can_cut=can_cut
        )
        model = SimpleNamespace(suppressed=tuple)
        vocab = SimpleNamespace(ends=frozenset({END}), n_tokens=N_VOCAB)
        self.slot = Slot(0, model, vocab, options, peers)
        self.n_past = 0

    def begin(self, name="r", *, n_keep=0, begin=None, **named):
        job = Job(
            request_id=name,
            index=0,
            prompt=PROMPT,
            sampling=SamplingParams(temperature=0),
            **named,
        )
        self.slot.hear(Begin(job=job, sink=None, n_keep=n_keep, **(begin or {})))

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
    world.slot.hear(Restored(fits=True))
    world.withdrawn(world.decoder.of(Withdraw)[-1], 3)
    assert len(world.scheduler.of(SlotIdle)) == 2
    assert len(world.text.of(EndText)) == 1


def test_a_late_copy_of_a_prompt_is_not_told_for_another_group():
    world = World()
    world.begin("first", group="a", begin={"share": True})
    world.logits(END)
    assert [take.purpose for take in world.decoder.of(TakeSnapshot)] == ["share"]
    world.slot.hear(cancel("first"))
    row = np.zeros(N_VOCAB, np.float32)
    start = PromptState(state=b"b's", tokens=np.array(PROMPT, np.int32), logits=row)
    world.begin("second", group="b", begin={"start": start})
    world.slot.hear(SnapshotTaken(purpose="share", state=b"a's", n_past=3))
    assert world.scheduler.of(PromptDone) == []
    n_drawn = len(world.text.of(Drew))
    world.slot.hear(Restored(fits=True))
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
