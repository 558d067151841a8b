"""The one spelling of a JSON value that digests and signatures are made over.

Source: RFC 8785, JSON Canonicalization Scheme, by the `rfc8785` package.
"""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785

from kinetic.errors import ReceiptError


def canonical(value: Any) -> bytes:
    """A JSON value as RFC 8785 spells it: sorted keys, no blanks, ES6 numbers.

    Raises ReceiptError for what has no such spelling: a whole number beyond 2**53,
    NaN or an infinity, half a surrogate pair, a key that is no string, an object of
    Python's own.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise ReceiptError(f"not to be written as canonical JSON: {error}") from None
    except RecursionError:
        raise ReceiptError(
            "not to be written as canonical JSON: nested too deep"
        ) from None


def sha256_hex(text: bytes) -> str:
    """SHA-256 as 64 hex digits."""
    return hashlib.sha256(text).hexdigest()
