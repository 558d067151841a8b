"""A server of the small real model that all end-to-end tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import ServerProcess, running_server


@pytest.fixture(scope="session")
def server(smollm2_path: Path) -> Iterator[ServerProcess]:
    """SmolLM2 in four slots of 2,048 tokens."""
    with running_server(smollm2_path, "-np", "4", "-c", "2048") as process:
        yield process
