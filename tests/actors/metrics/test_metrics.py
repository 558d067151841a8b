"""The Metrics actor, unstarted: messages in, the page and its view out."""

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
from kinetic.actors.metrics.exposition import Facts, MetricsPage
from kinetic.actors.metrics.metrics import Metrics
from kinetic.actors.metrics.view import empty_view
from kinetic.types import Outcome, Refusal, SamplingParams, Timings, Usage
from tests.support import metrics as told

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
    outcome: Outcome = Outcome.EOS,
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
def page():
    return MetricsPage(empty_view(2), Facts(n_ctx=64, build={}))


@pytest.fixture
def value(page):
    """Reads one value on the page."""
    return lambda name, **labels: told.sample(page.render(), name, **labels)


@pytest.fixture
def metrics(page):
    def died(name: str, error: BaseException) -> None:
        pytest.fail(f"{name} died: {error}")

    return Metrics(page, died)


def test_the_page_has_the_view_after_each_message(metrics, page):
    before = page.view
    metrics.hear(LineChanged(n_running=1, n_waiting=3))
    assert (page.view.n_running, page.view.n_waiting) == (1, 3)
    assert (before.n_running, before.n_waiting) == (0, 0)


def test_a_pass_is_counted_with_its_rows_and_time(metrics, page, value):
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
    assert value("llamacpp:n_decode_total") == 2
    assert value("kinetic_step_prompt_rows_total") == 3
    assert value("llamacpp:n_tokens_max") == 7
    assert (page.view.n_sequences, page.view.n_held) == (4, 9)
    assert value("llamacpp:n_busy_slots_per_decode") == 2
    assert value("kinetic_step_seconds_count") == 2
    assert value("kinetic_step_seconds_sum") == 0.5
    assert value("kinetic_step_rows_count") == 2
    assert value("kinetic_step_rows_sum") == 5


def test_the_longest_sequence_never_falls(metrics, value):
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
    assert value("llamacpp:n_tokens_max") == 7


def test_a_slot_shows_what_it_does_and_keeps_its_last_request(metrics, page):
    metrics.hear(started(1, n_cached=4))
    metrics.hear(moved(10, 3, times(1.0, 2.0), slot_id=1))
    slot = page.view.slots[1]
    assert slot.is_processing
    assert slot.job is JOB
    assert (slot.n_cached, slot.n_prompt_done, slot.n_generated) == (4, 10, 3)
    assert page.view.n_idle == 1
    metrics.hear(ended(5, times(1.0, 3.0), n_cached=4, slot_id=1))
    slot = page.view.slots[1]
    assert not slot.is_processing
    assert (slot.job, slot.n_generated, slot.task) == (JOB, 5, 0)


def test_drafts_are_shown_while_they_are_made_and_counted_at_the_end(
    metrics, page, value
):
    metrics.hear(started())
    metrics.hear(replace(moved(10, 17, times()), n_drafted=9, n_accepted=6))
    slot = page.view.slots[0]
    assert (slot.n_drafted, slot.n_accepted) == (9, 6)
    assert value("llamacpp:spec_decode_num_draft_tokens_total") == 0
    end = ended(30, times())
    usage = replace(end.usage, n_drafts=4, n_drafted=12, n_accepted=8)
    metrics.hear(replace(end, usage=usage))
    slot = page.view.slots[0]
    assert (slot.n_drafted, slot.n_accepted) == (12, 8)
    assert value("llamacpp:spec_decode_num_drafts_total") == 4
    assert value("llamacpp:spec_decode_num_draft_tokens_total") == 12
    assert value("llamacpp:spec_decode_num_accepted_tokens_total") == 8
    metrics.hear(started())
    assert page.view.slots[0].n_drafted == 0


def test_generations_are_numbered_over_all_slots(metrics, page):
    for slot_id in (0, 1, 0):
        metrics.hear(started(slot_id))
    assert [slot.task for slot in page.view.slots] == [2, 1]


def test_tokens_and_times_are_counted_while_an_answer_is_made(metrics, value):
    metrics.hear(started(n_cached=4))
    metrics.hear(moved(7, 0, times(1.0)))
    assert value("llamacpp:prompt_tokens_total") == 3
    metrics.hear(moved(10, 1, times(2.0, 0.0)))
    metrics.hear(moved(10, 17, times(2.0, 4.0)))
    assert (
        value("llamacpp:prompt_tokens_total"),
        value("llamacpp:prompt_seconds_total"),
    ) == (6, 2.0)
    assert (
        value("llamacpp:tokens_predicted_total"),
        value("llamacpp:tokens_predicted_seconds_total"),
    ) == (17, 4.0)
    assert value("llamacpp:requests_total") == 0
    metrics.hear(ended(20, times(2.0, 5.0), n_cached=4))
    assert (
        value("llamacpp:prompt_tokens_total"),
        value("llamacpp:prompt_tokens_cached_total"),
    ) == (6, 4)
    assert (
        value("llamacpp:tokens_predicted_total"),
        value("llamacpp:tokens_predicted_seconds_total"),
    ) == (20, 5.0)
    assert (value("llamacpp:requests_total"), value("kinetic_reused_total")) == (1, 1)


def test_no_counter_falls_where_less_time_is_told_than_before(metrics, value):
    # The Detokenizer lagged: it told of the prompt later than its last pass was over.
    metrics.hear(started())
    metrics.hear(moved(7, 0, times(2.0)))
    metrics.hear(moved(10, 1, times(1.5)))
    assert value("llamacpp:prompt_seconds_total") == 2.0
    metrics.hear(ended(2, times(1.5, 1.0)))
    assert value("llamacpp:prompt_seconds_total") == 2.0


def test_a_prompt_that_was_given_up_counts_what_was_run(metrics, value):
    metrics.hear(started())
    metrics.hear(moved(4, 0, times(1.0)))
    metrics.hear(ended(0, times(1.5), outcome=Outcome.CANCELLED, n_prompt_done=4))
    assert (
        value("llamacpp:prompt_tokens_total"),
        value("llamacpp:prompt_seconds_total"),
    ) == (4, 1.5)
    assert value("kinetic_answers_total", outcome="cancelled") == 1
    assert value("kinetic_first_token_seconds_count") == 0
    assert value("kinetic_answer_seconds_count") == 0


def test_kept_tokens_that_did_not_fit_are_run_and_counted(metrics, value):
    metrics.hear(started(n_cached=10))
    metrics.hear(moved(6, 0, times(1.0)))
    metrics.hear(ended(1, times(2.0), n_cached=0))
    assert (
        value("llamacpp:prompt_tokens_total"),
        value("llamacpp:prompt_tokens_cached_total"),
        value("kinetic_reused_total"),
    ) == (10, 0, 0)


def test_the_first_token_and_the_queue_are_observed_once_per_answer(metrics, value):
    metrics.hear(started())
    metrics.hear(moved(10, 1, times(1.0, 0.0)))
    metrics.hear(moved(10, 17, times(1.0, 1.0)))
    metrics.hear(ended(21, times(1.0, 2.0)))
    for name, seconds in (
        ("queue", 0.5),
        ("first_token", 1.5),
        ("answer", 3.5),
        ("token", 0.1),
    ):
        assert value(f"kinetic_{name}_seconds_count") == 1
        assert value(f"kinetic_{name}_seconds_sum") == seconds


def test_an_answer_of_one_token_has_no_time_between_tokens(metrics, value):
    metrics.hear(started())
    metrics.hear(ended(1, times(1.0, 0.0)))
    assert value("kinetic_token_seconds_count") == 0
    assert value("kinetic_first_token_seconds_count") == 1


@pytest.mark.parametrize("outcome", Outcome)
def test_each_outcome_is_counted_under_its_name(metrics, page, outcome):
    metrics.hear(started())
    metrics.hear(ended(1, times(), outcome=outcome))
    counts = told.samples(page.render(), "kinetic_answers_total", "outcome")
    assert counts == {name: int(name == outcome) for name in Outcome}


@pytest.mark.parametrize("reason", Refusal)
def test_each_refusal_is_counted_under_its_reason(metrics, page, reason):
    metrics.hear(JobDropped(outcome=reason))
    counts = told.samples(page.render(), "kinetic_refused_total", "reason")
    assert counts == {name: int(name == reason) for name in Refusal}


def test_a_prefill_counts_its_tokens_and_is_no_answer(metrics, page, value):
    job = replace(JOB, is_prefill=True)
    metrics.hear(GenerationStarted(slot_id=0, job=job, n_cached=4, queued_s=0.5))
    metrics.hear(ended(0, times(2.0), outcome=Outcome.LIMIT, n_cached=4))
    assert (
        value("llamacpp:prompt_tokens_total"),
        value("llamacpp:prompt_tokens_cached_total"),
    ) == (6, 4)
    assert value("kinetic_prefills_total") == 1
    answers = told.samples(page.render(), "kinetic_answers_total", "outcome")
    assert (value("llamacpp:requests_total"), sum(answers.values())) == (0, 0)
    assert value("kinetic_queue_seconds_count") == 0
    assert value("kinetic_answer_seconds_count") == 0


def test_what_the_cache_holds_is_shown(metrics, page):
    changed = CacheChanged(
        n_states=1,
        memory_bytes=2,
        disk_bytes=3,
        n_hits=4,
        n_misses=5,
        n_kept=6,
        n_evicted=7,
        n_unwritten=8,
    )
    metrics.hear(changed)
    assert page.view.cache == changed


def test_responses_are_counted_by_status(metrics, page):
    for status in (400, 200, 200):
        metrics.hear(ResponseSent(status=status))
    counts = told.samples(page.render(), "kinetic_http_responses_total", "status")
    assert list(counts.items()) == [("200", 2), ("400", 1)]
