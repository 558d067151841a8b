"""One file from the hub to its place: resumed, checked, and there as a whole or not."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import http.client
import os
import shutil
import time
from typing import TYPE_CHECKING, Protocol

from kinetic.errors import HubError
from kinetic.files import digest
from kinetic.hub.client import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedIOBase, BufferedRandom
    from pathlib import Path

    from kinetic.hub.choice import HubFile
    from kinetic.hub.client import HubClient, Listing

CHUNK_BYTES = 1 << 20
MAX_FAILURES = 5
"""Tries in a row that bring nothing new before a download is given up."""


class Progress(Protocol):
    """A bar: told how many bytes are there, and what happens."""

    def reach(self, n_bytes: int) -> None:
        """So much of the file is there."""

    def say(self, text: str) -> None:
        """Something the user should know."""


def fetch(
    client: HubClient,
    listing: Listing,
    file: HubFile,
    target: Path,
    progress: Progress,
    *,
    wait: Callable[[float], None] = time.sleep,
) -> bool:
    """Put a file of the hub at `target`; False when it is there already.

    What has come stays beside it as `.part` when the download is interrupted, and the
    next call goes on from there. `target` appears at once and whole, after its hash
    was found to be the one that the hub lists.

    Raises:
        HubError: The hub, the network, the disk or the hash is at fault.
    """
    if _is_there(file, target):
        return False
    part_path = _part_path(file, target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(part_path) as part:
            _check_room(target, file.size_bytes - _length(part))
            _complete(client, listing, file, part, progress, wait)
            if (found := _hash(file, part)) != _listed_hash(file):
                part_path.unlink()
                raise HubError(
                    f"{file.path} came with the hash {found}, not"
                    f" {_listed_hash(file)} as the hub lists it; it was thrown away:"
                    " try again"
                )
            os.fsync(part.fileno())
            part_path.replace(target)
    except OSError as error:
        raise HubError(f"cannot write {target}: {error.strerror or error}") from error
    _drop_other_parts(target)
    if file.sha256 is not None:
        digest.remember((target,), file.sha256)
    return True


def _is_there(file: HubFile, target: Path) -> bool:
    if not target.is_file() or target.stat().st_size != file.size_bytes:
        return False
    if file.sha256 is None:
        with target.open("rb") as opened:
            return _git_blob_id(opened, file.size_bytes) == file.blob_id
    found = digest.remembered((target,))
    if found is None:
        found = digest.hash_files((target,))
        digest.remember((target,), found)
    return found == file.sha256


def _part_path(file: HubFile, target: Path) -> Path:
    """Named by the contents too: parts of another version do not fit."""
    return target.with_name(f"{target.name}.{_listed_hash(file)[:12]}.part")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[BufferedRandom]:
    with path.open("ab+") as part:
        try:
            fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HubError(f"another `kinetic pull` is fetching {path.name}") from None
        yield part


def _length(part: BufferedRandom) -> int:
    return part.seek(0, os.SEEK_END)


def _check_room(target: Path, n_bytes: int) -> None:
    free = shutil.disk_usage(target.parent).free
    if n_bytes > free:
        raise HubError(
            f"{n_bytes / 1e9:.2f} GB are still to come and {target.parent} has"
            f" {free / 1e9:.2f} GB free"
        )


def _complete(
    client: HubClient,
    listing: Listing,
    file: HubFile,
    part: BufferedRandom,
    progress: Progress,
    wait: Callable[[float], None],
) -> None:
    """Append until the file is whole, with new tries after interruptions."""
    if _length(part) > file.size_bytes:
        part.truncate(0)
    failures = 0
    while (before := _length(part)) < file.size_bytes:
        progress.reach(before)
        try:
            _append(client, listing, file, part, progress)
        except Interrupted as error:
            failures = 0 if _length(part) > before else failures + 1
            if failures >= MAX_FAILURES:
                raise HubError(
                    f"{error}; what has come is kept, the same command goes on"
                ) from error
            progress.say(f"{error}; trying again")
            wait(min(2.0**failures, 30.0))
    progress.reach(file.size_bytes)


def _append(
    client: HubClient,
    listing: Listing,
    file: HubFile,
    part: BufferedRandom,
    progress: Progress,
) -> None:
    response, first = client.open_file(listing, file, _length(part))
    with response:
        if first == 0:
            part.truncate(0)
        n_bytes = first
        while n_bytes < file.size_bytes:
            try:
                chunk = response.read(min(CHUNK_BYTES, file.size_bytes - n_bytes))
            except (OSError, http.client.HTTPException) as error:
                raise Interrupted(str(error) or type(error).__name__) from error
            if not chunk:
                raise Interrupted("the connection ended early")
            part.write(chunk)
            part.flush()
            n_bytes += len(chunk)
            progress.reach(n_bytes)


def _listed_hash(file: HubFile) -> str:
    return file.sha256 or file.blob_id or ""


def _hash(file: HubFile, part: BufferedRandom) -> str:
    """Of the kind that the hub lists for the file."""
    part.seek(0)
    if file.sha256 is not None:
        return hashlib.file_digest(part, "sha256").hexdigest()
    return _git_blob_id(part, file.size_bytes)


def _git_blob_id(opened: BufferedIOBase, size: int) -> str:
    """Git's name of a file's contents, which is a check sum here, not a secret."""
    found = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    while chunk := opened.read(CHUNK_BYTES):
        found.update(chunk)
    return found.hexdigest()


def _drop_other_parts(target: Path) -> None:
    """What is left of downloads of other versions of the file."""
    for left in target.parent.glob(f"{target.name}.*.part"):
        left.unlink(missing_ok=True)
