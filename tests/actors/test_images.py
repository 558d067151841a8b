"""Answers about pictures are bit for bit what each request would get alone.

The models are made of random weights, so what they write is noise, but noise that
depends on every part of a picture. Log-probabilities are compared with `==`.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

from kinetic.actors.policy.plan import alone_plan, uniform_plan
from kinetic.actors.text.scoring import score
from kinetic.errors import InternalError, RequestError
from kinetic.model.vision.pictures import decode
from kinetic.types import SamplingParams
from tests.support import tiny_models, tiny_projectors
from tests.support.drafts import SHAPES, Scripts
from tests.support.native_images import last_row
from tests.support.pictures import png
from tests.support.seeing import PICTURE, seeing

pytestmark = pytest.mark.usefixtures("smollm2_path")

SEEDED = SamplingParams(temperature=1.0, seed=7, repeat_penalty=1.2, top_k=0)
PAIRS = {
    "gemma3": (tiny_models.gemma3, tiny_projectors.gemma3),
    "idefics3": (tiny_models.smolvlm, tiny_projectors.idefics3),
    "qwen2vl": (tiny_models.qwen2vl, tiny_projectors.qwen2vl),
    "qwen35": (tiny_models.qwen35, tiny_projectors.qwen2vl),
}
ASKED = f"First some words. {PICTURE} What is to be seen there, and why?"
TWO = f"Here is {PICTURE} and here is {PICTURE}: which of them is older?"
CAT, DOG, FOX = png(96, 64, 1), png(64, 96, 2), png(200, 100, 3)


def uniform(engine):
    return uniform_plan(n_sequences=engine.n_sequences)


def alone(_engine):
    return alone_plan()


OPTIONS = {"n_ctx": 768, "n_parallel": 3}


@pytest.fixture(scope="module", params=PAIRS)
def pair(request):
    make_model, make_projector = PAIRS[request.param]
    return make_model(), make_projector()


@pytest.fixture(scope="module")
def harness(pair, kept_threads):
    """Any rows beside any others."""
    with seeing(*pair, uniform, **OPTIONS) as found:
        yield found


@pytest.fixture(scope="module")
def expected(pair, kept_threads):
    """What each request gets from a server that has nothing else to do."""

    def run(*job, **named):
        with seeing(*pair, uniform, **OPTIONS) as fresh:
            return fresh.answer(*job, **named).bits

    return {
        "cat": run(ASKED, CAT),
        "dog": run(ASKED, DOG),
        "fox": run(ASKED, FOX, sampling=SEEDED),
        "two": run(TWO, CAT, FOX),
    }


def test_the_answer_depends_on_the_picture(expected):
    assert expected["cat"] != expected["dog"]
    assert len(expected["cat"][0]) == 24


def test_pictures_seen_long_ago_or_last_give_the_same_answer(harness, expected):
    assert harness.answer(ASKED, CAT).bits == expected["cat"]
    assert harness.answer(ASKED, CAT).bits == expected["cat"]
    assert harness.answer(ASKED, DOG).bits == expected["dog"]
    assert harness.answer(TWO, CAT, FOX).bits == expected["two"]
    assert harness.answer(ASKED, FOX, sampling=SEEDED).bits == expected["fox"]
    for slot_id in range(3):
        harness.answer("Something else entirely.", slot_id=slot_id, max_tokens=2)
    assert harness.answer(ASKED, CAT).bits == expected["cat"]


def test_beside_others_that_come_at_any_moment(harness, expected):
    words = harness.answer("No pictures at all in here.", max_tokens=40).bits
    rows = (
        ("two", (TWO, CAT, FOX), {}),
        ("fox", (ASKED, FOX), {"sampling": SEEDED}),
        ("cat", (ASKED, CAT), {}),
        ("dog", (ASKED, DOG), {}),
    )
    for shift in range(3):
        text = harness.submit(harness.job("No pictures at all in here.", max_tokens=40))
        text.wait_until(lambda c, n=shift: c.n_tokens > n)
        running = [
            (name, harness.submit(harness.job(*job, **named)))
            for name, job, named in (*rows[shift:], *rows[:shift])
        ]
        for name, collector in running:
            (answer,) = collector.wait()
            assert answer.bits == expected[name]
        assert text.wait()[0].bits == words


def test_a_prefix_is_shared_up_to_the_first_other_picture(harness):
    ids, spans = harness.read(TWO, CAT, FOX)
    other, other_spans = harness.read(TWO, CAT, DOG)
    fresh = harness.answer(TWO, CAT, DOG, slot_id=0)
    harness.answer("Nothing in common.", slot_id=0, max_tokens=1)
    harness.answer(TWO, CAT, FOX, slot_id=0)
    again = harness.answer(TWO, CAT, DOG, slot_id=0)
    assert again.bits == fresh.bits
    if harness.engine.can_cut:
        n_tiles = len({span.number for span in spans})
        last = other_spans[-1].picture
        second = next(span for span in other_spans if span.picture is last)
        assert again.usage.n_cached <= second.first
        assert again.usage.n_cached > (other_spans[0].end if n_tiles == 1 else 16)
        assert ids[: again.usage.n_cached] == other[: again.usage.n_cached]


def test_a_second_turn_runs_only_what_is_new(harness, pair):
    ids, spans = harness.read(ASKED, CAT)
    first = harness.answer(ASKED, CAT, max_tokens=12)
    more = harness.engine.vocab.tokenize(" And what else?")
    second = [*ids, *first.tokens, *more]
    resumed = harness.answer(second, images=spans)
    assert resumed.usage.n_cached == len(ids) + 11
    with seeing(*pair, uniform, **OPTIONS) as fresh:
        assert fresh.answer(second, images=spans).bits == resumed.bits


@pytest.mark.parametrize("shape", SHAPES)
def test_drafts_change_nothing(pair, expected, shape, kept_threads):
    scripts = Scripts()
    scripts.shape = SHAPES[shape]
    with seeing(*pair, uniform, drafting=scripts.drafting, **OPTIONS) as harness:
        if not harness.engine.can_cut:
            pytest.skip("recurrent memory cannot step back: nothing is drafted")
        for name, job, named in (
            ("cat", (ASKED, CAT), {}),
            ("two", (TWO, CAT, FOX), {}),
            ("fox", (ASKED, FOX), {"sampling": SEEDED}),
        ):
            asked = harness.job(*job, **named)
            scripts.expect(asked, expected[name][0])
            (answer,) = harness.submit(asked).wait()
            assert answer.bits == expected[name]
            assert answer.usage.n_drafted > 0


def test_usage_counts_a_pictures_tokens(harness):
    ids, spans = harness.read(ASKED, CAT)
    answer = harness.answer(ASKED, CAT)
    assert answer.usage.n_prompt == len(ids)
    assert sum(span.tile.n_tokens for span in spans) == sum(i < 0 for i in ids)


@pytest.mark.parametrize(
    ("text", "pictures"),
    [
        (ASKED, (CAT,)),
        (TWO, (FOX, DOG)),
        (f"{PICTURE}{PICTURE} and {PICTURE}", (DOG, DOG, CAT)),
    ],
)
def test_the_engines_own_helper_gives_the_same_bits(pair, harness, text, pictures):
    row = last_row(
        *pair, text.replace(PICTURE, "<__media__>"), [decode(p) for p in pictures]
    )
    answer = harness.answer(text, *pictures, max_tokens=1, n_logprobs=20)
    (found,) = answer.logprobs
    entry = score(harness.engine.vocab, row, found[0], found[1], 20)
    assert found == (entry.token_id, entry.piece, entry.logprob, entry.top)


@pytest.mark.parametrize("limit", [1, 5])
def test_a_prompt_that_ends_in_a_picture_is_answered(harness, pair, limit):
    ids, spans = harness.read(ASKED, DOG)
    ids = ids[: spans[-1].end]
    answer = harness.answer(ids, images=spans, max_tokens=limit)
    again = harness.answer(ids, images=spans, max_tokens=limit)
    assert again.bits == answer.bits
    assert again.usage.n_cached <= spans[-1].first


def test_choices_of_one_prompt_equal_requests_of_their_own(harness):
    seeds = [SamplingParams(temperature=1.0, seed=seed) for seed in (3, 4, 5)]
    jobs = [
        harness.job(
            ASKED, CAT, sampling=s, index=i, request_id="three", group="three/0"
        )
        for i, s in enumerate(seeds)
    ]
    answers = harness.submit(*jobs).wait()
    for sampling, answer in zip(seeds, answers, strict=True):
        assert harness.answer(ASKED, CAT, sampling=sampling).bits == answer.bits


def test_a_kept_state_is_put_back_after_a_restart(pair, tmp_path, kept_threads):
    long = "Once upon a time there was a town by the river. " * 6 + TWO
    cache = {"folder": tmp_path}
    with seeing(*pair, uniform, cache=cache, **OPTIONS) as first:
        expected = first.answer(long, CAT, FOX, max_tokens=8)
        first.wait_idle()
        first.system.keep_all()
    with seeing(*pair, uniform, cache=cache, **OPTIONS) as second:
        ids, _ = second.read(long, CAT, FOX)
        longer = f"{long} Tell more."
        resumed = second.answer(longer, CAT, FOX, max_tokens=8)
        again = second.answer(long, CAT, FOX, max_tokens=8)
    with seeing(*pair, uniform, **OPTIONS) as fresh:
        assert fresh.answer(longer, CAT, FOX, max_tokens=8).bits == resumed.bits
    assert again.bits == expected.bits
    if fresh.engine.can_cut and fresh.engine.model.n_swa <= 0:
        assert resumed.usage.n_cached > len(ids) - 8


def test_turn_by_turn_gives_the_same_answers_as_each_other(pair, kept_threads):
    """The plan for engines whose rows depend on their neighbours."""
    with seeing(*pair, alone, **OPTIONS) as harness:
        first = [
            harness.answer(ASKED, CAT).bits,
            harness.answer(TWO, CAT, FOX).bits,
        ]
        running = [
            harness.submit(harness.job(ASKED, CAT)),
            harness.submit(harness.job("Some words only.", max_tokens=30)),
            harness.submit(harness.job(TWO, CAT, FOX)),
        ]
        bits = [collector.wait()[0].bits for collector in running]
        assert [bits[0], bits[2]] == first
        resumed = harness.answer(f"{TWO} More.", CAT, FOX)
    with seeing(*pair, alone, **OPTIONS) as fresh:
        assert fresh.answer(f"{TWO} More.", CAT, FOX).bits == resumed.bits


# --- One encoder, watched -----------------------------------------------------------


class Watched:
    """A projector that counts, waits and fails as a test wants it."""

    def __init__(self, projector):
        self.projector = projector
        self.n_encoded = 0
        self.n_looks = 0
        self.gate = threading.Event()
        self.gate.set()
        self.is_inside = threading.Event()
        self.fails = False
        self.found = None

    def prepared(self, pixels):
        return self.projector.prepared(pixels)

    def encode(self, picture, tile, go_on):
        if self.fails:
            raise InternalError("the encoder fails for once")

        def look():
            self.n_looks += 1
            self.is_inside.set()
            # As long as the gate is shut, the picture has a piece left.
            while go_on():
                if self.gate.is_set():
                    return True
            return False

        self.found = found = self.projector.encode(picture, tile, look)
        self.n_encoded += found is not None
        return found


@pytest.fixture
def watched(kept_threads):
    made = []

    def wrap(projector):
        made.append(Watched(projector))
        return made[0]

    pair = tiny_models.qwen2vl(), tiny_projectors.qwen2vl()
    with seeing(*pair, uniform, wrap=wrap, **OPTIONS) as harness:
        harness.watched = made[0]
        yield harness
        made[0].gate.set()


def test_a_picture_is_encoded_once(watched):
    first = watched.answer(ASKED, CAT)
    for slot_id in range(3):
        assert watched.answer(ASKED, CAT, slot_id=slot_id).bits == first.bits
    assert watched.watched.n_encoded == 1


def test_two_that_wait_for_one_picture_share_its_encoding(watched):
    watched.watched.gate.clear()
    running = [
        watched.submit(watched.job(ASKED, CAT)),
        watched.submit(watched.job(TWO, CAT, CAT)),
    ]
    assert watched.watched.is_inside.wait(60)
    watched.watched.gate.set()
    for collector in running:
        assert collector.wait()[0].error is None
    assert watched.watched.n_encoded == 1


def test_streams_flow_while_a_picture_is_encoded(watched):
    watched.watched.gate.clear()
    seen = watched.submit(watched.job(ASKED, CAT))
    assert watched.watched.is_inside.wait(60)
    words = watched.answer("Words that need no picture.", max_tokens=30)
    assert len(words.tokens) == 30
    assert seen.n_tokens == 0
    watched.watched.gate.set()
    assert len(seen.wait()[0].tokens) == 24


def test_a_picture_that_nobody_wants_any_more_is_given_up(watched):
    watched.watched.gate.clear()
    seen = watched.submit(watched.job(ASKED, CAT, request_id="gone"))
    assert watched.watched.is_inside.wait(60)
    watched.system.cancel("gone", RequestError("the client is gone"))
    assert "gone" in str(seen.wait()[0].error)
    # The gate is still shut: only giving up lets the next picture begin.
    watched.watched.is_inside.clear()
    other = watched.submit(watched.job(ASKED, DOG))
    assert watched.watched.is_inside.wait(60)
    assert watched.watched.n_encoded == 0
    watched.watched.gate.set()
    assert len(other.wait()[0].tokens) == 24


def test_a_cancelled_request_leaves_no_trace_in_later_ones(watched):
    expected = watched.answer(TWO, CAT, FOX).bits
    for slot_id in range(3):
        watched.answer("Nothing.", slot_id=slot_id, max_tokens=1)
    watched.watched.gate.clear()
    gone = watched.submit(watched.job(TWO, DOG, CAT, request_id="gone"))
    assert watched.watched.is_inside.wait(60)
    watched.system.cancel("gone", RequestError("the client is gone"))
    gone.wait()
    watched.watched.gate.set()
    assert watched.answer(TWO, CAT, FOX).bits == expected


def test_a_picture_that_cannot_be_encoded_fails_its_request_alone(watched):
    watched.watched.fails = True
    running = watched.submit(watched.job("Words first.", max_tokens=30))
    answer = watched.answer(ASKED, CAT)
    assert "fails for once" in str(answer.error)
    assert len(running.wait()[0].tokens) == 30
    watched.watched.fails = False
    assert watched.answer(ASKED, CAT).error is None
    assert not watched.deaths


def test_the_server_stops_in_the_middle_of_a_picture(kept_threads):
    made = []

    def wrap(projector):
        made.append(Watched(projector))
        return made[0]

    pair = tiny_models.qwen2vl(), tiny_projectors.qwen2vl()
    with seeing(*pair, uniform, wrap=wrap, **OPTIONS) as harness:
        made[0].gate.clear()
        harness.submit(harness.job(ASKED, CAT))
        assert made[0].is_inside.wait(60)
    assert not any(t.name == "encoder" for t in threading.enumerate())


def test_vectors_do_not_depend_on_how_often_the_encoder_is_interrupted(watched):
    projector = watched.watched.projector
    with projector.prepared(decode(FOX)) as p:
        plain = projector.encode(p, 0, lambda: True)
    watched.answer(ASKED, FOX)
    assert np.array_equal(watched.watched.found, plain)
