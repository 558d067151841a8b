"""What must be true of the checkout as a whole."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import kinetic
from scripts import pin_constraints

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Written in two halves, so that this file does not find itself.
REGISTRIES = ("pypi." + "org", "python" + "hosted.org", "npmjs." + "org")
HOME_PATH = re.compile(r"/(?:" + r"root|home/\w+|Users/\w+)/")
PIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*==[0-9][0-9a-z.+]*")


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, timeout=30
    ).stdout.decode()
    return [ROOT / name for name in listing.split("\0") if name]


def tracked_texts() -> dict[str, str]:
    texts = {}
    for path in tracked_files():
        if path.is_file():
            try:
                texts[str(path.relative_to(ROOT))] = path.read_text("utf-8")
            except UnicodeDecodeError:
                continue
    return texts


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    wrong = [line for line in lines if line[:1] != "#" and not PIN.fullmatch(line)]
    assert wrong == [], "each line is name==version, without an address or marker"
    return dict(line.split("==") for line in lines if line[:1] != "#")


def test_constraints_pin_everything_that_the_project_leads_to():
    pinned, installed = pins(), pin_constraints.installed_versions(["dev"])
    known = {name: pinned.get(name) for name in installed}
    assert known == installed, "make constraints writes the file anew"


def test_constraints_pin_nothing_else():
    try:
        installed = pin_constraints.installed_versions()
    except PackageNotFoundError as missing:
        pytest.skip(f"make bench installs {missing.name}")
    assert pins() == installed, "make constraints writes the file anew"


def test_every_extra_is_pinned():
    optional = PROJECT["optional-dependencies"]
    assert sorted(optional) == sorted(pin_constraints.EXTRAS)
    for requirement in pin_constraints.direct_requirements():
        assert canonicalize_name(requirement.name) in pins()


def test_constraints_have_exactly_the_engine_that_the_ctypes_wall_is_written_for():
    assert "llama-cpp-python==0.3.36" in PROJECT["dependencies"]
    assert pins()["llama-cpp-python"] == "0.3.36"


def test_the_version_is_one():
    assert PROJECT["version"] == kinetic.__version__


def test_the_changelog_has_the_version():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    released = re.findall(r"^## \[?(\d+\.\d+\.\d+)\]?", text, re.MULTILINE)
    assert released[:1] == [kinetic.__version__]


@pytest.mark.parametrize("name", REGISTRIES)
def test_no_tracked_file_names_a_registry_host(name):
    assert [path for path, text in tracked_texts().items() if name in text] == []


def test_no_tracked_file_names_somebodys_home():
    found = {path: HOME_PATH.findall(text) for path, text in tracked_texts().items()}
    assert {path: hits for path, hits in found.items() if hits} == {}


def test_make_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    ).stdout
    assert set(phony.split()) == targets
    assert set(re.findall(r"^make ([a-z-]+) +\S", shown, re.MULTILINE)) == targets


def test_make_alone_shows_the_help():
    commands = {("make",), ("make", "help")}
    shown = {
        subprocess.run(
            [*command, "--no-print-directory"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            timeout=30,
        ).stdout
        for command in commands
    }
    assert len(shown) == 1


def test_ci_runs_make_test():
    lines = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert lines[1] == "set -euo pipefail"
    assert lines[-1] == "exec make test"


def test_every_lint_rule_left_out_gives_its_reason():
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    (section,) = re.findall(
        r"^\[tool\.ruff\.lint\]$.*?(?=^\[tool\.ruff\.lint\.fl)",
        text,
        re.MULTILINE | re.DOTALL,
    )
    left_out = re.findall(r'^ {4}"[A-Z]+\d*",(.*)$', section, re.MULTILINE)
    assert left_out
    assert [rest for rest in left_out if not re.fullmatch(r" +# \S.+", rest)] == []
