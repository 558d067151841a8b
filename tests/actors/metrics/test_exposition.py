"""The metrics page, read back with prometheus_client's own parser."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

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
)
from kinetic.actors.metrics.exposition import Facts, MetricsPage
from kinetic.actors.metrics.metrics import Metrics
from kinetic.actors.metrics.view import empty_view
from kinetic.types import Outcome, Refusal, SamplingParams, Timings, Usage
from tests.support.dashboards import ROOT
from tests.support.metrics import listed, values_of

FACTS = Facts(n_ctx=64, build={"version": "1", "model": "m"})


def passed(**told: float):
    return PassesDone(passes=(PassDone(**told),))


def page_of(n_slots: int, facts: Facts = FACTS) -> MetricsPage:
    return MetricsPage(empty_view(n_slots), facts)


def died(name: str, error: BaseException) -> None:
    raise AssertionError(f"{name} died: {error}")


def test_a_server_that_has_done_nothing_shows_numbers_only():
    page = page_of(2).render()
    assert page.endswith(b"\n")
    assert b"nan" not in page.lower()
    values = values_of(page)
    assert values
    assert all(math.isfinite(value) for value in values.values())
    assert values["llamacpp:prompt_tokens_seconds", ()] == 0
    assert values["llamacpp:n_busy_slots_per_decode", ()] == 0


def test_every_metric_of_the_docs_is_on_the_page_with_help_and_type():
    lines = page_of(1).render().decode().splitlines()
    assert listed()
    for name, kind, meaning in listed():
        assert f"# TYPE {name} {kind}" in lines
        assert f"# HELP {name} {meaning}" in lines


def test_the_page_has_nothing_that_the_docs_have_not_but_the_process():
    lines = page_of(1).render().decode().splitlines()
    names = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    others = names - {name for name, _, _ in listed()}
    assert others
    assert all(name.startswith("process_") for name in others)


def test_no_metric_tells_when_it_was_made():
    page = page_of(1)
    page.responses.labels(200).inc()
    assert b"_created" not in page.render()


@pytest.mark.parametrize(
    "name",
    [
        "prompt_tokens_total",
        "prompt_tokens_cached_total",
        "prompt_seconds_total",
        "tokens_predicted_total",
        "tokens_predicted_seconds_total",
        "n_decode_total",
        "n_tokens_max",
        "spec_decode_num_draft_tokens_total",
        "spec_decode_num_accepted_tokens_total",
        "spec_decode_num_drafts_total",
        "prompt_tokens_seconds",
        "predicted_tokens_seconds",
        "requests_processing",
        "requests_deferred",
        "n_busy_slots_per_decode",
        "requests_total",
    ],
)
def test_the_names_that_dashboards_for_llama_server_ask_for_are_there(name):
    assert (f"llamacpp:{name}", ()) in values_of(page_of(1).render())


def test_nothing_is_counted_in_files_whatever_the_environment_asks_for(tmp_path):
    code = (
        "import tests.actors.metrics.test_exposition as t; t.page_of(1).requests.inc()"
    )
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, check=True, timeout=50
    )
    assert list(tmp_path.iterdir()) == []


def test_labels_with_quotes_breaks_and_backslashes_come_back_as_they_were():
    odd = 'a "model"\\of\nmine.gguf'
    page = page_of(1, Facts(n_ctx=1, build={"model": odd}))
    assert values_of(page.render())["kinetic_build_info", (("model", odd),)] == 1


def test_slots_and_kept_tokens_are_told():
    page = page_of(2)
    metrics = Metrics(page, died)
    job = Job(request_id="r", index=0, prompt=(1,), sampling=SamplingParams(seed=1))
    metrics.hear(GenerationStarted(slot_id=0, job=job, n_cached=0))
    metrics.hear(
        passed(
            seconds=0.1,
            n_rows=2,
            n_sequences=1,
            n_prompt_rows=2,
            n_max_tokens=2,
            n_held=32,
        )
    )
    values = values_of(page.render())
    assert values["kinetic_slots", (("state", "idle"),)] == 1
    assert values["kinetic_slots", (("state", "processing"),)] == 1
    assert values["llamacpp:kv_cache_tokens", ()] == 32
    assert values["llamacpp:kv_cache_usage_ratio", ()] == 32 / 128
    assert values["kinetic_step_rows_bucket", (("le", "2.0"),)] == 1


def test_the_caches_numbers_are_told():
    page = page_of(1)
    page.view = replace(
        page.view,
        cache=CacheChanged(
            n_states=1,
            memory_bytes=2,
            disk_bytes=3,
            n_hits=4,
            n_misses=5,
            n_kept=6,
            n_evicted=7,
            n_unwritten=8,
        ),
    )
    values = values_of(page.render())
    assert values["kinetic_cache_states", ()] == 1
    assert values["kinetic_cache_bytes", (("place", "memory"),)] == 2
    assert values["kinetic_cache_bytes", (("place", "disk"),)] == 3
    assert values["kinetic_cache_hits_total", ()] == 4
    assert values["kinetic_cache_misses_total", ()] == 5
    assert values["kinetic_cache_kept_total", ()] == 6
    assert values["kinetic_cache_evicted_total", ()] == 7
    assert values["kinetic_cache_unwritten_total", ()] == 8


def test_the_averages_are_since_start():
    page = page_of(1)
    metrics = Metrics(page, died)
    job = Job(request_id="r", index=0, prompt=(1,) * 8, sampling=SamplingParams(seed=1))
    for _ in range(2):
        metrics.hear(GenerationStarted(slot_id=0, job=job, n_cached=2))
        metrics.hear(
            GenerationEnded(
                slot_id=0,
                outcome=Outcome.EOS,
                usage=Usage(n_prompt=8, n_cached=2, n_generated=4),
                timings=Timings(queued_s=0, prompt_s=3, predicted_s=8),
                n_prompt_done=8,
            )
        )
    values = values_of(page.render())
    assert values["llamacpp:prompt_tokens_seconds", ()] == 2
    assert values["llamacpp:predicted_tokens_seconds", ()] == 0.5
    # Asked twice, told twice: a scrape resets nothing.
    assert values_of(page.render()).items() >= {
        (("llamacpp:predicted_tokens_seconds", ()), 0.5)
    }


seconds = st.floats(0, 10)
steps = st.lists(
    st.tuples(st.sampled_from(["pass", "start", "move", "end", "drop"]), seconds),
    max_size=12,
)


@settings(max_examples=25)
@given(steps)
def test_counters_only_rise_whatever_is_told(story):
    page = page_of(1)
    metrics = Metrics(page, died)
    counters = {name for name, kind, _ in listed() if kind == "counter"}
    n_generated, clock = 0, 0.0
    before = values_of(page.render())
    for kind, spent in story:
        clock += spent
        timings = Timings(queued_s=0, prompt_s=clock, predicted_s=clock)
        if kind == "pass":
            metrics.hear(
                passed(
                    seconds=spent,
                    n_rows=1,
                    n_sequences=1,
                    n_prompt_rows=0,
                    n_max_tokens=int(spent),
                )
            )
        elif kind == "start":
            n_generated, clock = 0, 0.0
            job = Job(
                request_id="r", index=0, prompt=(1,) * 4, sampling=SamplingParams()
            )
            metrics.hear(GenerationStarted(slot_id=0, job=job, n_cached=0))
        elif kind == "move":
            n_generated += 1
            metrics.hear(
                GenerationMoved(
                    slot_id=0,
                    n_prompt_done=4,
                    n_generated=n_generated,
                    timings=timings,
                )
            )
        elif kind == "end":
            metrics.hear(
                GenerationEnded(
                    slot_id=0,
                    outcome=list(Outcome)[int(spent) % len(Outcome)],
                    usage=Usage(n_prompt=4, n_cached=0, n_generated=n_generated),
                    timings=timings,
                    n_prompt_done=4,
                )
            )
        else:
            metrics.hear(JobDropped(outcome=Refusal.CANCELLED))
        now = values_of(page.render())
        for (name, labels), value in now.items():
            assert math.isfinite(value)
            is_histogram = name.endswith(("_bucket", "_count", "_sum"))
            if name in counters or (is_histogram and name.startswith("kinetic_")):
                assert value >= before[name, labels], name
        before = now


def test_counting_a_message_and_reading_the_page_keep_each_other_out(monkeypatch):
    page = page_of(1)
    held: list[bool] = []

    def seen(done):
        return lambda *told: held.append(page.counting.locked()) or done(*told)

    monkeypatch.setattr(page.step_rows, "observe", seen(page.step_rows.observe))
    monkeypatch.setattr(page.requests, "collect", seen(page.requests.collect))
    done = passed(seconds=1, n_rows=1, n_sequences=1, n_prompt_rows=0, n_max_tokens=1)
    Metrics(page, died).hear(done)
    page.render()
    assert held == [True, True]
    assert not page.counting.locked()


def test_the_page_can_be_read_while_the_actor_counts():
    page = page_of(1)
    metrics = Metrics(page, died)
    stop = threading.Event()
    torn: list[tuple[float, float]] = []

    def read() -> None:
        while not stop.is_set():
            values = values_of(page.render())
            passes = values["llamacpp:n_decode_total", ()]
            observed = values["kinetic_step_seconds_count", ()]
            if passes != observed:
                torn.append((passes, observed))

    reader = threading.Thread(target=read)
    before = sys.getswitchinterval()
    # Threads take turns so often that one would see half of the other's work.
    sys.setswitchinterval(1e-6)
    reader.start()
    done = passed(
        seconds=0.01, n_rows=1, n_sequences=1, n_prompt_rows=0, n_max_tokens=1
    )
    try:
        for _ in range(500):
            metrics.hear(done)
            metrics.hear(LineChanged(n_running=1, n_waiting=0))
    finally:
        stop.set()
        reader.join(10)
        sys.setswitchinterval(before)
    assert torn == []
    values = values_of(page.render())
    assert values["llamacpp:n_decode_total", ()] == 500
