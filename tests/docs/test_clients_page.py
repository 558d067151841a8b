"""docs/clients.md tells which clients are tried, and with what."""

import re
from pathlib import Path

import pytest

from tests.support.client_packages import FOLDER, known_clients

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "clients.md").read_text("utf-8")
CLIENTS = known_clients()


@pytest.mark.parametrize("key", CLIENTS)
def test_every_client_of_the_job_has_its_row(key):
    client = CLIENTS[key]
    cells = (client.name, client.version, client.api, ", ".join(client.tried))
    assert f"| {' | '.join(cells)} |" in PAGE.splitlines()


def test_no_other_row_claims_to_be_in_the_job():
    part = PAGE.split("## Tried by `make conformance`")[1].split("\n## ")[0]
    rows = [line for line in part.splitlines() if re.match(r"\| (?!Client|---)", line)]
    assert len(rows) == len(CLIENTS)


def test_every_script_is_in_the_list():
    scripts = {path.name for path in FOLDER.iterdir() if path.suffix in {".py", ".cjs"}}
    assert scripts - {"common.py"} == {client.script for client in CLIENTS.values()}


@pytest.mark.parametrize("key", CLIENTS)
def test_every_package_is_pinned(key):
    pin = r"@?[\w/-]+@[0-9.]+" if CLIENTS[key].is_node else r"[\w-]+(\[\w+\])?==[0-9.]+"
    assert all(re.fullmatch(pin, package) for package in CLIENTS[key].packages)
