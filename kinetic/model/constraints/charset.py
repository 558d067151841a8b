"""Sets of Unicode code points as sorted ranges, for grammars and patterns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

Ranges = tuple[tuple[int, int], ...]
"""Sorted, disjoint, inclusive ranges of code points; no surrogates."""

LAST: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)
# Surrogates are no characters: UTF-8 cannot spell them, so no token holds one.
EVERYTHING: Final[Ranges] = ((0, _SURROGATES[0] - 1), (_SURROGATES[1] + 1, LAST))


def ranges(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """Sort, merge and clip any inclusive pairs; pairs out of order are empty."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pair for pair in pairs if pair[0] <= pair[1]):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return _without_surrogates(merged)


def _without_surrogates(pairs: Iterable[tuple[int, int]]) -> Ranges:
    first, last = _SURROGATES
    parts = (
        part
        for low, high in pairs
        for part in ((low, min(high, first - 1)), (max(low, last + 1), min(high, LAST)))
    )
    return tuple(part for part in parts if part[0] <= part[1])


def single(character: str) -> Ranges:
    """The set that holds one character."""
    return ranges([(ord(character), ord(character))])


def complement(inner: Ranges) -> Ranges:
    """Every code point that is not in `inner`."""
    pairs = []
    start = 0
    for low, high in inner:
        pairs.append((start, low - 1))
        start = high + 1
    pairs.append((start, LAST))
    return ranges(pairs)


def without(members: Ranges, point: int) -> Ranges:
    """The set without one code point."""
    return complement(ranges([*complement(members), (point, point)]))


def overlap(left: Ranges, right: Ranges) -> bool:
    """Whether two sets share a code point."""
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i][1] < right[j][0]:
            i += 1
        elif right[j][1] < left[i][0]:
            j += 1
        else:
            return True
    return False


def character(members: Ranges) -> str | None:
    """The one character of a set of size one, else None."""
    if len(members) == 1 and members[0][0] == members[0][1]:
        return chr(members[0][0])
    return None


def regex(members: Ranges) -> str:
    """A regex class for the set, in syntax that every dialect here reads alike.

    The set must not be empty.
    """
    if members == EVERYTHING:
        return "(?s:.)"
    one = character(members)
    if one is not None and _is_plain(ord(one)):
        return one
    return f"[{class_body(members)}]"


def class_body(members: Ranges) -> str:
    """What stands between the brackets of a regex class."""
    return "".join(
        _spelled(low) if low == high else f"{_spelled(low)}-{_spelled(high)}"
        for low, high in members
    )


def _is_plain(point: int) -> bool:
    return chr(point).isascii() and chr(point).isalnum()


def _spelled(point: int) -> str:
    return chr(point) if _is_plain(point) else rf"\x{{{point:x}}}"
