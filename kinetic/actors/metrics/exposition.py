"""The metrics page: a published view as Prometheus text. Pure, no threads.

One table holds every metric: its name, what it means and where its value comes from.
docs/metrics.md repeats it. The `llamacpp:` names and meanings are llama-server's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kinetic.actors.metrics.metrics import OUTCOMES, REASONS

if TYPE_CHECKING:
    from kinetic.actors.metrics.histogram import Histogram
    from kinetic.actors.metrics.metrics import Board, MetricsView

Labels = dict[str, str]

_NOTHING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the page tells that never changes while the server runs."""

    n_ctx: int
    """Context of one slot, in tokens."""
    build: Mapping[str, str]
    """Labels of the build info."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a metric's values are read from."""

    view: MetricsView
    facts: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One metric. Counters are named with their `_total`."""

    name: str
    kind: str
    """"counter" or "gauge"."""
    meaning: str
    read: Callable[[Source], Iterable[tuple[Labels, float]]]

    def family(self, source: Source) -> Metric:
        """The metric with its values now."""
        # The library takes a counter's name without its ending, and adds it.
        metric = Metric(self.name.removesuffix("_total"), self.meaning, self.kind)
        for labels, value in self.read(source):
            metric.add_sample(self.name, labels, value)
        return metric


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramSpec:
    """One histogram."""

    name: str
    meaning: str
    read: Callable[[MetricsView], Histogram]
    kind: str = "histogram"

    def family(self, source: Source) -> Metric:
        """The histogram with its buckets now."""
        seen = self.read(source.view)
        return HistogramMetricFamily(
            self.name, self.meaning, buckets=seen.cumulative(), sum_value=seen.total
        )


def ratio(part: float, whole: float) -> float:
    """A share or a speed; 0 where there is next to nothing yet, always finite."""
    return part / whole if whole > _NOTHING else 0.0


def _cache(view: MetricsView, name: str) -> int:
    """A number of the cache; 0 where there is none."""
    return 0 if view.cache is None else int(getattr(view.cache, name))


def _one(
    read: Callable[[MetricsView], float],
) -> Callable[[Source], list[tuple[Labels, float]]]:
    return lambda source: [({}, read(source.view))]


def _each(
    label: str, names: tuple[str, ...], read: Callable[[MetricsView], tuple[int, ...]]
) -> Callable[[Source], list[tuple[Labels, float]]]:
    return lambda source: [
        ({label: name}, count)
        for name, count in zip(names, read(source.view), strict=True)
    ]


def _counter(name: str, meaning: str, read: Callable[[MetricsView], float]) -> Spec:
    return Spec(name=name, kind="counter", meaning=meaning, read=_one(read))


def _gauge(name: str, meaning: str, read: Callable[[MetricsView], float]) -> Spec:
    return Spec(name=name, kind="gauge", meaning=meaning, read=_one(read))


LLAMA_SERVER: tuple[Spec, ...] = (
    _counter(
        "llamacpp:requests_total",
        "Answers that had a slot and are over; each choice of n is one",
        lambda view: view.totals.requests,
    ),
    _counter(
        "llamacpp:prompt_tokens_total",
        "Prompt tokens that were run, without those reused",
        lambda view: view.totals.prompt_tokens,
    ),
    _counter(
        "llamacpp:prompt_tokens_cached_total",
        "Prompt tokens that were reused from an earlier request",
        lambda view: view.totals.cached_tokens,
    ),
    _counter(
        "llamacpp:prompt_seconds_total",
        "Seconds spent on prompts, added up over the slots",
        lambda view: view.totals.prompt_s,
    ),
    _counter(
        "llamacpp:tokens_predicted_total",
        "Tokens generated, those that end an answer included",
        lambda view: view.totals.predicted_tokens,
    ),
    _counter(
        "llamacpp:tokens_predicted_seconds_total",
        "Seconds spent generating, added up over the slots",
        lambda view: view.totals.predicted_s,
    ),
    _counter(
        "llamacpp:n_decode_total",
        "Decode calls",
        lambda view: view.totals.passes,
    ),
    _counter(
        "llamacpp:spec_decode_num_draft_tokens_total",
        "Tokens drafted",
        lambda view: view.totals.drafted,
    ),
    _counter(
        "llamacpp:spec_decode_num_accepted_tokens_total",
        "Drafted tokens that were accepted",
        lambda view: view.totals.accepted,
    ),
    _counter(
        "llamacpp:spec_decode_num_drafts_total",
        "Decode calls that verified drafted tokens, counted per answer",
        lambda view: view.totals.drafts,
    ),
    _gauge(
        "llamacpp:n_tokens_max",
        "Longest sequence so far, prompt and answer together; only rises",
        lambda view: view.totals.max_tokens,
    ),
    _gauge(
        "llamacpp:prompt_tokens_seconds",
        "Prompt tokens run per second of prompt time, on average since start",
        lambda view: ratio(view.totals.prompt_tokens, view.totals.prompt_s),
    ),
    _gauge(
        "llamacpp:predicted_tokens_seconds",
        "Tokens generated per second of generation, on average since start",
        lambda view: ratio(view.totals.predicted_tokens, view.totals.predicted_s),
    ),
    _gauge(
        "llamacpp:requests_processing",
        "Answers being made",
        lambda view: view.n_running,
    ),
    _gauge(
        "llamacpp:requests_deferred",
        "Answers waiting for a slot",
        lambda view: view.n_waiting,
    ),
    _gauge(
        "llamacpp:n_busy_slots_per_decode",
        "Sequences in a decode call, on average since start",
        lambda view: ratio(view.totals.pass_sequences, view.totals.passes),
    ),
    Spec(
        name="llamacpp:kv_cache_usage_ratio",
        kind="gauge",
        meaning="Share of all slots' context that holds tokens, from 0 to 1",
        read=lambda source: [
            (
                {},
                ratio(source.view.n_held, source.facts.n_ctx * len(source.view.slots)),
            )
        ],
    ),
    _gauge(
        "llamacpp:kv_cache_tokens",
        "Tokens that all slots hold, those kept for later requests included",
        lambda view: view.n_held,
    ),
)
"""llama-server's names. Its older versions had the last two; dashboards still ask."""

KINETIC: tuple[Spec | HistogramSpec, ...] = (
    Spec(
        name="kinetic_build_info",
        kind="gauge",
        meaning="Always 1; the labels tell versions, model and batch plan",
        read=lambda source: [(dict(source.facts.build), 1)],
    ),
    Spec(
        name="kinetic_answers_total",
        kind="counter",
        meaning="Answers that had a slot, by how they ended",
        read=_each("outcome", OUTCOMES, lambda view: view.totals.outcomes),
    ),
    Spec(
        name="kinetic_refused_total",
        kind="counter",
        meaning="Answers that ended without a slot, by reason",
        read=_each("reason", REASONS, lambda view: view.totals.dropped),
    ),
    Spec(
        name="kinetic_http_responses_total",
        kind="counter",
        meaning="HTTP responses, by status",
        read=lambda source: [
            ({"status": str(status)}, count)
            for status, count in source.view.totals.responses
        ],
    ),
    Spec(
        name="kinetic_slots",
        kind="gauge",
        meaning="Slots, by whether they make an answer",
        read=lambda source: [
            ({"state": "idle"}, source.view.n_idle),
            ({"state": "processing"}, len(source.view.slots) - source.view.n_idle),
        ],
    ),
    Spec(
        name="kinetic_slot_context_tokens",
        kind="gauge",
        meaning="Context of one slot, in tokens",
        read=lambda source: [({}, source.facts.n_ctx)],
    ),
    _counter(
        "kinetic_reused_total",
        "Answers that were built on tokens of an earlier request",
        lambda view: view.totals.reused,
    ),
    _counter(
        "kinetic_prefills_total",
        "Prompts that were only run, for a request that may follow",
        lambda view: view.totals.prefills,
    ),
    _counter(
        "kinetic_cache_hits_total",
        "Look-ups that found a kept state worth putting back",
        lambda view: _cache(view, "n_hits"),
    ),
    _counter(
        "kinetic_cache_misses_total",
        "Look-ups that found none",
        lambda view: _cache(view, "n_misses"),
    ),
    _counter(
        "kinetic_cache_kept_total",
        "States that were taken to be kept",
        lambda view: _cache(view, "n_kept"),
    ),
    _counter(
        "kinetic_cache_evicted_total",
        "Kept states that were dropped to make room",
        lambda view: _cache(view, "n_evicted"),
    ),
    _counter(
        "kinetic_cache_unwritten_total",
        "Kept states that were not written to disk: it failed or was too slow",
        lambda view: _cache(view, "n_unwritten"),
    ),
    _gauge(
        "kinetic_cache_states",
        "States that are kept",
        lambda view: _cache(view, "n_states"),
    ),
    Spec(
        name="kinetic_cache_bytes",
        kind="gauge",
        meaning="Size of the kept states, by where they are",
        read=lambda source: [
            ({"place": "memory"}, _cache(source.view, "memory_bytes")),
            ({"place": "disk"}, _cache(source.view, "disk_bytes")),
        ],
    ),
    _counter(
        "kinetic_step_prompt_rows_total",
        "Prompt tokens that went through decode calls",
        lambda view: view.totals.pass_prompt_rows,
    ),
    HistogramSpec(
        name="kinetic_queue_seconds",
        meaning="From a request's arrival to its slot",
        read=lambda view: view.spreads.queue,
    ),
    HistogramSpec(
        name="kinetic_first_token_seconds",
        meaning="From a request's arrival to the first token of an answer",
        read=lambda view: view.spreads.first_token,
    ),
    HistogramSpec(
        name="kinetic_answer_seconds",
        meaning="From a request's arrival to the end of an answer that was not given"
        " up",
        read=lambda view: view.spreads.answer,
    ),
    HistogramSpec(
        name="kinetic_token_seconds",
        meaning="Mean time between two tokens, one observation per answer",
        read=lambda view: view.spreads.token,
    ),
    HistogramSpec(
        name="kinetic_step_seconds",
        meaning="One decode call",
        read=lambda view: view.spreads.step,
    ),
    HistogramSpec(
        name="kinetic_step_rows",
        meaning="Tokens in one decode call",
        read=lambda view: view.spreads.rows,
    ),
)
"""Kinetic's own."""

SPECS: tuple[Spec | HistogramSpec, ...] = (*LLAMA_SERVER, *KINETIC)


class _Published(Collector):
    """Turns the published view into metric families whenever the page is asked for."""

    def __init__(self, board: Board, facts: Facts) -> None:
        self._board = board
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        # Read once: every value on the page is of the same moment.
        source = Source(view=self._board.view, facts=self._facts)
        for spec in SPECS:
            yield spec.family(source)


class MetricsPage:
    """The page in Prometheus' text format, version 0.0.4.

    Thread: any. No actor is asked and nothing is locked but the registry's list of
    collectors: the view is an immutable value that Metrics replaces as a whole.
    """

    def __init__(self, board: Board, facts: Facts) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Published(board, facts))
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """The page now, UTF-8, with a final newline."""
        return generate_latest(self._registry)
