"""docs/grafana with a real Prometheus: targets are up, rules load, all has values."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from tests.support import dashboards
from tests.support.dashboards import Expression
from tests.support.openai_http import CHAT, TEXT, refusal, stream
from tests.support.peer import free_port
from tests.support.prometheus import (
    Prometheus,
    program,
    running_prometheus,
    wait_for,
)
from tests.support.raw_http import RawClient, request
from tests.support.server import ServerProcess, running_server

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(180)]

ALERT_TESTS = Path(__file__).with_name("alerts.yml")
LIMIT_S = 40.0
"""For something to be scraped and counted: some seconds, and the machine is shared."""
WINDOW = "5m"
"""Longer than all of this takes, so that what was done stays within it."""
N_SLOTS = 4
STORY = [{"role": "user", "content": "Tell a story about a lighthouse."}]


@pytest.fixture(scope="module")
def watched(
    smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """A Prometheus that saw a server before, during and after some requests."""
    program("prometheus")
    states = str(tmp_path_factory.mktemp("states"))
    flags = ("-np", str(N_SLOTS), "-c", "2048", "-t", "1", "--queue", "1")
    folder = tmp_path_factory.mktemp("prometheus")
    with running_server(smollm2_path, *flags, "--cache-dir", states) as server:
        target = f"127.0.0.1:{server.port}"
        with running_prometheus(folder, target) as prometheus:
            # Counters that rise before they are seen have a rate of 0.
            seen = "count_over_time(kinetic_build_info[5m]) >= 2"
            wait_for(lambda: prometheus.query(seen), seen, LIMIT_S)
            send_requests(server)
            yield prometheus


def send_requests(server: ServerProcess) -> None:
    """An answer, the same from reused tokens, and all that can go wrong."""
    for _ in range(2):
        stream(server, CHAT, messages=STORY, max_tokens=24, temperature=0)
    refusal(server, CHAT, messages=STORY, temperature="warm")
    asyncio.run(crowd(server))
    server.wait_until_idle()
    stream(server, TEXT, prompt="One, two, three,", max_tokens=24, temperature=0)


async def crowd(server: ServerProcess) -> None:
    """Fill slots and line, have one more refused, then all give up."""
    fields = {"prompt": "Once upon a time", "max_tokens": 2000, "ignore_eos": True}
    many = request("POST", TEXT, json.dumps({**fields, "n": N_SLOTS}).encode())
    one = request("POST", TEXT, json.dumps(fields).encode())
    async with AsyncExitStack() as clients:
        for data, line in (
            (many, f"llamacpp:requests_processing {N_SLOTS}.0"),
            (one, "llamacpp:requests_deferred 1.0"),
        ):
            raw = await clients.enter_async_context(RawClient(server.root))
            await raw.send(data)
            await asyncio.to_thread(wait_for_metric, server, line)
        await asyncio.to_thread(refusal, server, TEXT, 503, **fields)


def wait_for_metric(server: ServerProcess, line: str) -> None:
    """Wait until the metrics page has a line."""

    def is_there() -> bool:
        page = httpx.get(f"{server.root}/metrics", timeout=10).text
        return line in page.splitlines()

    wait_for(is_there, line, LIMIT_S)


def filled(text: str) -> str:
    """An expression as Grafana would send it with all servers chosen."""
    text = dashboards.with_variables(text, instance="127.0.0.1:.+", interval=WINDOW)
    return text.replace("[1m]", f"[{WINDOW}]")


def test_all_targets_are_up(watched):
    targets = watched.get("targets", state="active")["activeTargets"]
    assert [t["labels"]["job"] for t in targets] == ["kinetic"]
    assert [(t["health"], t["lastError"]) for t in targets] == [("up", "")]


@pytest.mark.parametrize(
    "asked", dashboards.expressions(), ids=lambda asked: asked.place
)
def test_every_expression_has_a_value(watched, asked: Expression):
    text = filled(asked.text)
    wait_for(lambda: watched.query(text), text, LIMIT_S)


@pytest.mark.parametrize(
    "metric",
    [
        "llamacpp:tokens_predicted_total",
        "llamacpp:prompt_tokens_cached_total",
        'kinetic_answers_total{outcome="limit"}',
        'kinetic_answers_total{outcome="cancelled"}',
        'kinetic_refused_total{reason="overloaded"}',
        'kinetic_refused_total{reason="cancelled"}',
        "kinetic_queue_seconds_count",
        "kinetic_first_token_seconds_count",
        "kinetic_answer_seconds_count",
        "kinetic_step_rows_sum",
    ],
)
def test_what_was_done_is_seen(watched, metric):
    rose = f"increase({metric}[{WINDOW}]) > 0"
    wait_for(lambda: watched.query(rose), rose, LIMIT_S)


@pytest.mark.parametrize("status", ["200", "400", "503"])
def test_statuses_are_seen(watched, status):
    # Such a series begins with its first response, so no rise is seen of that one.
    there = f'kinetic_http_responses_total{{status="{status}"}} > 0'
    wait_for(lambda: watched.query(there), there, LIMIT_S)


def test_all_rules_are_evaluated_and_only_the_full_line_is_told(watched):
    def evaluated() -> list[dict[str, str]]:
        groups = watched.get("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        states = {rule["name"]: rule["state"] for rule in rules}
        is_seen = states.get("KineticRefusing") == "firing"
        return rules if is_seen else []

    rules = wait_for(evaluated, "KineticRefusing fires", LIMIT_S)
    assert {r["name"] for r in rules} == {a["alert"] for a in dashboards.alerts()}
    assert {r["health"] for r in rules} == {"ok"}
    firing = [r["name"] for r in rules if r["state"] == "firing"]
    assert firing == ["KineticRefusing"]


def test_a_server_that_is_not_there_is_told(tmp_path):
    (down,) = [a for a in dashboards.alerts() if a["alert"] == "KineticDown"]
    with running_prometheus(tmp_path, f"127.0.0.1:{free_port()}") as prometheus:
        wait_for(lambda: prometheus.query(down["expr"]), down["expr"], LIMIT_S)
        alerts = wait_for(
            lambda: prometheus.get("alerts")["alerts"], "an alert", LIMIT_S
        )
    assert [a["labels"]["alertname"] for a in alerts] == ["KineticDown"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", str(dashboards.SCRAPE)),
        ("check", "rules", str(dashboards.RULES)),
        ("test", "rules", str(ALERT_TESTS)),
    ],
    ids=["config", "rules", "alerts"],
)
def test_promtool_has_no_complaint(arguments):
    ran = subprocess.run(
        [program("promtool"), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("alert", [a["alert"] for a in dashboards.alerts()])
def test_every_alert_is_tried_where_it_fires_and_where_it_does_not(alert):
    text = ALERT_TESTS.read_text("utf-8")
    assert text.count(f"alertname: {alert},") == 1
    assert text.count(f"alertname: {alert}\n") == 1
