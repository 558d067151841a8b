"""Kept sequence states as files: one per state, checked before it is believed.

    magic and format      8 bytes
    length of the header  4 bytes, little-endian
    header                JSON: identity, scope, counts
    tokens                int32, little-endian
    SHA-256               of everything so far
    state                 what the engine gave
    SHA-256               of the state

A file is written beside its name and renamed, so whatever ends the process loses at
most that file. The engine trusts a state's contents, so none reaches it whose sums and
identity do not hold. Files are readable by their owner alone: they hold conversations.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import struct
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy.typing as npt

_log = logging.getLogger(__name__)

MAGIC = b"KNSTATE\x01"
SUFFIX = ".state"
_PART = ".part"
_LENGTH = struct.Struct("<I")
_MAX_HEADER = 1 << 20
_SUM = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class StateHead:
    """What a file says of its state, without the state."""

    identity: str
    """Model, engine build and plan; a state is used only where it is equal."""
    scope: tuple[str, ...]
    tokens: npt.NDArray[np.int32]
    n_prompt: int
    n_bytes: int


class BadState(Exception):
    """A file that is not to be used; the text says why, in one line."""


def write(path: Path, head: StateHead, state: bytes) -> None:
    """Write a state's file, whole or not at all. Raises OSError."""
    tokens = np.ascontiguousarray(head.tokens, "<i4").tobytes()
    fields = {
        "identity": head.identity,
        "scope": list(head.scope),
        "n_tokens": len(head.tokens),
        "n_prompt": head.n_prompt,
        "n_bytes": len(state),
    }
    header = json.dumps(fields).encode()
    front = MAGIC + _LENGTH.pack(len(header)) + header + tokens
    beside = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}{_PART}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with os.fdopen(os.open(beside, flags, 0o600), "wb") as file:
            file.write(front)
            file.write(hashlib.sha256(front).digest())
            file.write(state)
            file.write(hashlib.sha256(state).digest())
            file.flush()
            # Without this a crash of the machine may leave a renamed, empty file;
            # the sums would catch it, but the state would be lost.
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def read_head(path: Path) -> StateHead:
    """Read and check everything but the state. Raises BadState, OSError."""
    with path.open("rb") as file:
        head, _ = _read_front(file.read, path.stat().st_size)
    return head


def read(path: Path, identity: str) -> tuple[StateHead, bytes]:
    """Read a whole file and check every byte of it. Raises BadState, OSError."""
    with path.open("rb") as file:
        head, _ = _read_front(file.read, path.stat().st_size)
        if head.identity != identity:
            raise BadState("it belongs to another model, engine or plan")
        state = file.read(head.n_bytes)
        if hashlib.sha256(state).digest() != file.read(_SUM):
            raise BadState("its state was altered")
    return head, state


def _read_front(take: Callable[[int], bytes], n_file: int) -> tuple[StateHead, int]:
    start = take(len(MAGIC) + _LENGTH.size)
    if start[: len(MAGIC)] != MAGIC:
        raise BadState("it is not a state of this format")
    if len(start) < len(MAGIC) + _LENGTH.size:
        raise BadState("it is cut short")
    (n_header,) = _LENGTH.unpack_from(start, len(MAGIC))
    if n_header > min(_MAX_HEADER, n_file):
        raise BadState("its header is too long")
    header = take(n_header)
    try:
        fields = json.loads(header)
        n_tokens, n_bytes = int(fields["n_tokens"]), int(fields["n_bytes"])
        n_prompt = int(fields["n_prompt"])
        identity, scope = str(fields["identity"]), tuple(map(str, fields["scope"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BadState("its header cannot be read") from error
    n_front = len(start) + n_header + 4 * n_tokens
    if min(n_tokens, n_bytes, n_prompt) < 0 or (
        n_front + _SUM + n_bytes + _SUM != n_file
    ):
        raise BadState("its length is not what its header says")
    tokens = take(4 * n_tokens)
    if hashlib.sha256(start + header + tokens).digest() != take(_SUM):
        raise BadState("its header or tokens were altered")
    head = StateHead(
        identity=identity,
        scope=scope,
        tokens=np.frombuffer(tokens, "<i4").astype(np.int32),
        n_prompt=n_prompt,
        n_bytes=n_bytes,
    )
    return head, n_front + _SUM


class StateFolder:
    """The folder of state files. Thread: any, one for a file."""

    def __init__(self, folder: Path, identity: str) -> None:
        self.path = folder
        self._identity = identity

    def open(self) -> None:
        """Make the folder, readable by its owner alone. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def scan(self) -> Iterator[tuple[str, StateHead]]:
        """Names and heads of the usable files; bad ones and leftovers are removed.

        Files of other models stay: another server may share the folder.
        """
        for path in sorted(self.path.iterdir()):
            if path.name.endswith(_PART):
                self._remove_leftover(path)
            if path.suffix != SUFFIX:
                continue
            try:
                head = read_head(path)
            except BadState as error:
                self.reject(path.name, str(error))
            except OSError as error:
                _log.warning("kept state %s cannot be read: %s", path.name, error)
            else:
                if head.identity == self._identity:
                    yield path.name, head

    def _remove_leftover(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)

    def write(self, head: StateHead, state: bytes) -> str:
        """Write a state and return its name. Raises OSError."""
        # It may have been deleted, or not have been there before.
        self.open()
        name = f"{self._identity[:16]}-{uuid.uuid4().hex}{SUFFIX}"
        write(self.path / name, head, state)
        return name

    def read(self, name: str) -> bytes | None:
        """A state's bytes, every one checked; None, and removed, when it is bad."""
        try:
            return read(self.path / name, self._identity)[1]
        except BadState as error:
            self.reject(name, str(error))
        except OSError as error:
            _log.warning("kept state %s cannot be read: %s", name, error)
        return None

    def reject(self, name: str, reason: str) -> None:
        """Remove a file that is not to be used, with one line in the log."""
        _log.warning("kept state %s is removed: %s", name, reason)
        self.remove(name)

    def remove(self, name: str) -> None:
        """Remove a file; one that is gone is no error."""
        with contextlib.suppress(OSError):
            (self.path / name).unlink(missing_ok=True)
