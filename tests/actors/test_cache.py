"""Kept states: every kind of resume gives the bits of computing from nothing."""

from __future__ import annotations

import pytest

from kinetic.actors.policy.plan import alone_plan, uniform_plan
from kinetic.types import SamplingParams
from tests.support import tiny_models
from tests.support.answers import running

# Engine threads wait for each other by spinning: on a busy machine two are very slow.
pytestmark = pytest.mark.timeout(300)

SEEDED = SamplingParams(temperature=1.0, seed=7, top_k=0, top_p=1.0, min_p=0.0)
MODELS = {
    "qwen3": tiny_models.qwen3,
    "moe": tiny_models.qwen3_moe,
    "window": tiny_models.gemma3,
    "delta net": tiny_models.qwen35,
    "short convolutions": tiny_models.lfm2,
}
CAN_CUT = {"qwen3", "moe"}
WINDOW = 64  # of the tiny sliding-window model


def uniform(engine):
    return uniform_plan(n_sequences=engine.n_sequences)


def story(h, seed, n=200):
    """Token ids of a text of its own; the first one differs between seeds."""
    vocab = h.engine.vocab
    words = " ".join(f"{seed} {(seed * 31 + i * i) % 97} and" for i in range(n))
    return vocab.tokenize(f"{chr(ord('A') + seed)}: {words}")[:n]


def displace(h, times=1):
    """Run prompts of another kind in every slot."""
    for i in range(times * h.engine.n_sequences):
        h.answer(story(h, 32 + i), max_tokens=1, slot_id=i % h.engine.n_sequences)


def kept(h, **named):
    """A harness with the Cache on, over the same file and plan."""
    return running(
        h.engine.path, uniform, n_ctx=512, n_parallel=2, n_threads=1, cache=named
    )


@pytest.fixture(params=list(MODELS), scope="module")
def fresh(request, kept_threads):
    """A harness that keeps nothing between slots, and the model's name."""
    path = MODELS[request.param]()
    with running(path, uniform, n_ctx=512, n_parallel=2, n_threads=1) as h:
        h.name = request.param
        yield h


def expected(h, prompt, **named):
    """The answer computed from nothing."""
    displace(h)
    answer = h.answer(prompt, sampling=SEEDED, **named)
    assert answer.usage.n_cached == 0
    return answer


def test_a_displaced_conversation_resumes_from_memory(fresh):
    prompt = story(fresh, 1)
    first = expected(fresh, prompt)
    second = [*prompt, *first.tokens[:-1], *story(fresh, 2, 20)]
    own = expected(fresh, second)
    with kept(fresh) as h:
        assert h.answer(prompt, sampling=SEEDED).bits == first.bits
        displace(h)
        resumed = h.answer(second, sampling=SEEDED)
        assert resumed.bits == own.bits
        held = len(prompt) + len(first.tokens) - 1
        if fresh.name == "window":
            held -= (held - WINDOW) % WINDOW
        assert resumed.usage.n_cached == held
        assert h.system.view.cache.n_hits == 1


def test_a_longer_state_is_cut_to_the_shared_part_only_where_that_is_exact(fresh):
    prompt = story(fresh, 1)
    other = [*prompt[:150], *story(fresh, 3, 50)]
    own = expected(fresh, other)
    with kept(fresh) as h:
        h.answer(prompt, sampling=SEEDED)
        displace(h)
        resumed = h.answer(other, sampling=SEEDED)
        assert resumed.bits == own.bits
        assert resumed.usage.n_cached == (150 if fresh.name in CAN_CUT else 0)


def test_states_survive_a_restart(fresh, tmp_path, caplog):
    caplog.set_level("INFO", logger="kinetic")
    prompt = story(fresh, 1)
    first = expected(fresh, prompt)
    second = [*prompt, *first.tokens[:-1], *story(fresh, 2, 20)]
    own = expected(fresh, second)
    with kept(fresh, folder=tmp_path) as h:
        h.answer(prompt, sampling=SEEDED)
        displace(h)
        h.answer(story(fresh, 9), max_tokens=1)
    with kept(fresh, folder=tmp_path) as h:
        resumed = h.answer(second, sampling=SEEDED)
        assert resumed.bits == own.bits
        assert resumed.usage.n_cached > 150
        assert f"kept states found in {tmp_path}" in caplog.text
        # Going on in the slot that was put back is exact too.
        third = [*second, *resumed.tokens[:-1], *story(fresh, 4, 20)]
        again = h.answer(third, sampling=SEEDED)
    assert again.bits == expected(fresh, third).bits


def test_what_idle_slots_hold_is_kept_at_the_end(fresh, tmp_path):
    prompt = story(fresh, 1, WINDOW + 64 + 1)
    own = expected(fresh, prompt, max_tokens=1)
    with kept(fresh, folder=tmp_path) as h:
        h.answer(prompt[:-1], max_tokens=1)
        h.system.keep_all()
    with kept(fresh, folder=tmp_path) as h:
        resumed = h.answer(prompt, sampling=SEEDED, max_tokens=1)
        assert resumed.usage.n_cached == len(prompt) - 1
        assert resumed.bits == own.bits


def test_choices_of_one_prompt_are_exact_where_states_are_not(fresh):
    prompt = story(fresh, 5, 90)
    own = expected(fresh, prompt)
    jobs = [
        fresh.job(prompt, sampling=SEEDED, index=i, request_id="g", group="g")
        for i in range(3)
    ]
    for answer in fresh.submit(*jobs).wait():
        assert answer.bits == own.bits


def test_taking_turns_resumes_whole_chunks_of_prompts(smollm2_path):
    def alone(_engine):
        return alone_plan()

    shape = {"n_ctx": 512, "n_parallel": 2, "n_threads": 1, "flash_attention": True}
    with running(smollm2_path, alone, **shape) as h:
        prompt = story(h, 1)
        own = h.answer(prompt, sampling=SEEDED)
    with running(smollm2_path, alone, cache={}, **shape) as h:
        h.answer(prompt, sampling=SEEDED)
        displace(h)
        resumed = h.answer(prompt, sampling=SEEDED)
        assert resumed.usage.n_cached == 192
        assert resumed.bits == own.bits


def test_beside_others_and_with_little_room(fresh):
    prompts = [story(fresh, i, 120) for i in range(6)]
    own = [expected(fresh, prompt) for prompt in prompts]
    # Room for about two states: some are evicted while others are put back.
    with kept(fresh, memory_bytes=300_000) as h:
        for _ in range(3):
            collectors = [h.submit(h.job(p, sampling=SEEDED)) for p in prompts]
            for collector, answer in zip(collectors, own, strict=True):
                assert collector.wait()[0].bits == answer.bits
        assert h.system.view.cache.memory_bytes <= 300_000


def test_a_broken_folder_only_switches_files_off(fresh, tmp_path, caplog):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    prompt = story(fresh, 1)
    with kept(fresh, folder=blocked) as h:
        first = h.answer(prompt, sampling=SEEDED)
        displace(h)
        assert h.answer(prompt, sampling=SEEDED).bits == first.bits
    assert any("memory only" in r.message for r in caplog.records)


# --- Prefills -----------------------------------------------------------------------


def prefill(h, prompt, **named):
    return h.submit(
        h.job(prompt, is_prefill=True, max_tokens=0, progress=True, **named)
    )


def test_a_prefilled_prompt_is_not_run_again(fresh):
    prompt = story(fresh, 6)
    own = expected(fresh, prompt)
    displace(fresh)
    prefill(fresh, prompt[:-3]).wait()
    answer = fresh.answer(prompt, sampling=SEEDED)
    assert answer.usage.n_cached == len(prompt) - 3
    assert answer.bits == own.bits


def test_a_request_ends_a_prefill_and_takes_what_it_has_done(fresh):
    prompt = story(fresh, 7, 400)
    own = expected(fresh, prompt)
    displace(fresh)
    early = prefill(fresh, prompt[:-3])
    early.wait_until(lambda c: c.answers[0].started)
    answer = fresh.submit(fresh.job(prompt, sampling=SEEDED))
    assert early.wait()[0].error is None
    (found,) = answer.wait()
    assert found.bits == own.bits


def test_a_newer_prefill_ends_an_older_one(fresh):
    first = prefill(fresh, story(fresh, 8, 400))
    second = prefill(fresh, story(fresh, 8, 401))
    assert first.wait()[0].error is None
    assert second.wait()[0].error is None
    fresh.wait_idle()
