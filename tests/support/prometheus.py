"""A real Prometheus on a loopback port, stopped by its id."""

from __future__ import annotations

import math
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import yaml

from tests.support import dashboards
from tests.support.peer import free_port

START_S = 60.0
STOP_S = 20.0
INSTALL = "apt-get install prometheus"

Found = TypeVar("Found")


def program(name: str) -> str:
    """Where one of Prometheus' programs is; without it, the test is skipped."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not on the path: {INSTALL}")
    return path


def wait_for(ask: Callable[[], Found], what: str, limit_s: float) -> Found:
    """The first true thing that is said, asked again and again until the limit."""
    deadline = time.monotonic() + limit_s
    pause = threading.Event()
    while True:
        found = ask()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {limit_s} s: {what}"
        pause.wait(0.1)


@dataclass(frozen=True, slots=True)
class Prometheus:
    """What a running one says."""

    root: str

    def get(self, path: str, **params: str) -> Any:
        """The data of an answer, which must be a success."""
        answer = httpx.get(f"{self.root}/api/v1/{path}", params=params, timeout=20)
        body = answer.json()
        assert body["status"] == "success", body
        return body["data"]

    def query(self, expression: str) -> list[float]:
        """What an expression is now, series by series, without those that are NaN."""
        result = self.get("query", query=expression)["result"]
        values = [float(series["value"][1]) for series in result]
        return [value for value in values if math.isfinite(value)]


def configuration(folder: Path, target: str) -> Path:
    """docs/grafana/prometheus.yml for another target, asked every second."""
    config = yaml.safe_load(dashboards.SCRAPE.read_text("utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(dashboards.RULES)]
    config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config), "utf-8")
    return path


@contextmanager
def running_prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """Watch a target as docs/grafana has it.

    Args:
        folder: Where it keeps its series; of this run alone.
        target: Host and port of what is watched.
    """
    address = f"127.0.0.1:{free_port()}"
    command = [
        program("prometheus"),
        f"--config.file={configuration(folder, target)}",
        f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    log = folder / "log"
    with log.open("wb") as lines:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=lines, stderr=lines
        )

    def is_ready() -> bool:
        assert process.poll() is None, log.read_text("utf-8")
        try:
            answer = httpx.get(f"http://{address}/-/ready", timeout=5)
        except httpx.TransportError:
            return False
        return answer.status_code == httpx.codes.OK

    try:
        wait_for(is_ready, "Prometheus is ready", START_S)
        yield Prometheus(f"http://{address}")
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)
