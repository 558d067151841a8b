"""A server of the small real model that all end-to-end tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import ServerProcess, running_server


@pytest.fixture(scope="session")
def server(
    smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """SmolLM2 in four slots of 2,048 tokens.

    One thread: the tests themselves need the other processor, and the engine's threads
    wait for each other by spinning.
    """
    states = tmp_path_factory.mktemp("states")
    flags = ("-np", "4", "-c", "2048", "-t", "1", "--cache-dir", str(states))
    with running_server(smollm2_path, *flags) as process:
        yield process
