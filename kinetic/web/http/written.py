"""What every answer is written with: JSON on one line, and the name of its request."""

from __future__ import annotations

import json
import re
import secrets

REQUEST_ID = "X-Request-Id"
"""The header that names a request in every answer."""


def new_id(prefix: str) -> str:
    """A fresh request id, such as "chatcmpl-" and 24 letters and digits."""
    return prefix + secrets.token_hex(12)


_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
"""Line ends that JSON lets stand: readers of lines, such as httpx's, would cut an event
or a line of JSON in two there."""


def dumps(value: object) -> str:
    """JSON as it goes out: UTF-8, one line to any reader, whole numbers and characters.

    NaN and Infinity raise ValueError; half of a surrogate pair becomes U+FFFD.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if text.isascii():
        return text
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _LINE_ENDS.sub(lambda end: f"\\u{ord(end[0]):04x}", whole)
