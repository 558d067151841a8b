"""The same requests to Kinetic and to llama-server, on the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import llama_server_compat
from scripts.build_llama_server import built_server


@pytest.mark.conformance
@pytest.mark.timeout(900)
def test_every_difference_from_llama_server_is_explained(smollm2_path: Path):
    peer = built_server()
    if peer is None:
        pytest.skip("llama-server is not built: make peer builds it")
    verdict = llama_server_compat.run(peer, smollm2_path)
    unexplained = [llama_server_compat.line(d) for d in verdict.unexplained]
    assert unexplained == []
    assert verdict.unused == (), "explained, but not there any more"
    assert verdict.explained
