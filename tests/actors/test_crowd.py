"""Whatever a crowd does, each answer is the one that its request would get alone.

`make soak` asks for thousands of comparisons, with seeds that nobody tried before.
"""

from __future__ import annotations

import os

import pytest

from kinetic.actors.policy.plan import alone_plan, uniform_plan
from tests.support import tiny_models
from tests.support.crowd import gathered
from tests.support.metrics import sample

DRAFTS = "llamacpp:spec_decode_num_{}_tokens_total"

SOAK = int(os.environ.get("KINETIC_SOAK", "0"))
"""Comparisons for each model; 0 for a short crowd."""

SEED = int(os.environ.get("KINETIC_SEED", "1"))

# Engine threads wait for each other by spinning: on a busy machine two are very slow.
pytestmark = pytest.mark.timeout(300 + SOAK * 10)


def uniform(engine):
    return uniform_plan(n_sequences=engine.n_sequences)


CROWDS = {
    "dense": (tiny_models.qwen3, uniform, {}),
    "experts": (tiny_models.qwen3_moe, uniform, {}),
    "window": (tiny_models.gemma3, uniform, {}),
    "recurrent": (tiny_models.qwen35, uniform, {}),
    "in turns": (tiny_models.qwen3, lambda _: alone_plan(), {"flash_attention": True}),
}


@pytest.mark.parametrize("name", CROWDS)
def test_every_answer_of_a_crowd_is_its_own(name, tmp_path):
    make, plan_of, options = CROWDS[name]
    n = SOAK or 25
    seed = SEED + 1000 * list(CROWDS).index(name)
    with gathered(make(), plan_of, tmp_path, seed, **options) as crowd:
        crowd.run(n)
        view, page = crowd.view, crowd.metrics_page
    print(
        f"{name}, seed {seed}: {crowd.n_compared} answers compared whole,"
        f" {crowd.n_cut_short} as far as they came; {crowd.n_cached} built on others'"
        f" work, {view.cache.n_hits} kept states put back, {view.cache.n_evicted}"
        f" evicted, {sample(page, DRAFTS.format('accepted')):.0f} of"
        f" {sample(page, DRAFTS.format('draft')):.0f} drafted tokens right"
    )
    # A crowd without these would prove nothing.
    assert crowd.n_compared >= n
    assert crowd.n_cached
    assert view.cache.n_hits
