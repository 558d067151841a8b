"""Compiles one target of the unpacked llama.cpp, fetching CMake if there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.build_engine import build_environment, read_build_step
from scripts.console import run_logged, say
from scripts.engine_source import fetch_source, llama_cpp_tree
from scripts.packages import log_file


def compile_target(
    target: str, flags: Sequence[str], work: Path, *, label: str, log: str
) -> Path:
    """Returns the folder of programs and libraries that compiling `target` gave.

    Args:
        target: The name that llama.cpp's CMake files know it by.
        flags: All of CMake's flags; CMAKE_ARGS of the environment is not read.
        work: An empty folder to work in; the result lies in it.
        label: What is compiled, as progress names it.
        log: How the log files' names end.

    Raises:
        SystemExit: The source could not be fetched, or did not compile.
    """
    fetch_source()
    environment = build_environment(os.environ, work)
    environment.pop("CMAKE_ARGS", None)
    environment["PATH"] = path_with_cmake(work)
    cmake = shutil.which("cmake", path=environment["PATH"]) or "cmake"
    ninja = shutil.which("ninja", path=environment["PATH"])
    generator = ["-G", "Ninja"] if ninja else []
    build, source = str(work / "build"), str(llama_cpp_tree())
    run_logged(
        [cmake, *generator, *flags, "-S", source, "-B", build],
        label=f"configuring {label}",
        log=log_file(f"configure-{log}"),
        env=environment,
    )
    run_logged(
        [cmake, "--build", build, "--target", target],
        label=f"compiling {label}",
        log=log_file(f"build-{log}"),
        env=environment,
        read_step=read_build_step,
    )
    return work / "build" / "bin"


def path_with_cmake(work: Path) -> str:
    """Returns a search path on which CMake is found, fetching it into `work` if not."""
    path = os.environ.get("PATH", os.defpath)
    if shutil.which("cmake", path=path):
        return path
    tools = work / "tools"
    say("fetching cmake and ninja, for this build alone")
    subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)
    pip = [str(tools / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "cmake", "ninja"], check=True)
    return os.pathsep.join([str(tools / "bin"), path])
