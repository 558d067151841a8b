"""What docs/grafana asks Prometheus for: expressions, and the names in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs" / "grafana"
DASHBOARD = FOLDER / "kinetic.json"
RULES = FOLDER / "rules.yml"
SCRAPE = FOLDER / "prometheus.yml"
METRICS_PAGE = ROOT / "docs" / "metrics.md"

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\([^)]*\)")
_NAME = re.compile(r"(?<![\w.:])[a-zA-Z_:][\w:]*\b(?!\s*\()")
_WORDS = {"and", "or", "unless", "bool", "offset"}
_LIMIT = re.compile(r"(?P<left>.+?)\s+(?:==|!=|>=|<=|>|<)\s+[\d.]+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Expression:
    """One thing to ask, and where it stands."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition of a selector, such as `outcome="failed"`."""

    metric: str
    label: str
    operator: str
    value: str


def dashboard() -> dict[str, Any]:
    """The dashboard as it lies in the file."""
    found: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))
    return found


def panels() -> list[dict[str, Any]]:
    """The dashboard's panels but the headings."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def alerts() -> list[dict[str, Any]]:
    """The rules, which are alerts all."""
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def measured(alert: dict[str, Any]) -> str:
    """What an alert compares with its limit, which a quiet server has a value of."""
    found = _LIMIT.fullmatch(alert["expr"].strip())
    assert found, f"{alert['alert']} does not end in a comparison with a number"
    return found["left"]


def expressions() -> list[Expression]:
    """All that panels, alerts and docs/metrics.md ask for, limits left out."""
    return [*_of_panels(), *_of_alerts(), *_of_metrics_page()]


def _of_panels() -> Iterator[Expression]:
    for panel in panels():
        for target in panel["targets"]:
            place = f"panel {panel['title']} {target['refId']}"
            yield Expression(place, target["expr"])


def _of_alerts() -> Iterator[Expression]:
    for alert in alerts():
        yield Expression(f"alert {alert['alert']}", measured(alert))


def _of_metrics_page() -> Iterator[Expression]:
    _, _, table = METRICS_PAGE.read_text("utf-8").partition("## Useful expressions")
    for what, text in re.findall(r"^\| (.+?) \| `(.+)` \|$", table, re.MULTILINE):
        yield Expression(f"docs/metrics.md {what}", text.replace("\\|", "|"))


def with_variables(text: str, *, instance: str, interval: str) -> str:
    """An expression as Grafana would send it."""
    filled = text.replace("$instance", instance)
    return filled.replace("$__rate_interval", interval)


def metric_names(text: str) -> set[str]:
    """The metrics that an expression reads."""
    bare = _TEXT.sub("", text)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = _GROUPING.sub("", bare)
    return set(_NAME.findall(bare)) - _WORDS


def matchers(text: str) -> list[Matcher]:
    """The conditions of an expression's selectors."""
    return [
        Matcher(metric, *parts)
        for metric, inside in _SELECTOR.findall(text)
        for parts in _MATCHER.findall(inside)
    ]
