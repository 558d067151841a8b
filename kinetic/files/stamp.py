"""Tells a large file from others without reading it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_END = 1 << 20  # bytes of each end that are looked at


def file_identity(path: Path) -> str:
    """What tells a large file from others without reading it, 64 hex digits.

    Its size, its time of change and both ends. Raises OSError.
    """
    stat = path.stat()
    digest = hashlib.sha256(f"{stat.st_size} {stat.st_mtime_ns}".encode())
    with path.open("rb") as file:
        digest.update(file.read(_END))
        file.seek(max(stat.st_size - _END, 0))
        digest.update(file.read(_END))
    return digest.hexdigest()
