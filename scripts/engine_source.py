"""The engine's source package: which release, and its unpacked llama.cpp.

Tests read real chat templates, vocabularies and grammars from that tree, and the peer
to compare with, llama-server, is built from it.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from kinetic.files.paths import cache_dir
from scripts.console import say
from scripts.packages import Package, download, locked, work_folder

ENGINE = Package(
    name="llama-cpp-python",
    version="0.3.36",
    sha256="832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
    is_source=True,
)
RELEASE = f"llama_cpp_python-{ENGINE.version}"


def source_archive() -> Path:
    """Names the source archive in the cache."""
    return cache_dir("source") / f"{RELEASE}.tar.gz"


def llama_cpp_tree() -> Path:
    """Names the unpacked llama.cpp in the cache."""
    return cache_dir("source") / RELEASE / "vendor" / "llama.cpp"


def fetch_source() -> None:
    """Fetches and unpacks the source package, unless both are there already.

    Raises:
        SystemExit: It could not be fetched.
    """
    archive, tree = source_archive(), llama_cpp_tree()
    if archive.exists() and tree.exists():
        return
    folder = cache_dir("source")
    with locked(folder / ".lock"):
        if not archive.exists():
            with work_folder(folder) as work:
                download(ENGINE, work).rename(archive)
        if not tree.exists():
            say(f"unpacking llama.cpp into {tree}")
            with work_folder(folder) as work:
                _unpack(archive, work)
                release = folder / RELEASE
                shutil.rmtree(release, ignore_errors=True)
                (work / RELEASE).rename(release)


def _unpack(archive: Path, into: Path) -> None:
    """Unpacks llama.cpp alone: the archive also holds a git history."""
    wanted = f"{RELEASE}/vendor/llama.cpp/"
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.name.startswith(wanted)]
        # The filter came with 3.11.4; the archive's hash is known either way.
        if hasattr(tarfile, "data_filter"):
            tar.extractall(into, members=members, filter="data")
        else:
            tar.extractall(into, members=members)  # noqa: S202
