"""What the `format`s of strings mean here.

llguidance knows most of them. Some it takes wider than validators do: seconds of 60,
years without a day, labels of any length; and one of its names, "unknown", allows
anything. Those are written out here.

Source: RFC 3339 and RFC 5321, as JSON Schema's validation vocabulary 7.3 names them.
"""

from __future__ import annotations

from typing import Final

NATIVE: Final = frozenset(["duration", "hostname", "ipv4", "ipv6", "uri", "uuid"])
"""Formats that llguidance enforces as they are meant."""

_YEAR = r"(?:[1-9]\d\d\d|0[1-9]\d\d|00[1-9]\d|000[1-9])"
_MONTH_DAY = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
)
_FOURTH = r"(?:0[48]|[2468][048]|[13579][26])"
_LEAP_DAY = rf"(?:\d\d{_FOURTH}|{_FOURTH}00)-02-29"
_DATE = rf"(?:{_YEAR}-{_MONTH_DAY}|{_LEAP_DAY})"
_TIME = (
    r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?"
    r"(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
)
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

PATTERNS: Final = {
    "date": rf"^{_DATE}$",
    "time": rf"^{_TIME}$",
    "date-time": rf"^{_DATE}T{_TIME}$",
    "email": rf"^{_ATOM}{{1,32}}(?:\.{_ATOM}{{1,31}})?@{_LABEL}(?:\.{_LABEL}){{1,4}}$",
}
"""Formats as patterns."""

KNOWN: Final = tuple(sorted([*NATIVE, *PATTERNS]))
