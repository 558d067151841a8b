"""Other people's clients do with Kinetic what their users do with them."""

import pytest

from tests.support.client_packages import (
    INSTALL_S,
    RUN_S,
    installed,
    known_clients,
    run,
)
from tests.support.server import running_server

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(INSTALL_S + RUN_S)]

CLIENTS = known_clients()


@pytest.fixture(scope="module")
def addresses(smollm2_path, minilm_dir):
    """Of a server for text and one for vectors."""
    from scripts.minilm import all_minilm_l6_v2

    text = ("-c", "2048", "-np", "2", "-t", "1", "--cache-disk", "0")
    with (
        running_server(smollm2_path, *text) as writer,
        running_server(all_minilm_l6_v2(), "-t", "1") as embedder,
    ):
        yield writer.base_url, embedder.base_url


@pytest.mark.parametrize("key", CLIENTS)
def test_a_client_does_all_that_its_script_tries(addresses, key):
    client = CLIENTS[key]
    printed = run(client, installed(key, client), *addresses)
    lines = printed.splitlines()
    assert [line for line in lines if line in client.tried] == list(client.tried)
