"""A folder of files that are made once and then reused by every run."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path


def cached_file(
    folder: Path,
    stem: str,
    suffix: str,
    key: Iterable[bytes],
    write: Callable[[Path], None],
) -> Path:
    """Gives the file made by `write`, making it if no earlier run has.

    Args:
        folder: Where files are kept; made if it is missing.
        stem: Readable start of the file's name.
        suffix: End of the file's name, with its dot.
        key: Everything that decides the contents. The name carries a digest of
            it, so a change of any part leads to another file.
        write: Writes the contents to the path it is given. A run that is killed
            in the middle leaves no file under the final name, and two runs that
            write at once do not meet: each writes its own file and renames it.

    Returns:
        The path of the finished file.
    """
    digest = hashlib.sha256()
    for part in key:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    target = folder / f"{stem}-{digest.hexdigest()[:12]}{suffix}"
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{stem}-", dir=folder) as scratch:
        beside = Path(scratch) / target.name
        write(beside)
        beside.replace(target)
    return target
