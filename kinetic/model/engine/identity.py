"""Which build of the engine is running: what receipts tell of it."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from kinetic.files.stamp import file_identity
from kinetic.model.native.library import library_folder

if TYPE_CHECKING:
    from kinetic.model.engine.engine import LlamaEngine

_PATTERNS = ("*ggml*", "*llama*")


@functools.cache
def engine_build() -> str:
    """SHA-256, 64 hex digits, over the native libraries that compute.

    The folder holds each library under several names, so what counts are the different
    contents, in the order of their own digests. Takes some 50 ms the first time.
    """
    folder = Path(library_folder())
    files = {file for pattern in _PATTERNS for file in folder.glob(pattern)}
    digests = {_sha256(file) for file in files if file.is_file()}
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def engine_settings(engine: LlamaEngine) -> str:
    """What chooses the engine's code paths, beside its build and the processor."""
    options = engine.options
    tiles = os.environ.get("GGML_CPU_TILED_MM", "")
    return (
        f"flash_attention={int(options.flash_attention)}"
        f" extra_buffers={int(options.extra_buffers)} tiled_mm={tiles}"
    )


def state_identity(engine: LlamaEngine, plan: str) -> str:
    """What a kept sequence state belongs to, 64 hex digits.

    The model file by its size, time and both ends, the engine's build, the plan and
    what shapes the memory. The number of slots counts, since the engine writes it into
    a state and refuses any other; threads and tokens of context do not: a state fits
    wherever it has room.
    """
    options = engine.options
    facts = (
        engine_build(),
        file_identity(engine.path),
        plan,
        options.flash_attention,
        options.extra_buffers,
        options.n_gpu_layers,
        options.n_parallel,
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()
