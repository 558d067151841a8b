"""What a metrics page says, read with prometheus_client's own parser."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from tests.support.dashboards import METRICS_PAGE

_ROW = re.compile(r"^\| `([\w:]+)` \| (\w+) \| (.+) \|$", re.MULTILINE)


def listed() -> list[tuple[str, str, str]]:
    """Every metric of docs/metrics.md: name, kind and meaning."""
    return _ROW.findall(METRICS_PAGE.read_text("utf-8"))


def values_of(page: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every value on the page by its name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def sample(page: bytes, name: str, **labels: str) -> float:
    """One value on the page; it must be there."""
    return values_of(page)[name, tuple(sorted(labels.items()))]


def samples(page: bytes, name: str, label: str) -> dict[str, float]:
    """All values of a name by one of its labels, in the page's order."""
    found = values_of(page).items()
    return {dict(labels)[label]: v for (of, labels), v in found if of == name}
