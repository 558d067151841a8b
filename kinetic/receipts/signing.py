"""Ed25519 keys: made, kept in a file, used to sign and to check receipts.

A key file is text of two lines, readable by its owner alone:

    # Kinetic signing key (Ed25519): whoever has this file can sign as its owner.
    kinetic-ed25519-seed 9d61b19deffd5a60...

The 64 hex digits, cut here, are the 32-byte seed of RFC 8032, from which both keys
follow. Lines that start with # and empty lines say nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nacl.exceptions import BadSignatureError, CryptoError
from nacl.signing import SigningKey, VerifyKey

from kinetic.errors import ReceiptError

ALGORITHM: Final = "Ed25519"
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
FINGERPRINT_DIGITS: Final = 32

_LABEL: Final = "kinetic-ed25519-seed"
_COMMENT: Final = (
    "# Kinetic signing key (Ed25519): whoever has this file can sign as its owner."
)
_FILE_BYTES_MAX: Final = 4096
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class PublicKey:
    """What signatures are checked with."""

    hex: str
    """The 32 bytes of RFC 8032 as 64 lower-case hex digits."""

    @property
    def fingerprint(self) -> str:
        """A short name to compare by eye: 32 hex digits of the key's SHA-256."""
        digest = hashlib.sha256(bytes.fromhex(self.hex)).hexdigest()
        return digest[:FINGERPRINT_DIGITS]

    def accepts(self, message: bytes, signature: str) -> bool:
        """Whether `signature`, 128 hex digits, is this key's for `message`."""
        try:
            VerifyKey(bytes.fromhex(self.hex)).verify(message, bytes.fromhex(signature))
        except (BadSignatureError, CryptoError, ValueError):
            return False
        return True


class Signer:
    """A secret key in memory. Thread: any; nothing changes after construction."""

    def __init__(self, seed: bytes) -> None:
        self._key = SigningKey(seed)
        self.public_key = PublicKey(self._key.verify_key.encode().hex())

    def sign(self, message: bytes) -> str:
        """The signature as 128 hex digits; the same message gives the same one."""
        return self._key.sign(message).signature.hex()


def generate(path: Path) -> Signer:
    """Make a key and write it to a new file of mode 0600.

    Raises ReceiptError when anything stands at `path`, or it cannot be written.
    """
    seed = SigningKey.generate().encode()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:
        raise ReceiptError(
            f"{path} exists already and is left as it is: name another file"
        ) from None
    except OSError as error:
        raise ReceiptError(f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            # Whatever the umask is: nobody else may read it, the owner may.
            os.fchmod(file.fileno(), 0o600)
            file.write(f"{_COMMENT}\n{_LABEL} {seed.hex()}\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise ReceiptError(f"cannot write {path}: {error.strerror}") from error
    return Signer(seed)


def load(path: Path) -> Signer:
    """Read a key file.

    Raises ReceiptError when it is not there, not a key, or anybody but its owner may
    read or change it.
    """
    try:
        # Not to hang on a named pipe: it is no regular file, which is told below.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ReceiptError(f"{path} is not a regular file")
            if status.st_mode & _OTHERS:
                mode = stat.S_IMODE(status.st_mode)
                raise ReceiptError(
                    f"{path} has mode {mode:04o}: others can use the key; take it back"
                    f" with: chmod 600 {path}"
                )
            text = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ReceiptError(f"cannot read {path}: {error.strerror}") from error
    return Signer(_seed_of(text, path))


def _seed_of(text: bytes, path: Path) -> bytes:
    # The file's contents are a secret: no error repeats any of them.
    no_key = ReceiptError(f"{path} is no signing key: `kinetic keygen` makes one")
    if len(text) > _FILE_BYTES_MAX or not text.isascii():
        raise no_key
    lines = [line.strip() for line in text.decode("ascii").splitlines()]
    said = [line.split() for line in lines if line and not line.startswith("#")]
    if len(said) != 1 or len(said[0]) != 2:  # noqa: PLR2004 - a label and a seed
        raise no_key
    label, digits = said[0]
    if label != _LABEL or not is_hex(digits, KEY_BYTES):
        raise no_key
    return bytes.fromhex(digits)


def is_hex(text: object, n_bytes: int) -> bool:
    """Whether a value is the lower-case hex spelling of so many bytes."""
    return (
        isinstance(text, str)
        and len(text) == 2 * n_bytes
        and all(c in "0123456789abcdef" for c in text)
    )


def read_public_key(given: str) -> PublicKey:
    """The public key that 64 hex digits, or a file that holds them, mean.

    The file may also be what GET /v1/receipts/key answers. Raises ReceiptError.
    """
    if is_hex(given.lower(), KEY_BYTES):
        return PublicKey(given.lower())
    path = Path(given)
    try:
        with path.open("rb") as file:
            text = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ReceiptError(
            f"{given} is neither a public key of 64 hex digits nor a file that can be"
            f" read: {error.strerror}"
        ) from error
    digits = _public_digits(text)
    if not is_hex(digits, KEY_BYTES):
        raise ReceiptError(f"{given} holds no public key of 64 hex digits")
    return PublicKey(str(digits))


def _public_digits(text: bytes) -> object:
    said = text.decode("utf-8", "replace").strip()
    if not said.startswith("{"):
        return said.lower()
    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        return None
    return found.get("public_key") if isinstance(found, dict) else None


def same_fingerprint(one: str, other: str) -> bool:
    """Whether two spellings of a fingerprint mean the same; blanks and : are let be."""
    return _plain(one) == _plain(other)


def is_fingerprint(text: str) -> bool:
    """Whether a text is a whole fingerprint in any spelling."""
    return is_hex(_plain(text), FINGERPRINT_DIGITS // 2)


def _plain(text: str) -> str:
    return text.lower().replace(":", "").replace(" ", "").replace("-", "")
