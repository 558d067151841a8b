"""The promise: every answer is bit for bit what its request would get alone.

Token ids and raw log-probabilities are compared with `==`, never with a tolerance.
"""

from __future__ import annotations

import itertools
import random
import threading
from dataclasses import replace

import pytest

from kinetic.actors import slot
from kinetic.actors.policy.plan import alone_plan, uniform_plan
from kinetic.actors.text.answer import Answer
from kinetic.model.constraints.constraint import ConstraintCompiler
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.engine.exactness import probe_rows
from kinetic.types import ConstraintSpec, SamplingParams
from tests.support import tiny_models
from tests.support.answers import running

# Engine threads wait for each other by spinning: on a busy machine two are very slow.
pytestmark = pytest.mark.timeout(300)

GREEDY = SamplingParams(temperature=0)
SEEDED = SamplingParams(temperature=1.0, seed=7, top_k=0, top_p=1.0, min_p=0.0)
EVERYTHING = SamplingParams(
    temperature=1.2,
    seed=11,
    repeat_penalty=1.3,
    presence_penalty=0.4,
    frequency_penalty=0.2,
    dry_multiplier=0.8,
    xtc_probability=0.5,
    top_n_sigma=2.0,
    typical_p=0.95,
)
MIROSTAT = SamplingParams(temperature=1.0, seed=5, mirostat=2)
SAMPLINGS = [GREEDY, SEEDED, EVERYTHING, MIROSTAT, replace(MIROSTAT, mirostat=1)]

TEXTS = [
    "The sea is",
    "Once upon a time there was a small town by the river, and in it lived",
    "def fibonacci(n):\n    ",
    "List of capitals:\n- France: Paris\n- Japan: Tokyo\n- Peru: Lima\n- Kenya:",
]


def uniform(engine):
    """The plan under test."""
    return uniform_plan(n_sequences=engine.n_sequences)


@pytest.fixture(scope="module")
def harness(smollm2_path, kept_threads):
    """SmolLM2 under the uniform plan, four slots."""
    with running(smollm2_path, uniform, n_ctx=1024, n_parallel=4, n_threads=1) as h:
        yield h


def alone(harness, text, sampling, n=16):
    """What a request gets when nothing else runs."""
    return harness.answer(text, sampling=sampling, max_tokens=n)


@pytest.mark.parametrize(
    "sampling", SAMPLINGS, ids=lambda s: f"m{s.mirostat}t{s.temperature}"
)
def test_beside_others_that_come_at_any_moment(harness, sampling):
    rng = random.Random(3)
    expected = [alone(harness, text, sampling) for text in TEXTS]
    for _ in range(2):
        running_now, order = [], list(range(len(TEXTS)))
        rng.shuffle(order)
        for i in order:
            job = harness.job(TEXTS[i], sampling=sampling, max_tokens=16)
            running_now.append((i, harness.submit(job)))
            n_before = rng.randint(0, 4)
            running_now[-1][1].wait_until(
                lambda c, n=n_before: c.n_tokens >= n or c.ends
            )
        for i, collector in running_now:
            (answer,) = collector.wait()
            assert answer.bits == expected[i].bits


def test_a_seed_repeats_and_another_differs(harness):
    first = alone(harness, TEXTS[0], SEEDED)
    assert alone(harness, TEXTS[0], SEEDED).bits == first.bits
    assert alone(harness, TEXTS[0], replace(SEEDED, seed=8)).tokens != first.tokens


def test_resumed_from_a_prefix_of_any_length(harness):
    vocab = harness.engine.vocab
    prompt = vocab.tokenize(TEXTS[1] * 3)
    expected = harness.answer(prompt)
    for n_shared in (0, 1, 2, 7, 15, 31, len(prompt) - 1):
        # Fill every slot so that the next request finds this prefix and no longer one.
        for slot_id in range(4):
            other = [*prompt[:n_shared], *vocab.tokenize("!?!? something else")]
            harness.answer(other, max_tokens=1, slot_id=slot_id)
        answer = harness.answer(prompt)
        assert answer.usage.n_cached == n_shared
        assert answer.bits == expected.bits


def test_a_second_turn_runs_only_what_is_new(harness):
    vocab = harness.engine.vocab
    prompt = vocab.tokenize("Q: Name a river.\nA:")
    first = harness.answer(prompt, max_tokens=12)
    second = [*prompt, *first.tokens, *vocab.tokenize("\nQ: Another one.\nA:")]
    resumed = harness.answer(second)
    # The last token was drawn but not run.
    assert resumed.usage.n_cached == len(prompt) + 11
    for slot_id in range(4):
        harness.answer("!!!!", max_tokens=1, slot_id=slot_id)
    fresh = harness.answer(second)
    assert fresh.usage.n_cached == 0
    assert fresh.bits == resumed.bits


@pytest.mark.parametrize("sampling", [GREEDY, EVERYTHING, MIROSTAT])
def test_choices_of_one_prompt_equal_requests_of_their_own(harness, sampling):
    jobs = [
        harness.job(
            TEXTS[1],
            sampling=replace(sampling, seed=sampling.seed + i),
            index=i,
            request_id="group",
            group="group",
        )
        for i in range(6)
    ]
    answers = harness.submit(*jobs).wait()
    for i, answer in enumerate(answers):
        own = harness.answer(
            TEXTS[1], sampling=replace(sampling, seed=sampling.seed + i)
        )
        assert answer.bits == own.bits
    assert sum(a.usage.n_cached == a.usage.n_prompt for a in answers) == 5


@pytest.mark.parametrize(("chunk", "shared"), [(1, 1), (7, 3), (300, 64)])
def test_chunk_sizes_change_nothing(harness, smollm2_path, chunk, shared):
    expected = [alone(harness, text, SEEDED) for text in TEXTS]

    def plan(engine):
        return replace(uniform(engine), prompt_chunk=chunk, shared_chunk=shared)

    with running(smollm2_path, plan, n_ctx=512, n_parallel=3, n_threads=1) as other:
        collectors = [
            other.submit(other.job(text, sampling=SEEDED, max_tokens=16))
            for text in TEXTS
        ]
        for collector, own in zip(collectors, expected, strict=True):
            assert collector.wait()[0].bits == own.bits


@pytest.mark.parametrize("threads", [2, 3])
def test_thread_counts_change_nothing(harness, smollm2_path, threads):
    # Few tokens: on a busy machine threads that wait for each other are very slow.
    texts = TEXTS[:2]
    expected = [alone(harness, text, SEEDED, 4) for text in texts]
    with running(
        smollm2_path, uniform, n_ctx=512, n_parallel=2, n_threads=threads
    ) as other:
        collectors = [
            other.submit(other.job(text, sampling=SEEDED, max_tokens=4))
            for text in texts
        ]
        for collector, own in zip(collectors, expected, strict=True):
            assert collector.wait()[0].bits == own.bits


@pytest.mark.parametrize("make", [tiny_models.qwen3, tiny_models.qwen3_moe])
def test_other_architectures(make):
    with running(make(), uniform, n_ctx=512, n_parallel=4, n_threads=1) as h:
        assert probe_rows(h.engine, remember=False).is_row_invariant
    with running(make(), uniform, n_ctx=512, n_parallel=4, n_threads=1) as h:
        expected = [alone(h, text, SEEDED) for text in TEXTS]
        collectors = [
            h.submit(h.job(text, sampling=SEEDED, max_tokens=16)) for text in TEXTS
        ]
        for collector, own in zip(collectors, expected, strict=True):
            assert collector.wait()[0].bits == own.bits


def test_a_row_dependent_setting_is_found_and_taking_turns_is_still_exact(
    smollm2_path,
):
    options = EngineOptions(n_ctx=512, n_parallel=3, n_threads=1, flash_attention=True)
    engine = LlamaEngine(smollm2_path, options)
    verdict = probe_rows(engine, remember=False)
    engine.close()
    assert not verdict.is_row_invariant
    assert "differ" in verdict.reason
    with running(
        smollm2_path,
        lambda _: alone_plan(),
        n_ctx=512,
        n_parallel=3,
        n_threads=1,
        flash_attention=True,
    ) as h:
        long = TEXTS[1] * 6
        expected = [alone(h, text, SEEDED) for text in (*TEXTS, long)]
        for slot_id in range(3):
            h.answer("!!!!", max_tokens=1, slot_id=slot_id)
        collectors = [
            h.submit(h.job(text, sampling=SEEDED, max_tokens=16))
            for text in (*TEXTS, long)
        ]
        for collector, own in zip(collectors, expected, strict=True):
            assert collector.wait()[0].bits == own.bits
        again = alone(h, long, SEEDED)
        assert again.usage.n_cached == 64
        assert again.bits == expected[-1].bits


CONSTRAINTS = [
    ConstraintSpec(kind="json_object"),
    ConstraintSpec(
        kind="json_schema",
        source='{"type": "object", "properties": {"name": {"type": "string"},'
        ' "age": {"type": "integer"}}, "required": ["name", "age"]}',
    ),
    ConstraintSpec(kind="gbnf", source='root ::= ("yes" | "no" | "maybe" " ")+'),
]


def test_held_answers_are_exact_like_all_others(harness):
    compiler = ConstraintCompiler(harness.engine.model, harness.engine.vocab)
    made = [compiler.compile(spec) for spec in CONSTRAINTS]
    cases = [(c, s) for c in made for s in (GREEDY, SEEDED, EVERYTHING)]
    expected = [
        harness.answer(TEXTS[0], sampling=sampling, constraint=constraint)
        for constraint, sampling in cases
    ]
    assert all(answer.error is None and answer.text for answer in expected)
    collectors = [
        harness.submit(harness.job(TEXTS[0], sampling=sampling, constraint=constraint))
        for constraint, sampling in cases
    ]
    for collector, own in zip(collectors, expected, strict=True):
        assert collector.wait()[0].bits == own.bits


@pytest.mark.parametrize("most", [0, 2])
def test_waiting_for_text_that_is_behind_changes_nothing(harness, monkeypatch, most):
    """With log-probabilities asked for, few rows may wait to become text."""
    expected = [alone(harness, text, SEEDED) for text in TEXTS]
    monkeypatch.setattr(slot, "_MOST_UNSPOKEN", most)
    jobs = [harness.job(text, sampling=SEEDED, max_tokens=16) for text in TEXTS]
    collectors = [harness.submit(job) for job in jobs]
    for collector, answer in zip(collectors, expected, strict=True):
        (found,) = collector.wait()
        assert found.bits == answer.bits


def test_what_is_drawn_before_an_end_is_found_leaves_no_trace(harness, monkeypatch):
    """Text may be made passes later than its tokens are drawn."""
    plain = {"max_tokens": 24, "n_logprobs": None}
    whole = harness.answer(TEXTS[1], **plain)
    stop = whole.text.split()[3]
    expected = harness.answer(TEXTS[1], stops=(stop,), **plain)
    assert expected.finish.stop_string == stop
    assert len(expected.tokens) < 20
    say, decode = Answer.say, harness.engine.decode
    n_passes, is_late = itertools.count(1), threading.Event()

    def counted(rows, **named):
        if next(n_passes) == 22:
            is_late.set()
        return decode(rows, **named)

    def late(answer, drew):
        assert is_late.wait(60), "the slot waits for its text"
        return say(answer, drew)

    monkeypatch.setattr(harness.engine, "decode", counted)
    monkeypatch.setattr(Answer, "say", late)
    found = harness.answer(TEXTS[1], stops=(stop,), **plain)
    assert found.bits == expected.bits
    assert found.usage == replace(expected.usage, n_cached=found.usage.n_cached)
    monkeypatch.undo()
    assert harness.answer(TEXTS[1], **plain).bits == whole.bits
