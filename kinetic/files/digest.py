"""SHA-256 of model files: read once, in the background, and remembered.

A digest is remembered under `<cache>/digests` by the file's path, size and time of
change, so that a file of many gigabytes is not read again at each start.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from kinetic.files import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_log = logging.getLogger(__name__)

CHUNK_BYTES = 4 << 20
_SAY_EVERY_S = 10.0


def hash_files(
    files: Sequence[Path], progress: Callable[[int], None] | None = None
) -> str:
    """SHA-256, as 64 hex digits, of files as if they were one.

    Args:
        files: In order: the parts of a split model, or one file.
        progress: Told the number of bytes read so far.

    Raises:
        OSError: A file cannot be read.
    """
    found = hashlib.sha256()
    n_read = 0
    buffer = bytearray(CHUNK_BYTES)
    view = memoryview(buffer)
    for path in files:
        with path.open("rb", buffering=0) as file:
            while n := file.readinto(buffer):
                found.update(view[:n])
                n_read += n
                if progress is not None:
                    progress(n_read)
    return found.hexdigest()


def remembered(files: Sequence[Path]) -> str | None:
    """The digest of unchanged files, if it was remembered."""
    try:
        note = json.loads(_note_path(files).read_text("utf-8"))
        if note["files"] == _stamps(files):
            digest = note["sha256"]
            return digest if isinstance(digest, str) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None


def remember(files: Sequence[Path], digest: str) -> None:
    """Keep a digest for later; a cache that cannot be written is no error."""
    note = _note_path(files)
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and moved, so that a reader never sees half of it.
        fresh = note.with_suffix(f".{os.getpid()}")
        text = json.dumps({"files": _stamps(files), "sha256": digest})
        fresh.write_text(text, "utf-8")
        fresh.replace(note)
    except OSError as error:
        _log.warning("the digest cannot be kept in %s: %s", note.parent, error)


class Changed(OSError):
    """The files are not the ones any more that were to be read."""


def find(files: Sequence[Path], progress: Callable[[int], None] | None = None) -> str:
    """The digest of files, remembered or read now, and then remembered.

    Raises OSError when a file cannot be read, or is changed meanwhile.
    """
    if (known := remembered(files)) is not None:
        return known
    before = _stamps(files)
    digest = hash_files(files, progress)
    if _stamps(files) != before:
        raise Changed(f"{files[0].name} was changed while it was read")
    remember(files, digest)
    return digest


def _stamps(files: Sequence[Path]) -> list[list[object]]:
    """What tells that the files are the same: path, size, time of change."""
    stats = [(path.resolve(), path.stat()) for path in files]
    return [[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in stats]


def _stamps_or_none(files: Sequence[Path]) -> list[list[object]] | None:
    try:
        return _stamps(files)
    except OSError:
        return None


def _note_path(files: Sequence[Path]) -> Path:
    name = hashlib.sha256(str(files[0].resolve()).encode()).hexdigest()[:32]
    return paths.cache_dir("digests") / f"{name}.json"


class BackgroundDigest:
    """The digest of one model, found by a thread of its own when first asked for.

    It is that of the files as they were when this was made, which is before they are
    loaded: replaced later, they are no longer what runs, and there is no digest.

    Thread: any. The thread is a daemon: a server that stops does not wait for it.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = tuple(files)
        self._made_of = _stamps_or_none(self._files)
        self._found: Future[str] = Future()
        self._lock = threading.Lock()
        self._is_started = False

    def ask(self) -> Future[str]:
        """The digest to come; starts the reading. Ends with OSError if that fails."""
        with self._lock:
            if not self._is_started:
                self._is_started = True
                # From here on nobody who waits can cancel it for the others.
                self._found.set_running_or_notify_cancel()
                threading.Thread(target=self._find, name="digest", daemon=True).start()
        return self._found

    def _find(self) -> None:
        try:
            found = remembered(self._files) or self._read()
            if _stamps_or_none(self._files) != self._made_of:
                name = self._files[0].name
                raise Changed(f"{name} was changed since it was loaded")
            self._found.set_result(found)
        except OSError as error:
            _log.warning("the model file cannot be read for its digest: %s", error)
            self._found.set_exception(error)

    def _read(self) -> str:
        size = sum(path.stat().st_size for path in self._files)
        name = self._files[0].name
        _log.info("reading %s for its digest, %.1f GB", name, size / 1e9)
        started = said = time.monotonic()

        def say(n_read: int) -> None:
            nonlocal said
            if time.monotonic() - said > _SAY_EVERY_S:
                said = time.monotonic()
                _log.info("digest: %d%% of %s read", 100 * n_read // size, name)

        digest = find(self._files, say)
        _log.info("digest of %s: %s", name, digest)
        _log.debug("read in %.1f s", time.monotonic() - started)
        return digest
