"""The actors together: ends, cancels, bounds, deaths. On a tiny random model."""

from __future__ import annotations

import threading

import pytest

from kinetic.actors.base import PING, KineticActor, tell
from kinetic.actors.policy.plan import uniform_plan
from kinetic.actors.slot import Slot
from kinetic.actors.system import ActorSystem, SystemOptions
from kinetic.errors import InternalError, Overloaded, RequestError, ShuttingDown
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.types import SamplingParams
from tests.support import tiny_models
from tests.support.answers import Harness, running

GONE = RequestError("the client is gone")


def uniform(engine):
    return uniform_plan(n_sequences=engine.n_sequences)


@pytest.fixture
def harness():
    with running(
        tiny_models.qwen3(), uniform, n_ctx=512, n_parallel=2, n_threads=1
    ) as h:
        yield h


@pytest.fixture
def dying():
    """A harness whose actors may die."""
    engine = LlamaEngine(
        tiny_models.qwen3(), EngineOptions(n_ctx=512, n_parallel=2, n_threads=1)
    )
    h = Harness(engine, uniform(engine))
    h.system.start()
    yield h
    h.system.stop()
    engine.close()


def break_decode(h, error, *, after=0):
    """Let the engine's decode raise from the given pass on; returns the mender."""
    whole = h.engine.context.decode
    left = [after]

    def decode(rows, **named):
        left[0] -= 1
        if left[0] < 0:
            raise error
        return whole(rows, **named)

    h.engine.context.decode = decode

    def mend():
        h.engine.context.decode = whole

    return mend


def long_job(h, **named):
    return h.job("The sea", max_tokens=400, ignore_eos=True, **named)


def test_every_job_starts_once_and_ends_once(harness):
    collectors = [harness.submit(harness.job(f"{i} is")) for i in range(8)]
    for collector in collectors:
        (answer,) = collector.wait()
        assert answer.started == 1
        assert collector.ends == 1
        assert answer.error is None
    harness.wait_idle()
    assert harness.system.n_open == 0


def test_no_tokens_are_made_where_none_are_asked_for(harness):
    answer = harness.answer("The sea", max_tokens=0)
    assert answer.tokens == []
    assert answer.finish.reason == "limit"


def test_an_answer_ends_where_the_context_does(harness):
    prompt = list(range(40, 40 + harness.engine.n_ctx - 1))
    answer = harness.answer(prompt, max_tokens=None, ignore_eos=True)
    assert len(answer.tokens) == 1
    assert (answer.finish.reason, answer.finish.context_full) == ("limit", True)
    prompt = prompt[: harness.engine.n_ctx - 5]
    answer = harness.answer(prompt, max_tokens=None, ignore_eos=True)
    assert len(answer.tokens) == 5


def test_end_tokens_are_never_drawn_where_they_are_to_be_ignored(harness):
    answer = harness.answer("The sea", max_tokens=300, ignore_eos=True)
    assert len(answer.tokens) == 300
    assert not set(answer.tokens) & harness.engine.vocab.ends


def test_a_job_that_nothing_can_be_drawn_for_fails_alone(harness):
    n = harness.engine.vocab.n_tokens
    banned = SamplingParams(logit_bias=tuple((t, float("-inf")) for t in range(n)))
    other = harness.submit(long_job(harness))
    answer = harness.answer("The sea", sampling=banned)
    assert isinstance(answer.error, RequestError)
    assert other.wait()[0].error is None


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_running_job_ends_within_a_pass_when_it_is_cancelled(harness, after):
    collector = harness.submit(long_job(harness))
    collector.wait_until(lambda c: c.n_tokens >= after)
    harness.system.cancel(collector.request_id, GONE)
    (answer,) = collector.wait()
    assert answer.error is GONE
    harness.wait_idle()


def test_a_waiting_job_is_dropped_when_it_is_cancelled(harness):
    busy = [harness.submit(long_job(harness)) for _ in range(2)]
    waiting = harness.submit(long_job(harness))
    harness.system.cancel(waiting.request_id, GONE)
    assert waiting.wait()[0].error is GONE
    assert waiting.answers[0].started == 0
    for collector in busy:
        harness.system.cancel(collector.request_id, GONE)
        collector.wait()


def test_a_job_is_cancelled_in_the_middle_of_its_prompt(harness):
    prompt = list(range(100, 600))[:500]
    collector = harness.submit(harness.job(prompt, max_tokens=4))
    collector.wait_until(lambda c: c.answers[0].started)
    harness.system.cancel(collector.request_id, GONE)
    assert collector.wait()[0].error is GONE
    harness.wait_idle()
    # What was run of it is still good for the next one.
    assert harness.answer(prompt, max_tokens=4).error is None


def test_cancels_at_any_moment_leave_no_slot_busy(harness):
    expected = harness.answer("The sea", max_tokens=8).bits
    for i in range(60):
        collector = harness.submit(
            *(long_job(harness, request_id=f"c{i}", index=k) for k in range(i % 4 + 1))
        )
        if i % 3:
            collector.wait_until(lambda c, i=i: c.n_events >= i % 7)
        harness.system.cancel(collector.request_id, GONE)
        assert all(a.error is GONE for a in collector.wait())
        assert collector.ends == i % 4 + 1
    harness.wait_idle()
    assert harness.answer("The sea", max_tokens=8).bits == expected


def test_too_many_waiting_jobs_are_refused():
    with running(
        tiny_models.qwen3(),
        uniform,
        n_ctx=512,
        n_parallel=1,
        n_threads=1,
        line_limit=2,
    ) as h:
        first = h.submit(long_job(h))
        first.wait_until(lambda c: c.n_tokens)
        line = [h.submit(long_job(h)) for _ in range(2)]
        refused = h.submit(long_job(h)).wait()[0]
        assert isinstance(refused.error, Overloaded)
        for collector in (first, *line):
            h.system.cancel(collector.request_id, GONE)
            collector.wait()


def test_draining_ends_what_waits_and_lets_the_rest_go_on(harness):
    running_now = [harness.submit(harness.job("a", max_tokens=60)) for _ in range(2)]
    for collector in running_now:
        collector.wait_until(lambda c: c.answers[0].started)
    waiting = harness.submit(harness.job("b"))
    harness.system.drain()
    assert isinstance(waiting.wait()[0].error, ShuttingDown)
    assert isinstance(harness.submit(harness.job("c")).wait()[0].error, ShuttingDown)
    assert all(c.wait()[0].error is None for c in running_now)


def test_a_pass_that_fails_ends_its_requests_and_the_server_goes_on(harness):
    expected = harness.answer("The sea", max_tokens=8).bits
    mend = break_decode(harness, InternalError("no room"), after=4)
    answer = harness.submit(long_job(harness)).wait()[0]
    assert isinstance(answer.error, InternalError)
    mend()
    harness.wait_idle()
    assert harness.answer("The sea", max_tokens=8).bits == expected


def test_a_dead_actor_ends_every_open_request_and_is_told_once(dying):
    h = dying
    collectors = [h.submit(long_job(h)) for _ in range(4)]
    collectors[0].wait_until(lambda c: c.n_tokens)
    break_decode(h, RuntimeError("a bug"))
    for collector in collectors:
        (answer,) = collector.wait()
        assert isinstance(answer.error, InternalError)
        assert "Decoder" in str(answer.error)
        assert collector.ends == 1
    assert [name for name, _ in h.deaths] == ["Decoder"]
    late = h.submit(long_job(h)).wait()[0]
    assert isinstance(late.error, InternalError)


def test_an_actor_that_cannot_start_is_an_error_and_lets_go(monkeypatch):
    released = threading.Event()

    class Broken(KineticActor):
        def acquire(self):
            raise OSError("no such thing")

        def release(self):
            released.set()

    died = []
    engine = LlamaEngine(tiny_models.qwen3(), EngineOptions(n_ctx=256, n_threads=1))
    system = ActorSystem(
        engine,
        engine.model,
        engine.vocab,
        SystemOptions(
            plan=uniform(engine),
            can_cut=True,
            line_limit=1,
            on_death=lambda name, _error: died.append(name),
        ),
    )
    with pytest.raises(InternalError, match="Broken did not start"):
        system._start(Broken, system._on_death)
    assert released.wait(5)
    assert died == ["Broken"]
    system.stop()
    engine.close()


def test_rows_of_a_decoder_that_has_died_are_not_read(dying, monkeypatch):
    """Their memory is gone by then, and the slots live on in the same thread."""
    read = []
    monkeypatch.setattr(Slot, "_advance", lambda *_: read.append("rows"))
    peers, whole = dying.system._peers, dying.engine.decode

    def poisoned(rows, **named):
        found = whole(rows, **named)
        # Heard in front of the rows, which are told behind this.
        tell(peers.decoder, "no message")
        return found

    monkeypatch.setattr(dying.engine, "decode", poisoned)
    (answer,) = dying.submit(dying.job("The sea")).wait()
    assert answer.error is not None
    for slot in peers.slots:
        slot.ask(PING, timeout=10)
    assert read == []
    assert [name for name, _ in dying.deaths] == ["Decoder"]
