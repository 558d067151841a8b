"""The Scheduler, unstarted: answers that come late, twice, or never."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from kinetic.actors.messages import (
    Begin,
    Cancel,
    Failed,
    Finished,
    Job,
    KeepIdle,
    KeptState,
    LineChanged,
    Match,
    Matched,
    PromptDone,
    PromptState,
    SlotIdle,
    Submit,
    Yield,
)
from kinetic.actors.policy.beginning import BeginningRules
from kinetic.actors.policy.kept import StateRules
from kinetic.actors.policy.plan import uniform_plan
from kinetic.actors.scheduler import LATEST_ANSWER_S, Scheduler
from kinetic.errors import InternalError
from kinetic.types import SamplingParams
from tests.support.refs import Ref


class Sink:
    """Keeps a request's events."""

    def __init__(self):
        self.events = []

    def put(self, event):
        self.events.append(event)


class World:
    """A scheduler and those whom it tells."""

    def __init__(self, n_slots=1):
        self.slots = [Ref() for _ in range(n_slots)]
        self.cache, self.metrics = Ref(), Ref()
        peers = SimpleNamespace(
            on_death=lambda *_: None,
            slots=self.slots,
            decoder=Ref(),
            metrics=self.metrics,
            cache=self.cache,
        )
        self.scheduler = Scheduler(
            BeginningRules(
                plan=uniform_plan(n_sequences=n_slots),
                can_cut=True,
                states=StateRules(),
            ),
            line_limit=8,
            peers=peers,
        )
        self.scheduler.acquire()

    def submit(self, name, first, **named):
        """A request with a prompt of its own, long enough to ask the Cache for."""
        job = Job(
            request_id=name,
            index=0,
            prompt=prompt_of(first),
            sampling=SamplingParams(),
            **named,
        )
        sink = Sink()
        self.scheduler.hear(Submit(jobs=(job,), sink=sink))
        return sink

    def cancel(self, name):
        self.scheduler.hear(Cancel(request_id=name, error=InternalError("gone")))

    def answer(self, match, *, found=True):
        """The Cache's answer to a question, of that question's prompt."""
        kept = KeptState(
            state=b"state", tokens=match.prompt, n_prompt=len(match.prompt), n_keep=50
        )
        answer = Matched(generation=match.generation, kept=kept if found else None)
        self.scheduler.hear(answer)

    def idle(self, begin, slot_id=0):
        self.scheduler.hear(
            SlotIdle(
                slot_id=slot_id,
                generation=begin.generation,
                tokens=np.array(begin.job.prompt, np.int32),
                n_prompt=len(begin.job.prompt),
            )
        )

    def tick(self, now_s):
        self.scheduler.hear(KeepIdle(now_s=now_s, least_idle_s=1e9))

    @property
    def begun(self):
        return [begin for slot in self.slots for begin in slot.of(Begin)]


def prompt_of(first, n=64):
    return (first, *range(10, 9 + n))


def test_an_answer_for_a_request_that_left_starts_no_other_one():
    world = World()
    gone = world.submit("a", 1)
    world.cancel("a")
    world.submit("b", 2)
    for_a, for_b = world.cache.of(Match)
    world.answer(for_a)
    assert world.begun == [], "b goes on with nobody else's state"
    world.answer(for_b)
    (begin,) = world.begun
    assert begin.job.request_id == "b"
    assert begin.kept.tokens[0] == 2
    assert [type(event) for event in gone.events] == [Failed]


@pytest.mark.parametrize("other", ["real", "prefill"])
def test_an_answer_for_a_prefill_that_yielded_starts_no_other_job(other):
    world = World()
    prefill = world.submit("a", 1, is_prefill=True)
    world.submit("b", 2, is_prefill=other == "prefill")
    for_a, for_b = world.cache.of(Match)
    world.answer(for_a)
    assert world.begun == []
    world.answer(for_b)
    assert [begin.job.request_id for begin in world.begun] == ["b"]
    assert [type(event) for event in prefill.events] == [Finished]


@pytest.mark.parametrize("found", [True, False])
def test_an_answer_that_comes_twice_begins_once(found):
    world = World()
    world.submit("a", 1)
    (match,) = world.cache.of(Match)
    world.answer(match, found=found)
    world.answer(match)
    (begin,) = world.begun
    world.idle(begin)
    world.answer(match)
    world.submit("b", 2)
    world.answer(match)
    assert world.begun == [begin]


def test_answers_in_another_order_than_the_questions_find_their_jobs():
    world = World(n_slots=3)
    for number, name in enumerate("abc"):
        world.submit(name, number)
    for match in reversed(world.cache.of(Match)):
        world.answer(match)
    assert sorted(begin.job.request_id for begin in world.begun) == ["a", "b", "c"]
    assert all(begin.kept.tokens[0] == begin.job.prompt[0] for begin in world.begun)


def test_a_question_without_an_answer_ends_with_its_request():
    world = World()
    sink = world.submit("a", 1)
    world.cancel("a")
    assert [type(event) for event in sink.events] == [Failed]
    assert world.metrics.of(LineChanged)[-1].n_running == 0


def test_a_question_without_an_answer_is_given_up_after_a_while():
    world = World(n_slots=2)
    world.submit("a", 1)
    world.tick(100.0)
    world.tick(100.0 + LATEST_ANSWER_S / 2)
    assert world.begun == []
    world.tick(100.0 + LATEST_ANSWER_S)
    (begin,) = world.begun
    assert (begin.job.request_id, begin.kept) == ("a", None)
    world.submit("b", 2)
    assert [begin.job.request_id for begin in world.begun] == ["a", "b"]
    (match,) = world.cache.of(Match)
    world.answer(match)
    assert len(world.begun) == 2
    for slot_id, slot in enumerate(world.slots):
        for begin in slot.of(Begin):
            world.idle(begin, slot_id)
    world.submit("c", 3)
    assert len(world.cache.of(Match)) == 2, "it answered: it is asked again"


def test_a_slot_that_says_twice_that_it_is_idle_gets_one_job():
    world = World()
    world.submit("a", 1)
    world.answer(world.cache.of(Match)[-1])
    (first,) = world.begun
    world.submit("b", 2)
    world.submit("c", 3)
    world.idle(first)
    world.answer(world.cache.of(Match)[-1], found=False)
    assert [begin.job.request_id for begin in world.begun] == ["a", "b"]
    world.idle(first)
    assert [begin.job.request_id for begin in world.begun] == ["a", "b"]
    assert world.metrics.of(LineChanged)[-1].n_waiting == 1


def test_a_late_word_of_an_idle_slot_does_not_end_the_wait_for_a_prefill():
    world = World()
    world.submit("a", 1, is_prefill=True)
    world.answer(world.cache.of(Match)[-1], found=False)
    (first,) = world.begun
    world.idle(first)
    world.submit("b", 2, is_prefill=True)
    world.answer(world.cache.of(Match)[-1], found=False)
    world.submit("c", 3)
    (told,) = world.slots[0].of(Yield)
    assert told.generation == world.begun[-1].generation
    world.idle(first)
    assert len(world.begun) == 2
    world.idle(world.begun[-1])
    world.answer(world.cache.of(Match)[-1])
    assert world.begun[-1].job.request_id == "c"


def test_a_prompt_told_by_one_that_leads_no_more_changes_nothing():
    world = World(n_slots=2)
    jobs = tuple(
        Job(
            request_id="g",
            index=i,
            prompt=prompt_of(1),
            sampling=SamplingParams(),
            group="g",
        )
        for i in range(3)
    )
    world.scheduler.hear(Submit(jobs=jobs, sink=Sink()))
    world.answer(world.cache.of(Match)[-1], found=False)
    (leader,) = world.begun
    assert leader.share
    start = PromptState(
        state=b"s",
        tokens=np.array(prompt_of(1), np.int32),
        logits=np.zeros(4, np.float32),
    )
    other = 1 - world.slots.index(next(s for s in world.slots if s.of(Begin)))
    world.scheduler.hear(PromptDone(slot_id=other, group="g", start=start))
    assert len(world.begun) == 1
    world.scheduler.hear(PromptDone(slot_id=1 - other, group="g", start=start))
    assert len(world.begun) == 2
    world.scheduler.hear(PromptDone(slot_id=1 - other, group="g", start=start))
    assert len(world.begun) == 2
