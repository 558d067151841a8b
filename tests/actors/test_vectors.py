"""Requests for vectors through the real actors: exact, fair, ended exactly once."""

import contextlib
import random
import threading
import time

import numpy as np
import pytest

from kinetic.actors.messages import Failed, VectorMade
from kinetic.actors.policy.plan import alone_plan
from kinetic.actors.system import ActorSystem, SystemOptions
from kinetic.errors import InternalError, KineticError, Overloaded, ShuttingDown
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.engine.vector_exactness import run_input
from kinetic.types import VectorJob
from tests.support import tiny_models
from tests.support.metrics import sample, samples

LIMIT_S = 30.0
GONE = KineticError("the client is gone")


class FakeEngine:
    """Gives each input's sum as its vector; can be held at a pass, and can fail."""

    n_ctx = 64
    n_sequences = 1
    n_batch = 4
    model = None
    vocab = None

    def __init__(self):
        self.log = []
        self.gate = threading.Semaphore(0)
        self.is_held = False
        self.entered = threading.Semaphore(0)

    def parts(self, n_tokens):
        return tuple((at, min(at + 4, n_tokens)) for at in range(0, n_tokens, 4))

    def embed(self, rows, *, is_last):
        self.log.append((int(rows.tokens[0]), rows.first))
        self.entered.release()
        if self.is_held:
            assert self.gate.acquire(timeout=LIMIT_S)
        if 666 in rows.tokens:
            raise InternalError("the engine failed")
        if 13 in rows.tokens:
            return np.array([np.nan], np.float32)
        return np.array([rows.tokens.sum()], np.float32) if is_last else None

    def close(self):
        pass


class Collector:
    """Keeps every event, in order of arrival over all requests too."""

    def __init__(self, system, job, log):
        self._system, self._job, self._log = system, job, log
        self.events = []
        self._changed = threading.Condition()

    def put(self, event):
        self._system.forget(self._job.request_id, event.index)
        with self._changed:
            self.events.append(event)
            self._log.append((self._job.request_id, event.index))
            self._changed.notify_all()

    def wait(self, n=None):
        n = len(self._job.inputs) if n is None else n
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.events) >= n, LIMIT_S)
        return self.events

    @property
    def vectors(self):
        made = {e.index: e.vector.tobytes() for e in self.wait()}
        return [made[i] for i in sorted(made)]


class Harness:
    def __init__(self, engine, *, line_limit=8):
        self.engine = engine
        self.log: list[tuple[str, int]] = []
        self.deaths: list[tuple[str, BaseException]] = []
        options = SystemOptions(
            plan=alone_plan(),
            can_cut=True,
            line_limit=line_limit,
            on_death=lambda name, error: self.deaths.append((name, error)),
        )
        self.system = ActorSystem(engine, engine.model, engine.vocab, options)

    def submit(self, name, *inputs):
        job = VectorJob(
            request_id=name,
            inputs=tuple(tuple(map(int, i)) for i in inputs),
            arrived_s=time.monotonic(),
        )
        sink = Collector(self.system, job, self.log)
        self.system.submit_vectors(job, sink)
        return sink

    def wait_for(self, condition):
        deadline = time.monotonic() + LIMIT_S
        while not condition(self.system.view):
            assert time.monotonic() < deadline
            time.sleep(0.002)


@contextlib.contextmanager
def running(engine, **named):
    harness = Harness(engine, **named)
    try:
        harness.system.start()
        yield harness
        assert not harness.deaths
        assert harness.system.n_open == 0
    finally:
        engine.is_held = False
        engine.gate.release(1000) if isinstance(engine, FakeEngine) else None
        harness.system.stop()


@pytest.fixture
def fake():
    with running(FakeEngine()) as harness:
        yield harness


def hold(harness):
    harness.engine.is_held = True


def let(harness, n=1):
    harness.engine.gate.release(n)


def entered(harness, n=1):
    for _ in range(n):
        assert harness.engine.entered.acquire(timeout=LIMIT_S)


def release(harness):
    harness.engine.is_held = False
    let(harness, 1000)


def test_each_input_gets_its_own_vector(fake):
    sink = fake.submit("a", [1], [2, 3], range(20, 30))
    values = {e.index: float(e.vector[0]) for e in sink.wait()}
    # The last part of a long input gives its vector.
    assert values == {0: 1.0, 1: 5.0, 2: 57.0}
    assert all(isinstance(e, VectorMade) for e in sink.events)


def test_requests_take_turns_input_by_input(fake):
    hold(fake)
    a = fake.submit("a", *[[1]] * 4)
    entered(fake)
    b = fake.submit("b", [2], [2])
    fake.wait_for(lambda view: view.n_waiting == 1)
    release(fake)
    a.wait()
    b.wait()
    names = [name for name, _ in fake.log]
    assert names == ["a", "a", "b", "a", "b", "a"]


def test_a_cancelled_request_runs_no_further_input(fake):
    hold(fake)
    sink = fake.submit("a", *[[n] for n in range(1, 200)])
    entered(fake)
    fake.system.cancel("a", GONE)
    sink.wait()
    assert all(e.error is GONE for e in sink.events)
    assert sorted(e.index for e in sink.events) == list(range(199))
    release(fake)
    assert fake.submit("b", [7]).vectors == [np.float32(7).tobytes()]
    assert fake.engine.log == [(1, 0), (7, 0)]


def test_a_cancelled_input_stops_behind_the_pass_that_runs(fake):
    hold(fake)
    sink = fake.submit("a", range(20, 60))
    entered(fake)
    fake.system.cancel("a", GONE)
    sink.wait()
    release(fake)
    fake.submit("b", [7]).wait()
    assert fake.engine.log == [(20, 0), (7, 0)]


def test_a_request_that_waits_can_be_cancelled(fake):
    hold(fake)
    a = fake.submit("a", [1])
    entered(fake)
    b = fake.submit("b", [2], [3])
    fake.wait_for(lambda view: view.n_waiting == 1)
    fake.system.cancel("b", GONE)
    assert [e.error for e in b.wait()] == [GONE, GONE]
    release(fake)
    assert len(a.wait()) == 1
    fake.wait_for(lambda view: view.n_running == 0)
    page = fake.system.metrics_page()
    assert sum(samples(page, "kinetic_refused_total", "reason").values()) == 1
    assert sample(page, "llamacpp:requests_total") == 1


def test_what_comes_behind_the_end_of_a_cancelled_request_is_not_told_twice(fake):
    hold(fake)
    sink = fake.submit("a", [1], [2])
    entered(fake)
    fake.system.cancel("a", GONE)
    fake.system.cancel("a", GONE)
    release(fake)
    fake.submit("b", [3]).wait()
    fake.system.cancel("a", GONE)
    fake.submit("c", [3]).wait()
    assert len(sink.events) == 2


def failed(fake) -> float:
    page = fake.system.metrics_page()
    return sample(page, "kinetic_answers_total", outcome="failed")


def test_one_input_that_fails_leaves_the_others_alone(fake):
    sink = fake.submit("a", [1], [666], [13], [2])
    ends = {e.index: e for e in sink.wait()}
    assert isinstance(ends[0], VectorMade)
    assert isinstance(ends[3], VectorMade)
    assert str(ends[1].error) == "the engine failed"
    assert "no numbers" in str(ends[2].error)
    fake.wait_for(lambda _: failed(fake) == 1)


def test_too_many_requests_are_told_at_once():
    with running(FakeEngine(), line_limit=1) as harness:
        hold(harness)
        a = harness.submit("a", [1], [1])
        entered(harness)
        harness.wait_for(lambda view: view.n_running == 1)
        b = harness.submit("b", [2])
        c = harness.submit("c", [3], [4])
        assert all(isinstance(e.error, Overloaded) for e in c.wait())
        release(harness)
        assert isinstance(a.wait()[0], VectorMade)
        assert isinstance(b.wait()[0], VectorMade)


def test_draining_ends_what_waits_and_lets_what_runs_go_on(fake):
    hold(fake)
    a = fake.submit("a", [1], [2])
    entered(fake)
    b = fake.submit("b", [3])
    fake.wait_for(lambda view: view.n_waiting == 1)
    fake.system.drain()
    assert isinstance(b.wait()[0].error, ShuttingDown)
    assert isinstance(fake.submit("c", [4]).wait()[0].error, ShuttingDown)
    release(fake)
    assert all(isinstance(e, VectorMade) for e in a.wait())


def test_metrics_tell_what_runs_and_what_was_run(fake):
    hold(fake)
    a = fake.submit("a", [1, 2, 3], [4, 5])
    entered(fake)
    fake.wait_for(lambda view: view.n_running == 1 and view.n_idle == 0)
    release(fake)
    a.wait()
    fake.wait_for(lambda view: view.n_running == 0 and view.n_idle == 1)
    page = fake.system.metrics_page()
    assert sample(page, "llamacpp:prompt_tokens_total") == 5
    assert sample(page, "llamacpp:n_decode_total") == 2
    assert sample(page, "llamacpp:requests_total") == 1
    assert sample(page, "kinetic_answers_total", outcome="vectors") == 1


def test_a_dead_decoder_ends_every_open_input():
    class Dying(FakeEngine):
        def embed(self, rows, *, is_last):
            raise RuntimeError("a bug")

    harness = Harness(Dying())
    harness.system.start()
    try:
        sink = harness.submit("a", [1], [2])
        assert all(isinstance(e, Failed) for e in sink.wait())
        late = harness.submit("b", [1])
        assert isinstance(late.wait()[0].error, InternalError)
        assert [name for name, _ in harness.deaths] == ["Decoder"]
    finally:
        harness.system.stop()


# --- The real engine ----------------------------------------------------------------

MODELS = {
    "mean": tiny_models.bert_encoder,
    "cross encoder": tiny_models.bert_cross_encoder,
    "qwen3 reranker": tiny_models.qwen3_reranker,
}


def exact_under_load(path):
    """Alone, then all at once in two orders beside cancelled requests: equal bytes."""
    engine = LlamaEngine(path, EngineOptions(n_threads=1, n_ctx=256))
    rng = np.random.default_rng(3)
    lengths = [1, 3, 17, 64, 130, 200]
    inputs = [rng.integers(0, engine.model.n_vocab, n).tolist() for n in lengths]
    alone = [run_input(engine, np.array(i, np.int32)).tobytes() for i in inputs]
    with running(engine) as harness:
        assert harness.submit("batch", *inputs).vectors == alone
        for round_ in range(2):
            order = list(range(len(inputs)))
            random.Random(round_).shuffle(order)
            noise = harness.submit(f"noise{round_}", *inputs)
            shuffled = harness.submit(f"s{round_}", *(inputs[i] for i in order))
            singles = [harness.submit(f"{round_}/{i}", inputs[i]) for i in order]
            harness.system.cancel(f"noise{round_}", GONE)
            assert shuffled.vectors == [alone[i] for i in order]
            assert [s.vectors for s in singles] == [[alone[i]] for i in order]
            noise.wait()


@pytest.mark.parametrize("name", MODELS)
def test_bits_are_those_of_the_input_alone(name):
    exact_under_load(MODELS[name]())


def test_minilms_bits_are_those_of_the_input_alone(minilm_dir):
    from scripts.minilm import all_minilm_l6_v2

    exact_under_load(all_minilm_l6_v2())
