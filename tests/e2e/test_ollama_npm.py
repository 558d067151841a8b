"""The npm package "ollama" against a real server, where Node and the package are."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kinetic.files import paths

pytestmark = pytest.mark.model

MODEL = "SmolLM2-135M-Instruct.Q4_1"
SCRIPT = Path(__file__).with_name("ollama_client.cjs")
PACKAGE = "ollama@0.6.4"


@pytest.fixture(scope="module")
def node_modules():
    """The folder that the package is in. Optional."""
    folder = paths.cache_dir("node")
    if shutil.which("node") is None:
        pytest.skip("optional: Node is not installed")
    if not (folder / "node_modules" / "ollama").is_dir():
        pytest.skip(f"optional: npm install --prefix {folder} {PACKAGE} fetches it")
    return folder / "node_modules"


def test_the_npm_client_reads_every_answer_and_every_refusal(server, node_modules):
    run = subprocess.run(
        ["node", SCRIPT, server.root, MODEL],
        env={**os.environ, "NODE_PATH": str(node_modules)},
        check=False,
        capture_output=True,
        text=True,
        timeout=55,
    )
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout)
    assert seen["streamed"] == seen["whole"] != ""
    assert seen["nParts"] > 3
    assert seen["generated"]
    assert seen["last"]["done"] is True
    assert seen["last"]["eval_count"] <= 16
    assert seen["models"] == seen["loaded"] == [f"{MODEL}:latest"]
    assert "tools" in seen["capabilities"]
    assert seen["version"].count(".") == 2
    unknown, vectors, pull, delete = seen["failures"]
    assert unknown == ["ResponseError", 404, "model 'nope' not found"]
    assert vectors[1] == 400
    assert [pull[1], delete[1]] == [403, 403]
