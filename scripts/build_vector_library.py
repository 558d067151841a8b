"""Builds the engine's processor library a second time, as vectors are fastest with.

    python -m scripts.build_vector_library [--install]

The engine is built without the matrix products that add in another order from two rows
on. Vectors are made one input at a time and need no such care: with those products the
same model runs about twice as fast. Only this one library differs, so it alone is
compiled, in about a minute of one core, and kept like the engine itself. Where that
fails the engine still serves vectors, only slower.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from kinetic.files.paths import cache_dir
from kinetic.model.engine.build_choice import FOLDER, VERSION_FILE, engine_folder
from scripts.build_engine import build_key, read_cpuinfo
from scripts.cmake_build import compile_target
from scripts.console import end_on_signals, say
from scripts.engine_source import ENGINE
from scripts.packages import locked, work_folder

CMAKE_FLAGS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    # Lets the library find its neighbours in whichever folder it lies.
    "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_TOOLS=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DGGML_LLAMAFILE=ON",
    # As for the engine: its workers would take the cores from the web.
    "-DGGML_OPENMP=OFF",
)
_PATTERN = "libggml-cpu*"


def cmake_flags(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The user's flags and ours; ours stand last and so win."""
    return (*environment.get("CMAKE_ARGS", "").split(), *CMAKE_FLAGS)


def find_or_build() -> Path:
    """Returns the folder of this machine's library, after building it if need be.

    Raises:
        SystemExit: The source could not be fetched, or did not compile.
    """
    flags = cmake_flags(os.environ)
    key, facts = build_key(" ".join(flags), os.environ, read_cpuinfo())
    place = cache_dir("vector-library") / key
    if not place.exists():
        with locked(place.with_name(".lock")):
            if not place.exists():
                _build(place, flags, facts)
    return place


def _build(place: Path, flags: tuple[str, ...], facts: str) -> None:
    """Compiles into a folder beside `place` and renames it when it is whole."""
    label = "the library for vectors"
    say(f"compiling {label}: a minute, once for this processor")
    with work_folder(place.parent) as work:
        built = compile_target(
            "ggml-cpu", flags, work, label=label, log="vector-library"
        )
        made = work / "made"
        made.mkdir()
        copy_library(built, made)
        (made / "key.json").write_text(facts, encoding="utf-8")
        made.rename(place)


def copy_library(source: Path, target: Path) -> None:
    """Copies the processor library under all its names, links as links.

    Raises:
        SystemExit: There is none.
    """
    found = sorted(source.glob(_PATTERN))
    if not found:
        raise SystemExit(f"{source} holds no {_PATTERN}")
    for file in found:
        shutil.copy2(file, target / file.name, follow_symlinks=False)


def install(library: Path, engine: Path) -> Path:
    """Puts the engine's libraries, with this one among them, beside its own.

    Args:
        library: The folder that was built.
        engine: The folder of the engine's package.

    Returns:
        The new folder; whole, or not there.
    """
    with work_folder(engine) as work:
        made = work / FOLDER
        shutil.copytree(engine / "lib", made, symlinks=True)
        for old in made.glob(_PATTERN):
            old.unlink()
        copy_library(library, made)
        (made / VERSION_FILE).write_text(ENGINE.version, encoding="ascii")
        target = engine / FOLDER
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)
    return target


def main() -> None:
    """Finds or builds the library, and installs it if asked."""
    end_on_signals()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--install",
        action="store_true",
        help="put it beside the engine of the environment that runs this script",
    )
    arguments = parser.parse_args()
    library = find_or_build()
    say(f"library for vectors: {library}")
    if arguments.install:
        engine = engine_folder()
        if engine is None:
            raise SystemExit("llama-cpp-python is not installed here")
        install(library, engine)


if __name__ == "__main__":
    main()
