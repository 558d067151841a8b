"""Drafting changes when tokens come, never which: compared bit for bit.

Each answer is made without drafts, and again with drafts that are right as far as they
go, wrong from the first token on, or both in turns, up to 15 tokens each.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kinetic.actors.messages import Delta
from kinetic.actors.policy.plan import alone_plan, uniform_plan
from kinetic.errors import InternalError, RequestError
from kinetic.model.constraints.constraint import ConstraintCompiler
from kinetic.types import ConstraintSpec, SamplingParams
from tests.support import tiny_models
from tests.support.answers import Collector, running
from tests.support.drafts import SHAPES, Scripts, eager, eager_model
from tests.support.tiny_models import Precision

TEXT = "Once upon a time there was a small town by the river, and in it"
GREEDY = SamplingParams(temperature=0)
SEEDED = SamplingParams(temperature=1.0, seed=7, top_k=0, top_p=1.0, min_p=0.0)
SAMPLINGS = {
    "greedy": GREEDY,
    "seeded": SEEDED,
    "defaults": SamplingParams(seed=3),
    "penalties": replace(
        SEEDED, repeat_penalty=1.4, presence_penalty=0.5, frequency_penalty=0.3
    ),
    "greedy with penalties": replace(GREEDY, repeat_penalty=1.5, repeat_last_n=-1),
    "dry": replace(SEEDED, dry_multiplier=1.5, dry_allowed_length=1),
    "xtc": replace(SEEDED, xtc_probability=0.7, xtc_threshold=0.01),
    "truncating": replace(
        SEEDED, top_k=50, typical_p=0.9, top_p=0.9, min_p=0.01, top_n_sigma=2.0
    ),
    "dynamic temperature": replace(SEEDED, dynatemp_range=0.5),
    "bias": replace(SEEDED, logit_bias=((100, 5.0), (200, float("-inf")))),
    "mirostat 1": replace(SEEDED, mirostat=1),
    "mirostat 2": replace(SEEDED, mirostat=2),
}
SIZE = {"n_ctx": 512, "n_parallel": 4, "n_threads": 1}


def uniform(engine):
    """Every row agrees with every other."""
    return uniform_plan(n_sequences=engine.n_sequences)


@pytest.fixture(scope="module")
def plain(kept_threads):
    """Four slots that never draft."""
    with running(tiny_models.qwen3(Precision.F32), uniform, **SIZE) as h:
        yield h


@pytest.fixture(scope="module")
def scripts():
    """What `drafting` drafts."""
    return Scripts()


@pytest.fixture(scope="module")
def drafting(scripts, kept_threads):
    """Four slots that draft what `scripts` say."""
    path = tiny_models.qwen3(Precision.F32)
    with running(path, uniform, drafting=scripts.drafting, **SIZE) as h:
        yield h


@pytest.fixture(params=SHAPES)
def shape(request, scripts):
    """Each way in which drafts are right or wrong."""
    scripts.shape = SHAPES[request.param]
    return request.param


def known(plain, scripts, **named):
    """An answer without drafts, which `scripts` know from here on."""
    job = plain.job(named.pop("text", TEXT), **named)
    (answer,) = plain.submit(job).wait()
    scripts.expect(job, answer.tokens)
    return answer


def drafted(drafting, shape, **named):
    """The same answer with drafts, which were made and as good as they should be."""
    answer = drafting.answer(named.pop("text", TEXT), **named)
    usage = answer.usage
    assert usage.n_drafts > 0
    assert {"right": usage.n_accepted > 0, "wrong": usage.n_accepted == 0}.get(
        shape, True
    )
    assert usage.n_accepted <= usage.n_drafted
    assert usage.n_generated == len(answer.tokens)
    return answer


# --- Every sampler ------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLINGS)
def test_every_sampler_draws_the_same_tokens(plain, drafting, scripts, shape, name):
    named = {"sampling": SAMPLINGS[name], "max_tokens": 40, "n_logprobs": 3}
    expected = known(plain, scripts, **named)
    assert drafted(drafting, shape, **named).bits == expected.bits


def test_probabilities_behind_the_samplers_are_the_same(
    plain, drafting, scripts, shape
):
    sampling = SAMPLINGS["truncating"]
    named = {"sampling": sampling, "post_sampling_probs": True, "n_logprobs": 5}
    expected = known(plain, scripts, **named)
    assert all(0 < p <= 1 for _, _, p, _ in expected.logprobs)
    assert drafted(drafting, shape, **named).bits == expected.bits


def test_an_answer_is_told_token_by_token_as_without_drafts(
    plain, drafting, scripts, shape
):
    expected = known(plain, scripts, max_tokens=20)
    answer = drafted(drafting, shape, max_tokens=20)
    assert answer.pieces == expected.pieces
    assert answer.usage.n_prompt == expected.usage.n_prompt


def test_a_scored_prompt_is_followed_by_drafts(plain, drafting, scripts, shape):
    expected = known(plain, scripts, prompt_logprobs=True)
    answer = drafted(drafting, shape, prompt_logprobs=True)
    assert answer.scored == expected.scored
    assert answer.bits == expected.bits


# --- Ends inside drafts -------------------------------------------------------------


@pytest.mark.parametrize("n_max", [1, 2, 3, 9, 16, 17])
def test_the_limit_stands_inside_drafts(plain, drafting, scripts, shape, n_max):
    longer = known(plain, scripts, max_tokens=40)
    expected = plain.answer(TEXT, max_tokens=n_max)
    answer = drafting.answer(TEXT, max_tokens=n_max)
    assert answer.bits == expected.bits
    assert answer.tokens == longer.tokens[:n_max]
    assert answer.usage.n_accepted <= n_max - 1


@pytest.mark.parametrize("at", [0, 1, 5, 9, 14])
def test_a_stop_string_ends_the_answer_inside_drafts(
    plain, drafting, scripts, shape, at
):
    longer = known(plain, scripts, max_tokens=40)
    piece = plain.engine.vocab.piece(longer.tokens[at]).decode("utf-8", "replace")
    named = {"max_tokens": 40, "stops": (piece,)}
    expected = plain.answer(TEXT, **named)
    answer = drafting.answer(TEXT, **named)
    assert answer.finish.reason == "stop"
    assert answer.bits == expected.bits
    assert answer.usage.n_generated == expected.usage.n_generated
    assert answer.usage.n_accepted < answer.usage.n_generated


def test_an_end_token_ends_the_answer_inside_drafts(plain, drafting, scripts, shape):
    end = plain.engine.model.eos
    ended = []
    for seed in range(6):
        sampling = replace(SEEDED, seed=seed, logit_bias=((end, 12.0),))
        expected = plain.answer(TEXT, sampling=sampling, max_tokens=30)
        job = drafting.job(TEXT, sampling=sampling, max_tokens=30)
        # The drafts hold the end itself, and go on behind it.
        scripts.expect(job, [*expected.tokens, *range(300, 320)])
        (answer,) = drafting.submit(job).wait()
        assert answer.bits == expected.bits
        assert answer.usage.n_generated == expected.usage.n_generated
        ended.append(answer.finish.reason)
    assert ended.count("eos") >= 2


def test_ignored_ends_are_never_drawn(plain, drafting, scripts, shape):
    end = plain.engine.model.eos
    sampling = replace(SEEDED, logit_bias=((end, 12.0),))
    named = {"sampling": sampling, "ignore_eos": True, "max_tokens": 30}
    expected = known(plain, scripts, **named)
    assert end not in expected.tokens
    assert drafted(drafting, shape, **named).bits == expected.bits


def test_the_context_ends_inside_drafts(plain, drafting, scripts, shape):
    text = plain.engine.vocab.tokenize(TEXT * 40)[: SIZE["n_ctx"] - 21]
    expected = known(plain, scripts, text=text, max_tokens=None)
    answer = drafted(drafting, shape, text=text, max_tokens=None)
    assert answer.bits == expected.bits
    assert answer.finish.context_full
    assert len(answer.tokens) == 21


# --- Constraints --------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {
        "first_name": {"type": "string", "maxLength": 8},
        "temperature": {"enum": ["warm weather", "cold weather"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["first_name", "temperature", "count"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def constraint(plain):
    """Objects of a few fields."""
    compiler = ConstraintCompiler(plain.engine.model, plain.engine.vocab)
    spec = ConstraintSpec(kind="json_schema", source=json.dumps(SCHEMA))
    return compiler.compile(spec)


@pytest.mark.parametrize("name", ["greedy", "seeded", "mirostat 2", "penalties"])
def test_a_constraint_holds_drafted_tokens_too(
    plain, drafting, scripts, shape, constraint, name
):
    named = {"sampling": SAMPLINGS[name], "constraint": constraint, "max_tokens": 80}
    expected = known(plain, scripts, **named)
    assert drafted(drafting, shape, **named).bits == expected.bits


def test_a_constraint_drafts_what_it_leaves_no_choice_about(plain, constraint):
    path = tiny_models.qwen3(Precision.F32)
    with running(path, uniform, drafting=eager(), **SIZE) as h:
        for name in ("greedy", "seeded"):
            named = {"sampling": SAMPLINGS[name], "constraint": constraint}
            expected = plain.answer("x", max_tokens=80, **named)
            answer = h.answer("x", max_tokens=80, **named)
            assert answer.bits == expected.bits
            assert answer.usage.n_accepted > 0


class _Failing:
    """A constraint whose matcher cannot go on behind `n` tokens."""

    def __init__(self, n):
        self._n = n

    def matcher(self):
        left = [self._n]

        class Matcher:
            def mask(self, row):
                if left[0] == 0:
                    raise RequestError("too complex here")
                return row

            def accept(self, token):
                left[0] -= 1

            def forced(self):
                return ()

        return Matcher()


def test_an_error_inside_drafts_comes_behind_the_tokens_before_it(
    plain, drafting, scripts, shape
):
    known(plain, scripts, max_tokens=30)
    named = {"max_tokens": 30, "constraint": _Failing(7)}
    expected, answer = plain.answer(TEXT, **named), drafting.answer(TEXT, **named)
    assert len(expected.tokens) == 7
    assert (answer.tokens, answer.text) == (expected.tokens, expected.text)
    assert answer.error is not None
    assert str(answer.error) == str(expected.error)


def test_an_error_behind_the_answers_end_is_none(plain, drafting, scripts):
    scripts.shape = SHAPES["right"]
    longer = known(plain, scripts, max_tokens=30)
    piece = plain.engine.vocab.piece(longer.tokens[5]).decode("utf-8", "replace")
    named = {"max_tokens": 30, "stops": (piece,), "constraint": _Failing(8)}
    expected, answer = plain.answer(TEXT, **named), drafting.answer(TEXT, **named)
    assert expected.error is None
    assert answer.error is None
    assert answer.bits == expected.bits


# --- Several at once ----------------------------------------------------------------


def test_four_slots_draft_at_once(plain, drafting, scripts, shape):
    texts = [TEXT, "The sea is", "def f(n):\n    return", "List:\n- one\n- two\n-"]
    names = ["greedy", "seeded", "mirostat 2", "penalties"]
    named = [
        {"text": text, "sampling": SAMPLINGS[name], "max_tokens": 48}
        for text, name in zip(texts, names, strict=True)
    ]
    expected = [known(plain, scripts, **dict(n)) for n in named]
    jobs = [drafting.job(n.pop("text"), **n) for n in map(dict, named)]
    for collector, own in zip(
        [drafting.submit(j) for j in jobs], expected, strict=True
    ):
        (answer,) = collector.wait()
        assert answer.bits == own.bits
        assert answer.usage.n_drafts > 0


def test_choices_of_one_prompt_are_drafted_each(plain, drafting, scripts, shape):
    samplings = [replace(SEEDED, seed=20 + i) for i in range(6)]
    expected = [known(plain, scripts, sampling=s) for s in samplings]
    jobs = [
        drafting.job(TEXT, sampling=s, index=i, request_id=f"g{shape}", group=shape)
        for i, s in enumerate(samplings)
    ]
    for answer, own in zip(drafting.submit(*jobs).wait(), expected, strict=True):
        assert answer.bits == own.bits
        assert answer.usage.n_drafts > 0


# --- What the slot holds afterwards -------------------------------------------------


def test_no_drafted_token_is_held_behind_an_answer(plain, drafting, scripts, shape):
    vocab = plain.engine.vocab
    longer = known(plain, scripts, max_tokens=40)
    piece = vocab.piece(longer.tokens[6]).decode("utf-8", "replace")
    prompt = vocab.tokenize(TEXT)
    for stop in ({"stops": (piece,)}, {"max_tokens": 7}):
        first = drafting.answer(TEXT, **{"max_tokens": 40, **stop, "slot_id": 2})
        # Whatever was drafted behind, right ones included, is computed again.
        second = [*prompt, *longer.tokens, *vocab.tokenize(" and then")]
        resumed = drafting.answer(second, slot_id=2)
        n_first = len(prompt) + first.usage.n_generated
        assert n_first - 1 <= resumed.usage.n_cached <= n_first
        assert resumed.bits == plain.answer(second).bits


class _Leaving(Collector):
    """A client that goes away in the middle of an answer."""

    def __init__(self, system, jobs, *, n_tokens):
        super().__init__(system, jobs)
        self.request_id = jobs[0].request_id
        self._n_tokens = n_tokens

    def put(self, event):
        # In the slot's own thread, while it goes through the rows of one pass.
        super().put(event)
        if isinstance(event, Delta) and self.n_tokens == self._n_tokens:
            self._system.cancel(self.request_id, InternalError("gone"))


def test_a_cancel_that_comes_between_rows_leaves_an_exact_slot(
    plain, drafting, scripts, shape
):
    expected = known(plain, scripts, max_tokens=60)
    job = drafting.job(TEXT, max_tokens=60, slot_id=1)
    collector = _Leaving(drafting.system, (job,), n_tokens=5)
    drafting.system.submit((job,), collector)
    (answer,) = collector.wait()
    assert isinstance(answer.error, InternalError)
    assert 5 <= len(answer.tokens) < 60
    assert answer.tokens == expected.tokens[: len(answer.tokens)]
    again = drafting.answer(TEXT, max_tokens=60, slot_id=1)
    assert again.bits == expected.bits


def test_kept_states_are_drafted_on(plain, scripts, tmp_path, shape):
    path = tiny_models.qwen3(Precision.F32)
    long = TEXT * 6
    expected = known(plain, scripts, text=long, max_tokens=40)
    cache = {"folder": tmp_path}
    size = {**SIZE, "n_parallel": 1}
    with running(path, uniform, drafting=scripts.drafting, cache=cache, **size) as h:
        first = drafted(h, shape, text=long, max_tokens=40)
        h.answer("something else that is long enough to be kept" * 4)
        again = drafted(h, shape, text=long, max_tokens=40)
    assert again.usage.n_cached > 0
    assert first.bits == again.bits == expected.bits


# --- A draft model ------------------------------------------------------------------


@pytest.fixture(scope="module")
def advised(kept_threads):
    """Four slots that ask a draft model in every step."""
    path, draft = tiny_models.qwen3(Precision.F32), tiny_models.qwen3_draft()
    with running(path, uniform, drafting=eager_model(), draft_model=draft, **SIZE) as h:
        yield h


@pytest.mark.parametrize("name", SAMPLINGS)
def test_a_draft_model_changes_no_token(plain, advised, name):
    named = {"sampling": SAMPLINGS[name], "max_tokens": 40, "n_logprobs": 3}
    expected, answer = plain.answer(TEXT, **named), advised.answer(TEXT, **named)
    assert answer.bits == expected.bits
    assert answer.usage.n_drafts > 0


def test_a_draft_model_is_right_now_and_then(advised):
    usages = [advised.answer(text, max_tokens=60).usage for text in (TEXT, "The sea")]
    assert sum(usage.n_accepted for usage in usages) > 0


def test_a_draft_model_follows_four_slots_and_their_next_texts(plain, advised):
    texts = [TEXT, "The sea is", "def f(n):\n    return", "List:\n- one\n- two\n-"]
    for n_round in range(3):
        sampling = replace(SEEDED, seed=n_round)
        named = {"sampling": sampling, "max_tokens": 30}
        # Turns of a conversation, and conversations that change their slots.
        texts = [text + " and so" for text in texts[1:] + texts[:1]]
        expected = [plain.answer(text, **named) for text in texts]
        collectors = [advised.submit(advised.job(text, **named)) for text in texts]
        for collector, own in zip(collectors, expected, strict=True):
            (answer,) = collector.wait()
            assert answer.bits == own.bits


def test_an_answer_that_ends_while_the_draft_model_is_asked(plain, advised, scripts):
    longer = plain.answer(TEXT, max_tokens=40)
    for at in range(8):
        piece = plain.engine.vocab.piece(longer.tokens[at]).decode("utf-8", "replace")
        named = {"max_tokens": 40, "stops": (piece,), "slot_id": 1}
        assert advised.answer(TEXT, **named).bits == plain.answer(TEXT, **named).bits
    job = advised.job(TEXT, max_tokens=60, slot_id=1)
    collector = _Leaving(advised.system, (job,), n_tokens=5)
    advised.system.submit((job,), collector)
    (answer,) = collector.wait()
    assert isinstance(answer.error, InternalError)
    assert advised.answer(TEXT, max_tokens=40, slot_id=1).bits == longer.bits


def test_a_draft_model_that_fails_is_not_asked_again(plain, caplog):
    path, draft = tiny_models.qwen3(Precision.F32), tiny_models.qwen3_draft()
    with running(path, uniform, drafting=eager_model(), draft_model=draft, **SIZE) as h:
        h.guesser._engine.decode = _refuse
        answer = h.answer(TEXT, max_tokens=20)
        again = h.answer(TEXT, max_tokens=20)
    expected = plain.answer(TEXT, max_tokens=20)
    assert answer.bits == again.bits == expected.bits
    assert answer.usage.n_drafts == 0
    assert caplog.text.count("the draft model failed") == 1


def _refuse(rows):
    raise InternalError("no room")


# --- Other models and plans ---------------------------------------------------------


@pytest.mark.parametrize(
    "make", [tiny_models.qwen3_moe, tiny_models.llama3, tiny_models.gemma3]
)
def test_other_architectures(make, scripts, shape):
    path = make()
    text = TEXT * 6  # past a window of 64 tokens
    with running(path, uniform, **SIZE) as h:
        expected = known(h, scripts, text=text, sampling=SEEDED, max_tokens=60)
    with running(path, uniform, drafting=scripts.drafting, **SIZE) as h:
        answer = drafted(h, shape, text=text, sampling=SEEDED, max_tokens=60)
    assert answer.bits == expected.bits


def test_a_restored_sliding_window_is_not_drafted_on(scripts, tmp_path):
    scripts.shape = SHAPES["right"]
    path = tiny_models.gemma3()
    size = {**SIZE, "n_parallel": 1}
    with running(path, uniform, **size) as h:
        prompt = h.engine.vocab.tokenize(TEXT * 8)[:128]
        known(h, scripts, text=prompt, max_tokens=40)
        second = [*prompt, *h.engine.vocab.tokenize(" was quiet. One day")]
        expected = known(h, scripts, text=second, max_tokens=40)
    cache = {"folder": tmp_path}
    with running(path, uniform, drafting=scripts.drafting, cache=cache, **size) as h:
        drafted(h, "right", text=prompt, max_tokens=40)
        h.answer("something else that is long enough to be kept" * 4)
        resumed = h.answer(second, max_tokens=40)
    assert resumed.usage.n_cached == len(prompt)
    assert resumed.usage.n_drafts == 0
    assert resumed.bits == expected.bits


def test_a_plan_of_one_row_a_sequence_never_drafts(plain, scripts):
    scripts.shape = SHAPES["right"]
    known(plain, scripts, max_tokens=20)
    path = tiny_models.qwen3(Precision.F32)
    with running(path, lambda _: alone_plan(), drafting=scripts.drafting, **SIZE) as h:
        assert h.answer(TEXT, max_tokens=20).usage.n_drafts == 0


def test_repeated_text_is_drafted_and_stays_the_same(plain):
    # Whoever may only say four words soon repeats itself.
    words = tuple((token, 60.0) for token in (300, 301, 302, 303))
    path = tiny_models.qwen3(Precision.F32)
    with running(path, uniform, drafting=eager(), **SIZE) as h:
        for base in (GREEDY, SEEDED):
            sampling = replace(base, logit_bias=words)
            expected = plain.answer(TEXT, sampling=sampling, max_tokens=120)
            answer = h.answer(TEXT, sampling=sampling, max_tokens=120)
            assert answer.bits == expected.bits
            assert 0 < answer.usage.n_accepted < answer.usage.n_drafted
