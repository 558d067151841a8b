"""Builds llama-server from the engine's own source, as the peer to compare with.

    python -m scripts.build_llama_server

It gets llama.cpp's default flags, unlike our engine, since that is what its users run.
Only its web page is left out, which the build would otherwise download. The result is
kept in the cache under a name made of version, flags and processor.
"""

from __future__ import annotations

import os
from pathlib import Path

from kinetic.files.paths import cache_dir
from scripts.build_engine import build_key, read_cpuinfo
from scripts.cmake_build import compile_target
from scripts.console import end_on_signals, say
from scripts.packages import locked, work_folder

CMAKE_FLAGS = (
    "-DCMAKE_BUILD_TYPE=Release",
    # Lets the program find its libraries after the folder is renamed.
    "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
)


def built_server() -> Path | None:
    """Returns the llama-server built for this machine, or None before that is done."""
    program = _place()[0] / "llama-server"
    return program if program.exists() else None


def find_or_build() -> Path:
    """Returns the llama-server for this machine, after building it if there is none.

    Raises:
        SystemExit: The source could not be fetched, or did not compile.
    """
    place, facts = _place()
    if not place.exists():
        with locked(place.with_name(".lock")):
            if not place.exists():
                _build(place, facts)
    return place / "llama-server"


def _place() -> tuple[Path, str]:
    """Names the folder of this machine's build, and the facts behind the name."""
    key, facts = build_key(" ".join(CMAKE_FLAGS), os.environ, read_cpuinfo())
    return cache_dir("llama-server") / key, facts


def _build(place: Path, facts: str) -> None:
    """Compiles beside `place` and renames the folder of programs when it is whole."""
    say("compiling llama-server: some minutes, once for this processor")
    with work_folder(place.parent) as work:
        # Its flags are the default ones, whatever the engine is built with.
        made = compile_target(
            "llama-server", CMAKE_FLAGS, work, label="llama-server", log="llama-server"
        )
        (made / "key.json").write_text(facts, encoding="utf-8")
        made.rename(place)


def main() -> None:
    """Finds or builds the program and prints where it is."""
    end_on_signals()
    say(f"llama-server: {find_or_build()}")


if __name__ == "__main__":
    main()
