"""docs/llama-server.md and docs/metrics.md tell what the code does."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kinetic.actors.messages import Job
from kinetic.types import SamplingParams
from kinetic.web.llama_server import ROUTES
from kinetic.web.llama_server.render import CompletionWriter, Style
from scripts import field_tables
from scripts.compat_cases import cases
from tests.support.metrics import listed
from tests.support.web_app import finished

NATIVE = field_tables.NATIVE_PAGE.read_text("utf-8")
METRICS = field_tables.METRICS_PAGE.read_text("utf-8")
PAGES = pytest.mark.parametrize(
    ("page", "tables"),
    [
        (NATIVE, field_tables.native_tables()),
        (METRICS, field_tables.metric_tables()),
    ],
    ids=["llama-server", "metrics"],
)


@PAGES
def test_every_table_is_as_the_code_has_it(page, tables):
    fresh = field_tables.filled(page, tables)
    assert fresh == page, "python -m scripts.field_tables writes the tables anew"


@PAGES
def test_every_table_has_its_place_once(page, tables):
    assert sorted(field_tables.names_in(page)) == sorted(tables)


@pytest.mark.parametrize("path", [path for path, _ in ROUTES])
def test_every_route_stands_in_the_page(path):
    shown = path.replace(r"(\d+)", "{id}")
    assert f"`{shown}`" in NATIVE


def test_expressions_name_metrics_that_are_there():
    known = {name for name, _, _ in listed()}
    asked = set(re.findall(r"(?:llamacpp:|kinetic_)\w+", METRICS))
    endings = ("_bucket", "_sum", "_count")
    for name in asked:
        plain = {name.removesuffix(ending) for ending in endings}
        assert known & {name, *plain}, name


def test_the_number_of_requests_is_the_scripts():
    (told,) = re.findall(r"same\s+(\d+) requests", NATIVE)
    assert int(told) == len(list(cases()))


def test_every_field_of_a_final_object_is_described():
    job = Job(request_id="r", index=0, prompt=(1,), sampling=SamplingParams())
    writer = CompletionWriter(Style(model="m"), (replace(job, n_logprobs=1),), bytes)
    (final,) = writer.pieces(finished())
    for name in final:
        assert f"| `{name}` |" in NATIVE
