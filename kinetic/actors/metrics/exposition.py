"""The metrics by name: what is counted, what stands now, and the page of both.

docs/metrics.md repeats their tables. The `llamacpp:` names and meanings are
llama-server's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
    values,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kinetic.types import Outcome, Refusal

if TYPE_CHECKING:
    from kinetic.actors.metrics.view import MetricsView

# One process counts for itself, from 0 on: where PROMETHEUS_MULTIPROC_DIR is set, the
# library would go on from what a file there says.
values.ValueClass = values.MutexValue

_WAITS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_STEPS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)

_NOTHING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the page tells that never changes while the server runs."""

    n_ctx: int
    """Context of one slot, in tokens."""
    build: Mapping[str, str]
    """Labels of the build info."""


class _Registry(CollectorRegistry):
    """Reads all its metrics at one moment."""

    def __init__(self) -> None:
        super().__init__()
        self.counting = Lock()

    def collect(self) -> Iterable[Metric]:
        with self.counting:
            families = list(super().collect())
        for family in families:
            # When each was made is told of none; the library's own switch for that is
            # the whole process's. Statuses rise, whichever was sent first.
            told = (s for s in family.samples if not s.name.endswith("_created"))
            family.samples = sorted(told, key=lambda s: s.labels.get("status", ""))
        return families


@dataclass(frozen=True, slots=True)
class _Standing(Collector):
    """Metrics that are read off the present whenever the page is asked for."""

    collect: Callable[[], Iterable[Metric]]


class MetricsPage:
    """All metrics: counters to count in, `view` to replace, the page to show.

    Thread: Metrics' alone counts and replaces `view`, holding `counting` for one
    message at a time; the page holds it too while it reads, so that all its values are
    of one moment. `view` may be read by any thread at any time.
    """

    def __init__(self, view: MetricsView, facts: Facts) -> None:
        self.view = view
        self._facts = facts
        self._registry = registry = _Registry()
        self.counting = registry.counting
        counter = partial(Counter, registry=registry)
        histogram = partial(Histogram, registry=registry)
        # The page shows them in this order.
        self.requests = counter(
            "llamacpp:requests_total",
            "Answers that had a slot and are over; each choice of n is one",
        )
        self.prompt_tokens = counter(
            "llamacpp:prompt_tokens_total",
            "Prompt tokens that were run, without those reused",
        )
        self.cached_tokens = counter(
            "llamacpp:prompt_tokens_cached_total",
            "Prompt tokens that were reused from an earlier request",
        )
        self.prompt_s = counter(
            "llamacpp:prompt_seconds_total",
            "Seconds spent on prompts, added up over the slots",
        )
        self.predicted_tokens = counter(
            "llamacpp:tokens_predicted_total",
            "Tokens generated, those that end an answer included",
        )
        self.predicted_s = counter(
            "llamacpp:tokens_predicted_seconds_total",
            "Seconds spent generating, added up over the slots",
        )
        self.passes = counter("llamacpp:n_decode_total", "Decode calls")
        self.drafted = counter(
            "llamacpp:spec_decode_num_draft_tokens_total", "Tokens drafted"
        )
        self.accepted = counter(
            "llamacpp:spec_decode_num_accepted_tokens_total",
            "Drafted tokens that were accepted",
        )
        self.drafts = counter(
            "llamacpp:spec_decode_num_drafts_total",
            "Decode calls that verified drafted tokens, counted per answer",
        )
        registry.register(_Standing(self._llama_servers_gauges))
        Info(
            "kinetic_build",
            "Always 1; the labels tell versions, model and batch plan",
            registry=registry,
        ).info(dict(facts.build))
        self.answers = counter(
            "kinetic_answers_total",
            "Answers that had a slot, by how they ended",
            ["outcome"],
        )
        self.refused = counter(
            "kinetic_refused_total",
            "Answers that ended without a slot, by reason",
            ["reason"],
        )
        # Those that have not happened stand there as 0.
        for outcome in Outcome:
            self.answers.labels(outcome)
        for reason in Refusal:
            self.refused.labels(reason)
        self.responses = counter(
            "kinetic_http_responses_total", "HTTP responses, by status", ["status"]
        )
        registry.register(_Standing(self._slots))
        self.reused = counter(
            "kinetic_reused_total",
            "Answers that were built on tokens of an earlier request",
        )
        self.prefills = counter(
            "kinetic_prefills_total",
            "Prompts that were only run, for a request that may follow",
        )
        registry.register(_Standing(self._cache))
        self.prompt_rows = counter(
            "kinetic_step_prompt_rows_total",
            "Prompt tokens that went through decode calls",
        )
        self.queue_s = histogram(
            "kinetic_queue_seconds",
            "From a request's arrival to its slot",
            buckets=_WAITS,
        )
        self.first_token_s = histogram(
            "kinetic_first_token_seconds",
            "From a request's arrival to the first token of an answer",
            buckets=_WAITS,
        )
        self.answer_s = histogram(
            "kinetic_answer_seconds",
            "From a request's arrival to the end of an answer that was not given up",
            buckets=_WAITS,
        )
        self.token_s = histogram(
            "kinetic_token_seconds",
            "Mean time between two tokens, one observation per answer",
            buckets=_STEPS,
        )
        self.step_s = histogram(
            "kinetic_step_seconds", "One decode call", buckets=_STEPS
        )
        self.step_rows = histogram(
            "kinetic_step_rows", "Tokens in one decode call", buckets=_ROWS
        )
        ProcessCollector(registry=registry)

    def render(self) -> bytes:
        """The page now, in Prometheus' text format 0.0.4, with a final newline."""
        return generate_latest(self._registry)

    def _llama_servers_gauges(self) -> Iterator[Metric]:
        view, n_all = self.view, self._facts.n_ctx * len(self.view.slots)
        yield GaugeMetricFamily(
            "llamacpp:n_tokens_max",
            "Longest sequence so far, prompt and answer together; only rises",
            view.n_max_tokens,
        )
        yield GaugeMetricFamily(
            "llamacpp:prompt_tokens_seconds",
            "Prompt tokens run per second of prompt time, on average since start",
            ratio(_value(self.prompt_tokens), _value(self.prompt_s)),
        )
        yield GaugeMetricFamily(
            "llamacpp:predicted_tokens_seconds",
            "Tokens generated per second of generation, on average since start",
            ratio(_value(self.predicted_tokens), _value(self.predicted_s)),
        )
        yield GaugeMetricFamily(
            "llamacpp:requests_processing", "Answers being made", view.n_running
        )
        yield GaugeMetricFamily(
            "llamacpp:requests_deferred", "Answers waiting for a slot", view.n_waiting
        )
        yield GaugeMetricFamily(
            "llamacpp:n_busy_slots_per_decode",
            "Sequences in a decode call, on average since start",
            ratio(view.n_sequences, _value(self.passes)),
        )
        # Its older versions had these two; dashboards still ask.
        yield GaugeMetricFamily(
            "llamacpp:kv_cache_usage_ratio",
            "Share of all slots' context that holds tokens, from 0 to 1",
            ratio(view.n_held, n_all),
        )
        yield GaugeMetricFamily(
            "llamacpp:kv_cache_tokens",
            "Tokens that all slots hold, those kept for later requests included",
            view.n_held,
        )

    def _slots(self) -> Iterator[Metric]:
        n_slots, n_idle = len(self.view.slots), self.view.n_idle
        slots = GaugeMetricFamily(
            "kinetic_slots", "Slots, by whether they make an answer", labels=["state"]
        )
        slots.add_metric(["idle"], n_idle)
        slots.add_metric(["processing"], n_slots - n_idle)
        yield slots
        yield GaugeMetricFamily(
            "kinetic_slot_context_tokens",
            "Context of one slot, in tokens",
            self._facts.n_ctx,
        )

    def _cache(self) -> Iterator[Metric]:
        """What the Cache counts itself; 0 where there is none."""
        cache = self.view.cache
        yield CounterMetricFamily(
            "kinetic_cache_hits_total",
            "Look-ups that found a kept state worth putting back",
            cache.n_hits if cache else 0,
        )
        yield CounterMetricFamily(
            "kinetic_cache_misses_total",
            "Look-ups that found none",
            cache.n_misses if cache else 0,
        )
        yield CounterMetricFamily(
            "kinetic_cache_kept_total",
            "States that were taken to be kept",
            cache.n_kept if cache else 0,
        )
        yield CounterMetricFamily(
            "kinetic_cache_evicted_total",
            "Kept states that were dropped to make room",
            cache.n_evicted if cache else 0,
        )
        yield CounterMetricFamily(
            "kinetic_cache_unwritten_total",
            "Kept states that were not written to disk: it failed or was too slow",
            cache.n_unwritten if cache else 0,
        )
        yield GaugeMetricFamily(
            "kinetic_cache_states",
            "States that are kept",
            cache.n_states if cache else 0,
        )
        size = GaugeMetricFamily(
            "kinetic_cache_bytes",
            "Size of the kept states, by where they are",
            labels=["place"],
        )
        size.add_metric(["memory"], cache.memory_bytes if cache else 0)
        size.add_metric(["disk"], cache.disk_bytes if cache else 0)
        yield size


def ratio(part: float, whole: float) -> float:
    """A share or a speed; 0 where there is next to nothing yet, always finite."""
    return part / whole if whole > _NOTHING else 0.0


def _value(counter: Counter) -> float:
    """Where a counter without labels stands."""
    (family,) = counter.collect()
    return family.samples[0].value
