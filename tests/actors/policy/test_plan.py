"""The batch plans: which rows share a pass, and what a held prefix is good for."""

import pytest
from hypothesis import given, strategies as st

from kinetic.actors.policy.plan import (
    Held,
    Pending,
    Share,
    alone_plan,
    shape,
    uniform_plan,
    usable_prefix,
)
from kinetic.model.job import ImageSpan, Picture
from kinetic.model.tiles import Tile

UNIFORM = uniform_plan(n_sequences=4)
ALONE = alone_plan()


def prompt(slot_id, n_rows, *, first=0, arrived=0):
    return Pending(
        slot_id=slot_id, first=first, n_rows=n_rows, is_step=False, arrived=arrived
    )


def step(slot_id, *, n_rows=1, first=100, arrived=0):
    return Pending(
        slot_id=slot_id, first=first, n_rows=n_rows, is_step=True, arrived=arrived
    )


def test_nothing_waiting_gives_an_empty_pass():
    assert shape(UNIFORM, [], n_batch=512) == ()


def test_a_lone_prompt_runs_in_large_chunks():
    (share,) = shape(UNIFORM, [prompt(0, 2000)], n_batch=512)
    assert share == Share(slot_id=0, n_rows=UNIFORM.prompt_chunk)


def test_steps_come_first_and_a_prompt_beside_them_gets_a_small_chunk():
    shares = shape(
        UNIFORM,
        [prompt(3, 2000, arrived=1), *(step(i, arrived=5 + i) for i in range(3))],
        n_batch=512,
    )
    assert [s.slot_id for s in shares] == [0, 1, 2, 3]
    assert shares[-1].n_rows == UNIFORM.shared_chunk


def test_prompts_are_run_first_come_first_served():
    (share,) = shape(
        UNIFORM, [prompt(0, 50, arrived=2), prompt(1, 60, arrived=1)], n_batch=512
    )
    assert share == Share(slot_id=1, n_rows=60)


def test_alone_runs_one_sequence_a_pass():
    shares = shape(ALONE, [step(0, arrived=2), step(1, arrived=1)], n_batch=512)
    assert shares == (Share(slot_id=1, n_rows=1),)


def test_alone_lets_prompts_and_steps_take_turns():
    pending = [step(0), prompt(1, 500)]
    (first,) = shape(ALONE, pending, n_batch=512, prompt_had_turn=False)
    (second,) = shape(ALONE, pending, n_batch=512, prompt_had_turn=True)
    assert (first.slot_id, second.slot_id) == (1, 0)


@pytest.mark.parametrize(
    ("first", "n_rows", "expected"),
    [(0, 500, 64), (0, 10, 10), (64, 65, 64), (128, 3, 3)],
)
def test_alone_cuts_prompts_on_its_grid(first, n_rows, expected):
    (share,) = shape(ALONE, [prompt(0, n_rows, first=first)], n_batch=512)
    assert share.n_rows == expected


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(1, 300), st.integers(0, 50)),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([UNIFORM, ALONE]),
    st.booleans(),
)
def test_every_pass_makes_progress_and_fits(entries, plan, had_turn):
    pending = [
        step(i, arrived=arrived) if is_step else prompt(i, n, arrived=arrived)
        for i, (is_step, n, arrived) in enumerate(entries)
    ]
    shares = shape(plan, pending, n_batch=64, prompt_had_turn=had_turn)
    assert shares
    assert sum(s.n_rows for s in shares) <= 64
    assert len({s.slot_id for s in shares}) == len(shares)
    by_slot = {p.slot_id: p for p in pending}
    assert all(0 < s.n_rows <= by_slot[s.slot_id].n_rows for s in shares)
    kinds = {by_slot[s.slot_id].is_step for s in shares}
    assert plan.mix_prompt_and_steps or len(kinds) == 1


def held(n_shared, *, n_tokens=200, n_prompt=150, can_cut=True):
    return Held(
        n_tokens=n_tokens, n_prompt=n_prompt, n_shared=n_shared, can_cut=can_cut
    )


def test_uniform_reuses_answers_too():
    assert usable_prefix(UNIFORM, held(180), n_prompt=300) == 180


def test_one_prompt_token_is_always_run():
    assert usable_prefix(UNIFORM, held(200), n_prompt=200) == 199


def test_alone_reuses_whole_chunks_of_prompts_only():
    assert usable_prefix(ALONE, held(180), n_prompt=300) == 128
    assert usable_prefix(ALONE, held(63), n_prompt=300) == 0


def test_memory_that_cannot_be_cut_is_used_whole_or_not_at_all():
    assert usable_prefix(UNIFORM, held(200, can_cut=False), n_prompt=300) == 200
    assert usable_prefix(UNIFORM, held(199, can_cut=False), n_prompt=300) == 0


def picture(slot_id, n_rows, *, whole=False, arrived=0):
    return Pending(
        slot_id=slot_id,
        first=20,
        n_rows=n_rows,
        is_step=False,
        arrived=arrived,
        is_image=True,
        is_whole=whole,
    )


def test_a_picture_has_passes_of_its_own_and_takes_turns_with_steps():
    pending = [step(1), picture(0, 100)]
    assert shape(UNIFORM, pending, n_batch=512) == (
        Share(slot_id=0, n_rows=UNIFORM.shared_chunk),
    )
    assert shape(UNIFORM, pending, n_batch=512, prompt_had_turn=True) == (
        Share(slot_id=1, n_rows=1),
    )


def test_a_picture_whose_tokens_see_each_other_is_run_whole():
    for plan in (UNIFORM, ALONE):
        for others in ([], [step(1)]):
            pending = [*others, picture(0, 300, whole=True)]
            assert shape(plan, pending, n_batch=512) == (Share(slot_id=0, n_rows=300),)


def test_other_prompts_wait_for_a_picture_that_came_first():
    pending = [prompt(1, 50, arrived=2), picture(0, 30, arrived=1)]
    assert shape(UNIFORM, pending, n_batch=512) == (Share(slot_id=0, n_rows=30),)
    pending = [prompt(1, 50, arrived=1), picture(0, 30, arrived=2)]
    assert shape(UNIFORM, pending, n_batch=512) == (Share(slot_id=1, n_rows=50),)


def test_a_prefix_never_ends_inside_a_picture():
    tile = Tile(n_tokens=80, n_positions=80, axes=None)
    cat = Picture.of(b"cat")
    at_50 = ImageSpan(first=50, tile=tile, number=0, picture=cat, sees_ahead=False)

    def usable(plan, n_shared, *, can_cut=True):
        found = Held(
            n_tokens=n_shared, n_prompt=n_shared, n_shared=n_shared, can_cut=can_cut
        )
        return usable_prefix(plan, found, n_prompt=300, images=(at_50,))

    assert [usable(UNIFORM, n) for n in (49, 50, 51, 129, 130, 200)] == [
        *(49, 50, 50, 50, 130, 200),
    ]
    # The picture's start is where a chunk ends in any prompt that holds it.
    assert [usable(ALONE, n) for n in (63, 64, 129, 130, 200)] == [0, 50, 50, 50, 192]
    assert usable(UNIFORM, 100, can_cut=False) == 0


def test_steps_stand_in_the_order_of_their_sequences():
    pending = [step(2, arrived=1), step(0, arrived=2), step(3, arrived=3), step(1)]
    shares = shape(UNIFORM, pending, n_batch=512)
    assert [share.slot_id for share in shares] == [0, 1, 2, 3]
