"""Facts about the machine and the versions that a run was made with."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from kinetic import __version__
from kinetic.model.engine.exactness import processor_name
from kinetic.model.native.library import library_versions
from scripts.engine_source import ENGINE


def n_processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def machine() -> dict[str, str]:
    """What the figures depend on."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": processor_name(),
        "processors": str(n_processors()),
        "memory": f"{gib:.0f} GiB",
        "system": f"{_system()}, Linux {platform.release().partition('-')[0]}",
        "Python": platform.python_version(),
        "load before the run": f"{os.getloadavg()[0]:.2f}",
    }


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def versions(llama_server: Path) -> dict[str, str]:
    """What ran: Kinetic, the engine, and the peer built from the engine's source."""
    engine = library_versions()
    return {
        "Kinetic": __version__,
        "llama-cpp-python": engine["llama_cpp_python"],
        "llama.cpp": f"{engine['llama_cpp']}, as llama-cpp-python {ENGINE.version}"
        " brings it",
        "llama-server": _peer_version(llama_server),
    }


def _peer_version(program: Path) -> str:
    """What the peer says of itself, in one line."""
    said = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    lines = (said.stdout + said.stderr).splitlines()
    kept = [line for line in lines if line.startswith(("version", "built with"))]
    return ", ".join(kept) or "unknown"
