"""Where Kinetic keeps its files: one folder per kind below the user's cache folder.

Everything there may be deleted at any time. Imports nothing but the standard library:
the scripts that set up an environment use this before any package is installed.
"""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def cache_dir(kind: str) -> Path:
    """Names the folder for one kind of files; does not create it.

    Args:
        kind: A plain folder name, such as "models" or "verdicts".

    Returns:
        `$XDG_CACHE_HOME/kinetic/<kind>`, or `~/.cache/kinetic/<kind>` where the
        variable is unset, empty or, as the XDG base directory specification asks,
        not an absolute path.

    Raises:
        RuntimeError: Neither the variable nor a home directory is known.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path.home() / ".cache"
    return base / "kinetic" / kind


def default_model_path() -> Path:
    """Names the model served when none is given; `make install` puts it there."""
    return cache_dir("models") / DEFAULT_MODEL_FILE
