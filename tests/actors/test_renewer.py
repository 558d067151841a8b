"""A constraint that meets a limit: its answer waits, no other does, and no bit differs."""

from __future__ import annotations

import json
import threading

import pytest

from kinetic.actors.messages import Renew, Renewed
from kinetic.actors.policy.plan import uniform_plan
from kinetic.actors.renewer import Renewer
from kinetic.errors import InternalError, RequestError
from kinetic.model.constraints.constraint import ConstraintCompiler, ConstraintLimits
from kinetic.model.constraints.guidance import GrammarRefusedError, NativeLimits
from kinetic.types import ConstraintSpec, SamplingParams
from tests.support.answers import running
from tests.support.drafts import eager
from tests.support.refs import Ref

pytestmark = pytest.mark.timeout(300)

SCHEMA = json.dumps({"type": "string", "minLength": 200, "maxLength": 400})
SPEC = ConstraintSpec(kind="json_schema", source=SCHEMA)
SAMPLINGS = [
    SamplingParams(temperature=0),
    SamplingParams(temperature=0.7, seed=7),
    SamplingParams(temperature=1.0, seed=3, mirostat=2),
]
TEXT = "Tell me a story about the sea.\n"
N_TOKENS = 45
LIMIT_S = 60.0


def uniform(engine):
    return uniform_plan(n_sequences=engine.n_sequences)


def run(smollm2_path, drafting):
    options = {"n_ctx": 512, "n_parallel": 2, "n_threads": 1}
    return running(smollm2_path, uniform, drafting=drafting, **options)


@pytest.fixture(scope="module")
def harness(smollm2_path, kept_threads):
    with run(smollm2_path, None) as found:
        yield found


@pytest.fixture(scope="module")
def drafting(smollm2_path, kept_threads):
    with run(smollm2_path, eager()) as found:
        yield found


def constraint(harness, **limits):
    native = NativeLimits(**limits)
    engine = harness.engine
    compiler = ConstraintCompiler(
        engine.model, engine.vocab, limits=ConstraintLimits(native=native)
    )
    return compiler.compile(SPEC)


class Watched:
    """A constraint whose compiling again is counted, and waits where asked to."""

    def __init__(self, harness, *, blocks=False):
        self.constraint = constraint(harness, max_lexer_states=500)
        self.threads: list[str] = []
        self.entered, self.released = threading.Event(), threading.Event()
        if not blocks:
            self.released.set()
        self._make = self.constraint.make
        self.constraint.make = self._counted

    def _counted(self):
        self.threads.append(threading.current_thread().name)
        self.entered.set()
        assert self.released.wait(LIMIT_S)
        return self._make()


def job(harness, held, **named):
    named.setdefault("max_tokens", N_TOKENS)
    return harness.job(TEXT, constraint=held, **named)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "seeded", "mirostat"])
@pytest.mark.parametrize("name", ["harness", "drafting"])
def test_an_answer_behind_a_limit_is_bit_for_bit_one_that_met_none(
    request, name, sampling
):
    harness = request.getfixturevalue(name)
    free = job(harness, constraint(harness), sampling=sampling)
    (expected,) = harness.submit(free).wait()
    watched = Watched(harness)
    held = job(harness, watched.constraint, sampling=sampling)
    (found,) = harness.submit(held).wait()
    assert found.error is None
    assert watched.threads, "no limit was met: nothing was tried"
    assert found.bits == expected.bits
    assert len(found.tokens) == N_TOKENS


def test_the_others_go_on_while_a_constraint_is_compiled_again(harness):
    (expected,) = harness.submit(job(harness, constraint(harness))).wait()
    watched = Watched(harness, blocks=True)
    waiting = harness.submit(job(harness, watched.constraint))
    assert watched.entered.wait(LIMIT_S)
    try:
        told = waiting.n_tokens
        other = harness.answer("The sea is", max_tokens=40)
        assert len(other.tokens) == 40, "a whole answer, and every pass it takes"
        assert waiting.n_tokens == told
        assert not any(answer.finish for answer in waiting.answers.values())
    finally:
        watched.released.set()
    (found,) = waiting.wait()
    assert found.bits == expected.bits
    assert not any(name.startswith("decode") for name in watched.threads)


def test_an_answer_that_is_given_up_meanwhile_frees_its_slot(harness):
    (expected,) = harness.submit(job(harness, constraint(harness))).wait()
    watched = Watched(harness, blocks=True)
    waiting = harness.submit(job(harness, watched.constraint))
    assert watched.entered.wait(LIMIT_S)
    try:
        harness.system.cancel(waiting.request_id, InternalError("gone"))
        (gone,) = waiting.wait()
        assert str(gone.error) == "gone"
        harness.wait_idle()
        # Both slots, so that the renewed matcher comes to a slot with a new answer.
        later = [harness.submit(job(harness, constraint(harness))) for _ in range(2)]
        for collector in later:
            collector.wait_until(lambda collector: collector.n_tokens)
    finally:
        watched.released.set()
    assert [c.wait()[0].bits for c in later] == [expected.bits] * 2


def test_an_answer_whose_constraint_cannot_be_renewed_ends_alone(harness):
    watched = Watched(harness)

    def refuse():
        raise GrammarRefusedError("too many states")

    watched.constraint.make = refuse
    other = harness.submit(harness.job("The sea is", max_tokens=40))
    (found,) = harness.submit(job(harness, watched.constraint)).wait()
    assert isinstance(found.error, RequestError)
    assert "too complex" in str(found.error)
    assert 0 < len(found.tokens) < N_TOKENS, "what was drawn before is out"
    (rest,) = other.wait()
    assert len(rest.tokens) == 40


# --- The Renewer, unstarted ---------------------------------------------------------


class Renewal:
    def __init__(self, made):
        self._made = made

    def walker(self):
        if isinstance(self._made, Exception):
            raise self._made
        return self._made


@pytest.mark.parametrize("made", ["a walker", RequestError("too complex")])
def test_the_slot_that_asked_hears_what_came_of_it(made):
    slots = [Ref(), Ref()]
    peers = type("Peers", (), {"on_death": lambda *_: None, "slots": slots})()
    actor = Renewer(peers)
    actor.hear(Renew(slot_id=1, serial=7, renewal=Renewal(made)))
    is_error = isinstance(made, Exception)
    assert slots[0].told == []
    assert slots[1].told == [
        Renewed(
            serial=7,
            walker=None if is_error else made,
            error=made if is_error else None,
        )
    ]
