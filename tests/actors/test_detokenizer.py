"""The Detokenizer, unstarted: draws in, deltas, ends and words to the others out."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

from kinetic.actors.detokenizer import Detokenizer
from kinetic.actors.messages import (
    BeginText,
    Delta,
    Drawn,
    Drew,
    EndText,
    Failed,
    Finished,
    GenerationEnded,
    GenerationMoved,
    GenerationStarted,
    Job,
    PrefixLost,
    PromptRan,
    Record,
    SlotFreed,
    Spoken,
    Started,
    TextEnded,
)
from kinetic.errors import InternalError
from kinetic.model.chat.reply.calls import OutputFormat
from kinetic.model.constraints.json_schema.judge import Judge
from kinetic.model.constraints.texts import text_matches
from kinetic.model.constraints.verdict import Verdict
from kinetic.types import Finish, SamplingParams
from tests.support.refs import Ref

END = 0
ROW = np.log(np.arange(1, 129, dtype=np.float32))


class Letters:
    """A vocabulary of single bytes."""

    ends = frozenset({END})

    def visible(self, markers):
        return frozenset()

    def piece(self, token, visible=frozenset()):
        return bytes([token])

    full_piece = piece


class Sink:
    def __init__(self):
        self.events = []

    def put(self, event):
        self.events.append(event)

    @property
    def text(self):
        deltas = [event for event in self.events if isinstance(event, Delta)]
        return "".join(piece.text for delta in deltas for piece in delta.pieces)


@pytest.fixture
def world():
    peers = SimpleNamespace(
        on_death=lambda *_: None, metrics=Ref(), slots=[Ref(), Ref()], receipt=None
    )
    actor = Detokenizer(Letters(), 64, peers)
    return SimpleNamespace(actor=actor, peers=peers, sink=Sink(), slot=peers.slots[1])


def begin(world, *, generation=7, n_cached=0, tells_spoken=False, **named):
    job = Job(
        request_id="r",
        index=3,
        prompt=(1, 2, 3, 4),
        sampling=SamplingParams(temperature=0),
        **named,
    )
    begun = BeginText(
        slot_id=1,
        generation=generation,
        job=job,
        sink=world.sink,
        n_cached=n_cached,
        began_s=time.monotonic(),
        tells_spoken=tells_spoken,
    )
    world.actor.hear(begun)
    return job


def drew(world, text, *, drafted=(), error=None, row=None):
    tokens = [END if letter == "$" else ord(letter) for letter in text]
    drawn = tuple(Drawn(token, row, ()) for token in tokens)
    drafted = tuple(map(ord, drafted))
    world.actor.hear(
        Drew(
            slot_id=1,
            drawn=drawn,
            drafted=drafted,
            at_s=time.monotonic(),
            error=error,
        )
    )


def free(world):
    world.actor.hear(SlotFreed(slot_id=1))


def test_an_answer_begins_with_its_slot_and_ends_when_the_slot_is_free(world):
    begin(world, n_cached=2)
    drew(world, "H")
    drew(world, "i")
    drew(world, "$")
    assert world.sink.text == "Hi"
    assert not isinstance(world.sink.events[-1], Finished)
    assert world.slot.of(TextEnded) == [TextEnded(generation=7, n_generated=3)]
    free(world)
    first, last = world.sink.events[0], world.sink.events[-1]
    assert first == Started(index=3, slot_id=1, n_prompt=4, n_cached=2)
    assert isinstance(last, Finished)
    assert (last.finish, last.index, last.slot_id) == (Finish(reason="eos"), 3, 1)
    assert (last.usage.n_prompt, last.usage.n_cached, last.usage.n_generated) == (
        4,
        2,
        3,
    )
    kinds = [type(message) for message in world.peers.metrics.told]
    assert kinds == [GenerationStarted, GenerationMoved, GenerationEnded]


def test_nothing_drawn_behind_a_stop_string_is_told_or_counted(world):
    begin(world, stops=("lo",))
    drew(world, "hel")
    drew(world, "lo wo", drafted="lo wo")
    drew(world, "rld", drafted="rld")
    free(world)
    last = world.sink.events[-1]
    assert world.sink.text == "hel"
    assert last.finish == Finish(reason="stop", stop_string="lo")
    usage = last.usage
    assert (usage.n_generated, usage.n_drafts) == (5, 1)
    assert (usage.n_drafted, usage.n_accepted) == (5, 2)
    assert world.slot.of(TextEnded) == [TextEnded(generation=7, n_generated=5)]


@pytest.mark.parametrize(
    ("named", "text", "said", "finish"),
    [
        ({"max_tokens": 2}, "abc", "ab", Finish(reason="limit")),
        ({}, "x" * 70, "x" * 60, Finish(reason="limit", context_full=True)),
        ({"max_tokens": 0}, "", "", Finish(reason="limit")),
    ],
)
def test_limits_end_an_answer(world, named, text, said, finish):
    begin(world, **named)
    drew(world, text)
    free(world)
    assert world.sink.text == said
    assert world.sink.events[-1].finish == finish


def test_an_error_comes_behind_the_text_in_front_of_it(world):
    begin(world)
    error = InternalError("no token is left")
    drew(world, "ab", error=error)
    assert world.sink.text == "ab"
    free(world)
    end = world.sink.events[-1]
    assert (end.index, end.error, end.usage.n_generated) == (3, error, 2)
    (ended,) = world.peers.metrics.of(GenerationEnded)
    assert (ended.outcome, ended.usage.n_generated) == ("failed", 2)


def test_what_the_slot_cuts_short_ends_once_and_says_no_more(world):
    begin(world)
    drew(world, "a")
    error = InternalError("the client is gone")
    world.actor.hear(EndText(slot_id=1, outcome="cancelled", error=error))
    drew(world, "bc$")
    free(world)
    assert world.sink.text == "a"
    (end,) = [e for e in world.sink.events if isinstance(e, Finished | Failed)]
    assert (end.index, end.error, end.usage.n_generated) == (3, error, 1)
    assert end.timings is not None
    assert [e.outcome for e in world.peers.metrics.of(GenerationEnded)] == ["cancelled"]


def test_an_answer_that_has_ended_is_not_cut_short_any_more(world):
    begin(world)
    drew(world, "a$")
    late = EndText(slot_id=1, outcome="cancelled", error=InternalError("gone"))
    world.actor.hear(late)
    free(world)
    ends = [e for e in world.sink.events if isinstance(e, Finished | Failed)]
    assert [end.finish.reason for end in ends] == ["eos"]
    assert len(world.peers.metrics.of(GenerationEnded)) == 1


def test_a_prefill_that_yields_is_finished_by_its_limit(world):
    begin(world, max_tokens=0)
    world.actor.hear(PromptRan(slot_id=1, n_done=2, is_last=False))
    world.actor.hear(EndText(slot_id=1, outcome="limit"))
    free(world)
    assert world.sink.events[-1].finish == Finish(reason="limit")
    (ended,) = world.peers.metrics.of(GenerationEnded)
    assert ended.n_prompt_done == 2


def test_a_prefix_that_was_lost_is_not_counted_as_cached(world):
    begin(world, n_cached=3)
    world.actor.hear(PrefixLost(slot_id=1))
    world.actor.hear(PromptRan(slot_id=1, n_done=4, is_last=True))
    drew(world, "$")
    free(world)
    assert world.sink.events[-1].usage.n_cached == 0


def test_the_slot_hears_how_far_the_text_is_where_rows_wait_for_it(world):
    begin(world, n_logprobs=1, tells_spoken=True)
    drew(world, "ab", row=ROW)
    drew(world, "c", row=ROW)
    assert [s.n_tokens for s in world.slot.of(Spoken)] == [2, 3]
    entries = [
        entry
        for event in world.sink.events
        if isinstance(event, Delta)
        for entry in event.logprobs
    ]
    assert [entry.token_id for entry in entries] == [97, 98, 99]
    assert entries[0].logprob == pytest.approx(np.log(98 / np.arange(1, 129).sum()))


def test_no_word_goes_to_the_slot_where_nothing_waits(world):
    begin(world)
    drew(world, "abc")
    assert world.slot.told == []


def test_metrics_hear_of_the_first_token_and_of_every_sixteenth(world):
    begin(world)
    for _ in range(40):
        drew(world, "x")
    moved = world.peers.metrics.of(GenerationMoved)
    assert [message.n_generated for message in moved] == [1, 17, 33]


def test_a_receipt_tells_the_end_in_place_of_the_detokenizer(world):
    world.peers.receipt = Ref()
    job = begin(world, receipt={"any": "thing"})
    drew(world, "hi$")
    free(world)
    assert not isinstance(world.sink.events[-1], Finished)
    (record,) = world.peers.receipt.of(Record)
    assert record.job is job
    assert record.tokens == (ord("h"), ord("i"), END)
    assert "".join(piece.text for piece in record.pieces) == "hi"


# --- Verdicts -----------------------------------------------------------------------

VERDICT = Verdict(answer=Judge('{"not": {"const": [3]}}', text_matches))


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("[3]$", ('the answer: it breaks "not" of the schema, at /',)),
        ("[4]$", ()),
    ],
)
def test_a_whole_answer_is_judged(world, text, warnings):
    begin(world, verdict=VERDICT)
    drew(world, text[:2])
    drew(world, text[2:])
    free(world)
    assert world.sink.events[-1].warnings == warnings


def test_an_answer_that_was_cut_is_not_judged(world):
    begin(world, verdict=VERDICT, max_tokens=3)
    drew(world, "[3]")
    free(world)
    assert world.sink.events[-1].finish.reason == "limit"
    assert world.sink.events[-1].warnings == ()


def test_the_calls_of_an_answer_are_judged(world):
    tools = ({"type": "function", "function": {"name": "add", "parameters": {}}},)
    output = OutputFormat(family="generic", tools=tools, forced=True)
    judge = Judge('{"properties": {"a": false}}', text_matches)
    begin(world, verdict=Verdict(calls={"add": judge}), output=output)
    drew(world, '{"name": "add", "arguments": {"a": 1}}$')
    free(world)
    said = 'call 0, add: it breaks "properties" of the schema, at /'
    assert world.sink.events[-1].warnings == (said,)
