"""Which build of the engine's processor library a model is best run with.

Text needs a build whose rows do not depend on their neighbours. Vectors are made one
input at a time, so any build is exact for them, and llama.cpp's plain one is about
twice as fast. Only that one library differs; `make install` puts a folder with it
beside the engine's own. The engine reads the choice when it is first imported, so this
module imports nothing of it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from pathlib import Path
from typing import Final

from kinetic.errors import ModelError
from kinetic.files.gguf import read_header
from kinetic.model.engine import pooling

FOLDER: Final = "lib_vectors"
"""Beside `lib` in the engine's package."""

VERSION_FILE: Final = "version"
"""In that folder: the engine's version that its libraries are of."""

LIB_PATH: Final = "LLAMA_CPP_LIB_PATH"
TILES: Final = "GGML_CPU_TILED_MM"


def engine_folder() -> Path | None:
    """The folder of the engine's package, found without importing it."""
    found = importlib.util.find_spec("llama_cpp")
    places = None if found is None else found.submodule_search_locations
    return Path(places[0]) if places else None


def vector_library() -> Path | None:
    """The folder with the libraries for vectors; None where it was not built."""
    engine = engine_folder()
    if engine is None:
        return None
    folder = engine / FOLDER
    try:
        built = (folder / VERSION_FILE).read_text(encoding="ascii")
    except (OSError, ValueError):
        return None
    # Another release's structures would be read wrongly: a crash.
    return folder if built == engine_version() else None


def engine_version() -> str:
    """The version of the engine's package."""
    return importlib.metadata.version("llama-cpp-python")


def choose_library(model: Path, asked_pooling: str | None) -> None:
    """Set the environment so that the engine loads what suits a model file.

    Must run before the engine is imported for the first time. What the user has set
    stays. A file that cannot be read changes nothing: loading it will say why.
    """
    try:
        served = pooling.serving(read_header(model, most_items=0), asked_pooling)
    except ModelError:
        return
    if served.kind == "text":
        return
    # Faster from eight rows on, in an order of their own: right for whole inputs.
    os.environ.setdefault(TILES, "1")
    folder = vector_library()
    if folder is not None:
        os.environ.setdefault(LIB_PATH, str(folder))
