"""docs/grafana asks for what the metrics page has; no server is needed to see it."""

import re
from collections import defaultdict
from itertools import combinations

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from kinetic.actors.metrics.exposition import Facts, MetricsPage
from kinetic.actors.metrics.view import empty_view
from tests.support import dashboards
from tests.support.dashboards import metric_names
from tests.support.metrics import listed

VARIABLE = {"type": "prometheus", "uid": "${datasource}"}
# What Prometheus adds to each series, and what it writes itself.
TARGET_LABELS = {"job", "instance"}
OWN = {"up"}


def page_samples():
    """Each name on the page with the labels that it stands with."""
    page = MetricsPage(empty_view(2), Facts(n_ctx=64, build={"version": "1"}))
    for status in (200, 400, 503):
        page.responses.labels(status).inc()
    found = defaultdict(list)
    for family in text_string_to_metric_families(page.render().decode()):
        for sample in family.samples:
            found[sample.name].append(sample.labels)
    return dict(found)


SAMPLES = page_samples()
EVERYTHING = dashboards.expressions()
each_expression = pytest.mark.parametrize("asked", EVERYTHING, ids=lambda e: e.place)
each_alert = pytest.mark.parametrize(
    "alert", dashboards.alerts(), ids=lambda a: a["alert"]
)
each_panel = pytest.mark.parametrize(
    "panel", dashboards.panels(), ids=lambda p: p["title"]
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("up == 0", {"up"}),
        ('rate(a:b_total{x=~"c|d", y!="e"}[$__rate_interval])', {"a:b_total"}),
        ("sum by (le, job) (rate(a_bucket[5m])) / on(job) sum(b)", {"a_bucket", "b"}),
        ("a * (rate(c[5m]) == bool 0) and d > 1e9", {"a", "c", "d"}),
        ("histogram_quantile(0.95, x_bucket offset 5m)", {"x_bucket"}),
    ],
)
def test_names_are_read_from_expressions(text, names):
    # A duration behind offset begins with a digit, and is no name.
    assert metric_names(text) == names


@each_expression
def test_every_metric_that_is_asked_for_is_on_the_page(asked):
    names = metric_names(asked.text)
    assert names
    assert names - set(SAMPLES) - OWN == set()


def test_every_alert_and_panel_is_among_the_expressions():
    n_targets = sum(len(panel["targets"]) for panel in dashboards.panels())
    assert n_targets > 50
    places = {asked.place for asked in EVERYTHING}
    assert len(places) == len(EVERYTHING)
    assert len(EVERYTHING) > n_targets + len(dashboards.alerts())


@each_expression
def test_every_label_that_is_asked_for_has_that_value_somewhere(asked):
    for matcher in dashboards.matchers(asked.text):
        if matcher.label in TARGET_LABELS:
            continue
        values = [labels[matcher.label] for labels in SAMPLES[matcher.metric]]
        if "~" in matcher.operator:
            kept = [v for v in values if re.fullmatch(matcher.value, v)]
        else:
            kept = [v for v in values if v == matcher.value]
        assert kept, matcher


def test_the_dashboard_shows_every_histogram_and_each_kind_of_trouble():
    asked = set().union(*(metric_names(e.text) for e in EVERYTHING))
    histograms = {f"{name}_bucket" for name, kind, _ in listed() if kind == "histogram"}
    assert histograms <= asked
    assert {"kinetic_refused_total", "kinetic_answers_total"} <= asked
    assert {"kinetic_http_responses_total", "llamacpp:requests_deferred"} <= asked


def test_the_dashboard_is_in_the_form_that_is_provisioned():
    board = dashboards.dashboard()
    # An export for sharing asks who imports it; a provisioned one has no one to ask.
    assert not {"__inputs", "__requires"} & set(board)
    assert board["id"] is None
    assert board["uid"] == "kinetic"
    variables = {v["name"]: v for v in board["templating"]["list"]}
    assert set(variables) == {"datasource", "instance"}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    assert variables["instance"]["datasource"] == VARIABLE
    listed = re.fullmatch(
        r"label_values\((\w+), instance\)", variables["instance"]["query"]["query"]
    )
    assert listed
    assert listed[1] in SAMPLES


@each_panel
def test_every_panel_asks_the_chosen_prometheus_for_the_chosen_servers(panel):
    assert panel["title"]
    assert panel["description"]
    assert panel["datasource"] == VARIABLE
    for target in panel["targets"]:
        assert target["datasource"] == VARIABLE
        found = dashboards.matchers(target["expr"])
        chosen = [m for m in found if (m.label, m.value) == ("instance", "$instance")]
        assert len(chosen) == target["expr"].count("{")


def test_panels_lie_beside_each_other():
    board = dashboards.dashboard()["panels"]
    assert len({panel["id"] for panel in board}) == len(board)
    places = [panel["gridPos"] for panel in board]
    assert all(p["x"] + p["w"] <= 24 for p in places)
    for a, b in combinations(places, 2):
        is_beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        is_below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert is_beside or is_below, (a, b)


@each_alert
def test_every_alert_says_what_is_wrong_and_how_bad_it_is(alert):
    assert alert["labels"]["severity"] in {"warning", "critical"}
    assert "{{ $labels.instance }}" in alert["annotations"]["summary"]
    assert alert["annotations"]["description"]
    assert all(
        'job="kinetic"' in selector
        for selector in re.findall(r"\{([^}]*)\}", alert["expr"])
    )


def test_prometheus_is_told_of_kinetic_and_the_rules():
    config = yaml.safe_load(dashboards.SCRAPE.read_text("utf-8"))
    assert config["rule_files"] == [dashboards.RULES.name]
    (job,) = config["scrape_configs"]
    assert job["job_name"] == "kinetic"
    assert job["metrics_path"] == "/metrics"
