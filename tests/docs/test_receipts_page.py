"""docs/receipts.md tells what the code does; its example is run again."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kinetic.config import BenchOptions
from kinetic.proof.bench import ModelBench
from kinetic.receipts.record import seal
from kinetic.receipts.verify import DECISIVE, Outcome, Pin, verify
from tests.support.receipts import CHAT, SIGNER, TEXT, changed, resealed

PAGE = (Path(__file__).parents[2] / "docs" / "receipts.md").read_text("utf-8")
(EXAMPLE,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
RECEIPT = json.loads(EXAMPLE)


def test_the_example_is_proven(smollm2_path):
    options = BenchOptions(model=smollm2_path, n_threads=1, show_progress=False)
    pin = Pin(public_key=SIGNER.public_key)
    with ModelBench(options) as bench:
        report = verify(RECEIPT, bench, pin=pin, anyway=True)
        here = bench.engine(sealed())
    theirs = RECEIPT["engine"]
    is_same = all(theirs[name] == getattr(here, name) for name in DECISIVE)
    allowed = {Outcome.PROVEN} if is_same else {Outcome.PROVEN, Outcome.UNDECIDED}
    assert report.outcome in allowed, report.steps


def sealed():
    from kinetic.receipts import schema

    return schema.read(RECEIPT).receipt


def test_the_check_of_the_seals_runs_as_printed(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    script = tmp_path / "check.py"
    script.write_text(code)
    path = tmp_path / "answer.json"

    def run(receipt):
        path.write_text(json.dumps(receipt))
        return subprocess.run(
            [sys.executable, str(script), str(path)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    done = run(RECEIPT)
    assert done.stdout == "digest and signature are right\n", done.stderr
    altered = changed(RECEIPT, ("output", "content"), "other")
    for false in (altered, resealed(altered)):
        assert run(false).returncode != 0


def field_paths(value, path=""):
    for key, below in value.items():
        name = f"{path}.{key}" if path else key
        if isinstance(below, dict):
            yield from field_paths(below, name)
        else:
            yield name


@pytest.mark.parametrize("receipt", [CHAT, TEXT], ids=["chat", "text"])
def test_every_field_stands_in_the_table_and_no_other(receipt):
    table = PAGE.split("## The format")[1].split("Why some JSON is text")[0]
    told = {
        name
        for row in table.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([a-z_0-9.]+)`", row.split("|")[1])
    }
    whole = [seal(one, SIGNER) for one in (CHAT, TEXT)]
    have = {name for value in whole for name in field_paths(value)}
    # Told as one: the sampler's values, a constraint's parts, a signer's, a message's.
    folded = {
        re.sub(r"^(request\.sampling|request\.constraint|signer)\..*", r"\1", name)
        for name in have
    }
    assert told == folded
    for name in field_paths(seal(receipt, SIGNER)["signer"]):
        assert f"`{name}`" in table


def test_every_exit_code_is_told():
    table = PAGE.split("### Exit codes")[1].split("With several")[0]
    codes = re.findall(r"^\| (\d) \|", table, re.MULTILINE)
    assert codes == [str(int(outcome)) for outcome in Outcome]


def test_what_makes_another_engine_is_told():
    (told,) = re.findall(r"a difference in (.*?)\. Another", PAGE, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", told)) == set(DECISIVE)


def test_the_fingerprint_in_the_commands_is_the_example_s():
    assert RECEIPT["signer"]["fingerprint"] in PAGE.split("### Exit codes")[0]
