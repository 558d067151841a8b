"""The Metrics actor, unstarted: messages in, the published view out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kinetic.actors.messages import (
    CacheChanged,
    GenerationEnded,
    GenerationMoved,
    GenerationStarted,
    Job,
    JobDropped,
    LineChanged,
    PassDone,
    PassesDone,
    ResponseSent,
)
from kinetic.actors.metrics.metrics import OUTCOMES, REASONS, Board, Metrics, empty_view
from kinetic.types import SamplingParams, Timings, Usage

JOB = Job(
    request_id="r", index=0, prompt=tuple(range(10)), sampling=SamplingParams(seed=1)
)


def passed(**told: float):
    return PassesDone(passes=(PassDone(**told),))


def times(prompt_s: float = 0.0, predicted_s: float = 0.0, queued_s: float = 0.5):
    return Timings(queued_s=queued_s, prompt_s=prompt_s, predicted_s=predicted_s)


def started(slot_id: int = 0, n_cached: int = 0):
    return GenerationStarted(slot_id=slot_id, job=JOB, n_cached=n_cached, queued_s=0.5)


def moved(n_prompt_done: int, n_generated: int, timings: Timings, slot_id: int = 0):
    return GenerationMoved(
        slot_id=slot_id,
        n_prompt_done=n_prompt_done,
        n_generated=n_generated,
        timings=timings,
    )


def ended(
    n_generated: int,
    timings: Timings,
    *,
    outcome: str = "eos",
    n_cached: int = 0,
    n_prompt_done: int = 10,
    slot_id: int = 0,
):
    usage = Usage(n_prompt=10, n_cached=n_cached, n_generated=n_generated)
    return GenerationEnded(
        slot_id=slot_id,
        outcome=outcome,
        usage=usage,
        timings=timings,
        n_prompt_done=n_prompt_done,
    )


@pytest.fixture
def board():
    return Board(empty_view(2))


@pytest.fixture
def metrics(board):
    def died(name: str, error: BaseException) -> None:
        pytest.fail(f"{name} died: {error}")

    return Metrics(2, board, died)


def test_the_board_shows_the_view_after_each_message(metrics, board):
    before = board.view
    metrics.hear(LineChanged(n_running=1, n_waiting=3))
    assert (board.view.n_running, board.view.n_waiting) == (1, 3)
    assert (before.n_running, before.n_waiting) == (0, 0)


def test_a_pass_is_counted_with_its_rows_and_time(metrics, board):
    for n_rows in (1, 4):
        metrics.hear(
            passed(
                seconds=0.25,
                n_rows=n_rows,
                n_sequences=2,
                n_prompt_rows=n_rows - 1,
                n_max_tokens=7,
                n_held=9,
            )
        )
    totals, spreads = board.view.totals, board.view.spreads
    assert (totals.passes, totals.pass_rows, totals.pass_prompt_rows) == (2, 5, 3)
    assert (totals.pass_sequences, totals.pass_s, totals.max_tokens) == (4, 0.5, 7)
    assert board.view.n_held == 9
    assert spreads.step.n == spreads.rows.n == 2
    assert spreads.rows.total == 5


def test_the_longest_sequence_never_falls(metrics, board):
    for longest in (7, 3):
        metrics.hear(
            passed(
                seconds=0.1,
                n_rows=1,
                n_sequences=1,
                n_prompt_rows=0,
                n_max_tokens=longest,
            )
        )
    assert board.view.totals.max_tokens == 7


def test_a_slot_shows_what_it_does_and_keeps_its_last_request(metrics, board):
    metrics.hear(started(1, n_cached=4))
    metrics.hear(moved(10, 3, times(1.0, 2.0), slot_id=1))
    slot = board.view.slots[1]
    assert slot.is_processing
    assert slot.job is JOB
    assert (slot.n_cached, slot.n_prompt_done, slot.n_generated) == (4, 10, 3)
    assert board.view.n_idle == 1
    metrics.hear(ended(5, times(1.0, 3.0), n_cached=4, slot_id=1))
    slot = board.view.slots[1]
    assert not slot.is_processing
    assert (slot.job, slot.n_generated, slot.task) == (JOB, 5, 0)


def test_drafts_are_shown_while_they_are_made_and_counted_at_the_end(metrics, board):
    metrics.hear(started())
    metrics.hear(replace(moved(10, 17, times()), n_drafted=9, n_accepted=6))
    slot = board.view.slots[0]
    assert (slot.n_drafted, slot.n_accepted) == (9, 6)
    assert board.view.totals.drafted == 0
    end = ended(30, times())
    usage = replace(end.usage, n_drafts=4, n_drafted=12, n_accepted=8)
    metrics.hear(replace(end, usage=usage))
    slot, totals = board.view.slots[0], board.view.totals
    assert (slot.n_drafted, slot.n_accepted) == (12, 8)
    assert (totals.drafts, totals.drafted, totals.accepted) == (4, 12, 8)
    metrics.hear(started())
    assert board.view.slots[0].n_drafted == 0


def test_generations_are_numbered_over_all_slots(metrics, board):
    for slot_id in (0, 1, 0):
        metrics.hear(started(slot_id))
    assert [slot.task for slot in board.view.slots] == [2, 1]


def test_tokens_and_times_are_counted_while_an_answer_is_made(metrics, board):
    metrics.hear(started(n_cached=4))
    metrics.hear(moved(7, 0, times(1.0)))
    assert board.view.totals.prompt_tokens == 3
    metrics.hear(moved(10, 1, times(2.0, 0.0)))
    metrics.hear(moved(10, 17, times(2.0, 4.0)))
    totals = board.view.totals
    assert (totals.prompt_tokens, totals.prompt_s) == (6, 2.0)
    assert (totals.predicted_tokens, totals.predicted_s) == (17, 4.0)
    assert totals.requests == 0
    metrics.hear(ended(20, times(2.0, 5.0), n_cached=4))
    totals = board.view.totals
    assert (totals.prompt_tokens, totals.cached_tokens) == (6, 4)
    assert (totals.predicted_tokens, totals.predicted_s) == (20, 5.0)
    assert (totals.requests, totals.reused) == (1, 1)


def test_a_prompt_that_was_given_up_counts_what_was_run(metrics, board):
    metrics.hear(started())
    metrics.hear(moved(4, 0, times(1.0)))
    metrics.hear(ended(0, times(1.5), outcome="cancelled", n_prompt_done=4))
    totals = board.view.totals
    assert (totals.prompt_tokens, totals.prompt_s, totals.cancelled) == (4, 1.5, 1)
    assert board.view.spreads.first_token.n == 0
    assert board.view.spreads.answer.n == 0


def test_kept_tokens_that_did_not_fit_are_run_and_counted(metrics, board):
    metrics.hear(started(n_cached=10))
    metrics.hear(moved(6, 0, times(1.0)))
    metrics.hear(ended(1, times(2.0), n_cached=0))
    totals = board.view.totals
    assert (totals.prompt_tokens, totals.cached_tokens, totals.reused) == (10, 0, 0)


def test_the_first_token_and_the_queue_are_observed_once_per_answer(metrics, board):
    metrics.hear(started())
    metrics.hear(moved(10, 1, times(1.0, 0.0)))
    metrics.hear(moved(10, 17, times(1.0, 1.0)))
    metrics.hear(ended(21, times(1.0, 2.0)))
    spreads = board.view.spreads
    assert (spreads.queue.n, spreads.queue.total) == (1, 0.5)
    assert (spreads.first_token.n, spreads.first_token.total) == (1, 1.5)
    assert (spreads.answer.n, spreads.answer.total) == (1, 3.5)
    assert (spreads.token.n, spreads.token.total) == (1, 0.1)


def test_an_answer_of_one_token_has_no_time_between_tokens(metrics, board):
    metrics.hear(started())
    metrics.hear(ended(1, times(1.0, 0.0)))
    assert board.view.spreads.token.n == 0
    assert board.view.spreads.first_token.n == 1


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_each_outcome_is_counted_under_its_name(metrics, board, outcome):
    metrics.hear(started())
    metrics.hear(ended(1, times(), outcome=outcome))
    counts = dict(zip(OUTCOMES, board.view.totals.outcomes, strict=True))
    assert counts == {name: int(name == outcome) for name in OUTCOMES}


@pytest.mark.parametrize("reason", REASONS)
def test_each_refusal_is_counted_under_its_reason(metrics, board, reason):
    metrics.hear(JobDropped(outcome=reason))
    counts = dict(zip(REASONS, board.view.totals.dropped, strict=True))
    assert counts == {name: int(name == reason) for name in REASONS}


def test_a_prefill_counts_its_tokens_and_is_no_answer(metrics, board):
    job = replace(JOB, is_prefill=True)
    metrics.hear(GenerationStarted(slot_id=0, job=job, n_cached=4, queued_s=0.5))
    metrics.hear(ended(0, times(2.0), outcome="limit", n_cached=4))
    totals, spreads = board.view.totals, board.view.spreads
    assert (totals.prompt_tokens, totals.cached_tokens, totals.prefills) == (6, 4, 1)
    assert (totals.requests, sum(totals.outcomes)) == (0, 0)
    assert (spreads.queue.n, spreads.answer.n) == (0, 0)


def test_an_end_that_nobody_has_named_is_counted_without_breaking(metrics, board):
    metrics.hear(started())
    metrics.hear(ended(1, times(), outcome="new"))
    assert board.view.totals.requests == 1
    assert sum(board.view.totals.outcomes) == 0


def test_what_the_cache_holds_is_shown(metrics, board):
    told = CacheChanged(
        n_states=1,
        memory_bytes=2,
        disk_bytes=3,
        n_hits=4,
        n_misses=5,
        n_kept=6,
        n_evicted=7,
        n_unwritten=8,
    )
    metrics.hear(told)
    assert board.view.cache == told


def test_responses_are_counted_by_status(metrics, board):
    for status in (400, 200, 200):
        metrics.hear(ResponseSent(status=status))
    assert board.view.totals.responses == ((200, 2), (400, 1))
