"""Builds the engine's wheel once per processor and keeps it outside the checkout.

    python -m scripts.build_engine [--install]

llama-cpp-python is published as source alone, and compiling it takes two cores about
five minutes. The wheel is kept under a name made of its version, the build's flags and
the processor, so that a fresh clone does not compile again and none runs code made for
another machine. CMAKE_ARGS in the environment adds flags, such as -DGGML_CUDA=ON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from kinetic.files.paths import cache_dir
from scripts.console import end_on_signals, run_logged, say
from scripts.engine_source import RELEASE, fetch_source, source_archive
from scripts.packages import locked, log_file, work_folder

CMAKE_FLAGS = (
    # Its matrix product adds in another order from two rows on: not exact.
    "-DGGML_LLAMAFILE=OFF",
    # OpenMP's workers spin between two passes and take the cores that sampling and
    # the web need.
    "-DGGML_OPENMP=OFF",
)
# Everything in the environment that changes what the compiler makes.
BUILD_VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS")
# What in /proc/cpuinfo tells processors apart, on x86 and on ARM.
_CPU_FIELDS = ("model name", "flags", "CPU implementer", "CPU part", "Features")
_STEP = re.compile(r"\[\s*(\d+/\d+|\d+%)\]")
_SOURCE_FILE = re.compile(r"([\w.+-]+/[\w.+-]+\.(?:cpp|c|cu|m|S))\b")


def cmake_flags(environment: Mapping[str, str]) -> str:
    """Joins the user's flags with ours; ours stand last and so win."""
    return " ".join([*environment.get("CMAKE_ARGS", "").split(), *CMAKE_FLAGS])


def describe_processor(cpuinfo: str) -> dict[str, list[str]]:
    """Reads from /proc/cpuinfo what makes two processors different.

    Args:
        cpuinfo: The file's text; empty where there is none.

    Returns:
        Each distinguishing field with its values over all cores, sorted; flags as
        single words, since their order carries no meaning.
    """
    found: dict[str, set[str]] = {}
    for line in cpuinfo.splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        if name in _CPU_FIELDS:
            words = value.split() if name in {"flags", "Features"} else [value]
            found.setdefault(name, set()).update(words)
    if not found:
        found = {"platform": {platform.system(), platform.processor()}}
    return {name: sorted(values) for name, values in found.items()}


def build_key(
    flags: str, environment: Mapping[str, str], cpuinfo: str
) -> tuple[str, str]:
    """Names a build after everything its machine code depends on.

    Args:
        flags: What CMake is called with.
        environment: Of the compiler.
        cpuinfo: The text of /proc/cpuinfo; empty where there is none.

    Returns:
        The name of the build's folder, and the facts it was made from as JSON.
    """
    facts = {
        "release": RELEASE,
        "cmake_flags": flags,
        "variables": {k: environment[k] for k in BUILD_VARIABLES if k in environment},
        "machine": platform.machine(),
        "processor": describe_processor(cpuinfo),
    }
    text = json.dumps(facts, indent=1, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{RELEASE}-{platform.machine()}-{digest}", text


def read_cpuinfo() -> str:
    """Reads /proc/cpuinfo; empty on systems without it."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def read_build_step(line: str) -> str | None:
    """Reads how far ninja or make is, and at which file; None for other lines."""
    step = _STEP.search(line)
    if step is None:
        return None
    sources = _SOURCE_FILE.findall(line)
    return f"[{step[1]}] {sources[-1]}" if sources else f"[{step[1]}]"


def build_environment(environment: Mapping[str, str], work: Path) -> dict[str, str]:
    """Returns the environment to compile in, with all that is temporary in `work`."""
    # A make above us would pass its own flags and job server on to the build's make.
    outer = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    result = {k: v for k, v in environment.items() if k not in outer}
    result["TMPDIR"] = str(work)
    # Make, the fallback where ninja is missing, would compile one file at a time.
    result.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
    return result


def find_or_build() -> Path:
    """Returns the wheel for this machine, after building it if the cache has none.

    Raises:
        SystemExit: The source could not be fetched, or did not compile.
    """
    flags = cmake_flags(os.environ)
    key, facts = build_key(flags, os.environ, read_cpuinfo())
    place = cache_dir("engine") / key
    if not place.exists():
        with locked(place.with_name(".lock")):
            if not place.exists():
                _build(place, flags, facts)
    (wheel,) = place.glob("*.whl")
    return wheel


def _build(place: Path, flags: str, facts: str) -> None:
    """Compiles into a folder beside `place` and renames it when it is whole."""
    fetch_source()
    say(f"compiling {RELEASE} with {flags}: some minutes, once for this processor")
    with work_folder(place.parent) as work:
        made = work / place.name
        made.mkdir()
        environment = build_environment(os.environ, work)
        environment["CMAKE_ARGS"] = flags
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        options = ["--verbose", "--no-deps", "--wheel-dir", str(made)]
        run_logged(
            [*pip, "wheel", *options, str(source_archive())],
            label="compiling the engine",
            log=log_file("build-engine"),
            env=environment,
            read_step=read_build_step,
        )
        (made / "key.json").write_text(facts, encoding="utf-8")
        made.rename(place)


def main() -> None:
    """Finds or builds the wheel, and installs it if asked."""
    end_on_signals()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--install",
        action="store_true",
        help="put the wheel into the environment that runs this script",
    )
    arguments = parser.parse_args()
    wheel = find_or_build()
    say(f"engine: {wheel}")
    if arguments.install:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        # Forced, since another build of the same version counts as installed.
        options = ["--quiet", "--no-deps", "--force-reinstall", "--no-index"]
        subprocess.run([*pip, "install", *options, str(wheel)], check=True)


if __name__ == "__main__":
    main()
