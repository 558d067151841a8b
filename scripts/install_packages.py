"""Installs Kinetic from this checkout, editable, with its pinned packages and tools.

    python -m scripts.install_packages [--extra bench]

pip alone would print some hundred lines; they go to a log, and the terminal shows how
far it is.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from scripts.console import end_on_signals, run_logged
from scripts.packages import log_file, read_progress

ROOT = Path(__file__).resolve().parent.parent
_PACKAGE = re.compile(r"^(?:Collecting|Processing|Downloading) (?:\S*/)?([^\s;(]+)")


def read_install_step(line: str) -> str | None:
    """Reads from pip's output what it is at; None for lines that tell nothing new."""
    package = _PACKAGE.match(line.strip())
    if package is not None:
        return package[1]
    if line.startswith("Installing collected packages"):
        return "unpacking all of them"
    return read_progress(line)


def main() -> None:
    """Runs pip in the environment that runs this script."""
    end_on_signals()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--extra",
        action="append",
        default=[],
        help="one more of pyproject.toml's extras, beside dev",
    )
    extras = ",".join(["dev", *parser.parse_args().extra])
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    options = ["--progress-bar", "raw", "--constraint", str(ROOT / "constraints.txt")]
    run_logged(
        [*pip, "install", *options, "--editable", f"{ROOT}[{extras}]"],
        label="installing packages",
        log=log_file("install-packages"),
        read_step=read_install_step,
    )


if __name__ == "__main__":
    main()
