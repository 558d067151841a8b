"""Fetches exact files from the package registry that pip is set up for.

Files go into a cache folder, checked by hash before anything in them runs, placed by a
rename so that a half-written one never looks whole, one process at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kinetic.files.paths import cache_dir
from scripts.console import run_logged, say

WORK_PREFIX = ".partial-"
_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One file of one release."""

    name: str
    """The project's name, as pip takes it."""
    version: str
    sha256: str
    """Of the file, in hexadecimal."""
    is_source: bool = False
    """The source archive rather than the wheel."""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lets one process at a time into what follows; says so when it has to wait.

    The system drops the lock when the process ends, however it ends.

    Args:
        path: The lock's file; made if missing, kept afterwards.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process holds {path}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def work_folder(parent: Path) -> Iterator[Path]:
    """Makes a folder to build in, beside the place of the result, and removes it.

    Also removes those that killed runs left. Call it while holding the lock of
    `parent`.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for stale in parent.glob(f"{WORK_PREFIX}*"):
        say(f"removing what an interrupted run left in {stale}")
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=parent) as folder:
        yield Path(folder)


def log_file(name: str) -> Path:
    """Names the file for a command's output, in a folder that is there."""
    folder = cache_dir("logs")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.log"


def download(package: Package, folder: Path) -> Path:
    """Downloads a package's file into a folder.

    Args:
        package: What to fetch.
        folder: An existing folder that holds nothing else.

    Returns:
        The file.

    Raises:
        SystemExit: pip could not fetch it, or its hash is another.
    """
    target = folder / package.name
    target.mkdir()
    wanted = folder / f"{package.name}.txt"
    kind = "--no-binary" if package.is_source else "--only-binary"
    wanted.write_text(
        f"{kind} {package.name}\n"
        f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n",
        encoding="utf-8",
    )
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    options = ["--no-deps", "--require-hashes", "--progress-bar", "raw"]
    run_logged(
        [*pip, "download", *options, "--dest", str(target), "-r", str(wanted)],
        label=f"fetching {package.name} {package.version}",
        log=log_file(f"fetch-{package.name}"),
        read_step=read_progress,
    )
    (file,) = target.iterdir()
    return file


def read_progress(line: str) -> str | None:
    """Reads pip's machine-readable progress; None for other lines."""
    match = _PROGRESS.search(line)
    if match is None:
        return None
    done, total = (int(number) / _MEGABYTE for number in match.groups())
    return f"{done:.0f} of {total:.0f} MB" if total else f"{done:.0f} MB"
