"""The npm package "openai" against a real server, where Node and the package are."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kinetic.files import paths

SCRIPT = Path(__file__).with_name("openai_client.cjs")
PACKAGE = "openai@7.55.0"


@pytest.fixture(scope="module")
def node_modules():
    """The folder that the package is in. Optional."""
    folder = paths.cache_dir("node")
    if shutil.which("node") is None:
        pytest.skip("optional: Node is not installed")
    if not (folder / "node_modules" / "openai").is_dir():
        pytest.skip(f"optional: npm install --prefix {folder} {PACKAGE} fetches it")
    return folder / "node_modules"


def test_the_npm_client_reads_every_answer_and_every_refusal(server, node_modules):
    run = subprocess.run(
        ["node", SCRIPT, server.base_url],
        env={**os.environ, "NODE_PATH": str(node_modules)},
        check=False,
        capture_output=True,
        text=True,
        timeout=55,
    )
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout)
    assert len(seen["models"]) == 1
    assert seen["whole"] == seen["streamed"] == seen["helped"] != ""
    assert seen["reason"] == "length"
    assert seen["nParts"] > 3
    assert seen["usage"]["completion_tokens"] == 12
    assert seen["scored"] == ["The", " sky", " is", " blue"]
    assert seen["first"] == "text_completion"
    assert seen["failures"] == [
        ["BadRequestError", 400, "temperature", None],
        ["BadRequestError", 400, "prompt", "context_length_exceeded"],
        ["NotFoundError", 404, "model", "model_not_found"],
        ["BadRequestError", 400, "temprature", None],
    ]
    server.wait_until_idle()
