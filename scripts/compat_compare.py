"""What differs between two servers' answers, and which differences are explained.

Pure: answers in, differences out. Places inside an answer are written as keys and
numbers joined by dots, such as `choices.0.message.content`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

KINDS = ("status", "content type", "missing", "extra", "type", "length", "value")
WHOLE = "answer"
"""The path of what concerns an answer as a whole."""
NEAR = 1e-9
"""Numbers closer than this are the same number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One server's answer to one request."""

    status: int
    content_type: str
    """Without parameters."""
    body: Any
    """A JSON value; for a stream the list of its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place where two answers differ."""

    route: str
    case: str
    path: str
    kind: str
    """One of KINDS; "missing" is what only the peer has, "extra" what only we have."""
    ours: Any = None
    theirs: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """Differences that are meant to be, with the reason."""

    reason: str
    path: str
    """A pattern with `*`, as are the next two."""
    route: str = "*"
    case: str = "*"
    kinds: tuple[str, ...] = KINDS
    within: float | None = None
    """Numbers may differ by at most so much; None is by any amount."""

    def covers(self, difference: Difference) -> bool:
        """Whether this is the reason for a difference."""
        return (
            difference.kind in self.kinds
            and fnmatchcase(difference.route, self.route)
            and fnmatchcase(difference.case, self.case)
            and fnmatchcase(difference.path, self.path)
            and self._is_near(difference)
        )

    def _is_near(self, difference: Difference) -> bool:
        if self.within is None:
            return True
        pair = (difference.ours, difference.theirs)
        if not all(isinstance(value, int | float) for value in pair):
            return False
        return bool(abs(pair[0] - pair[1]) <= self.within)


def read_explained(path: Path) -> tuple[Explained, ...]:
    """The explained differences of a TOML file; raises ValueError for a wrong entry."""
    found = []
    for entry in tomllib.loads(path.read_text("utf-8"))["explained"]:
        kinds = tuple(entry.pop("kinds", KINDS))
        unknown = set(kinds) - set(KINDS)
        if unknown or not entry.get("reason") or not entry.get("path"):
            raise ValueError(f"{path.name}: {entry} lacks a reason or a path")
        found.append(Explained(kinds=kinds, **entry))
    return tuple(found)


def compare(route: str, case: str, ours: Reply, theirs: Reply) -> list[Difference]:
    """Every difference of two answers; bodies of other statuses are not compared."""
    named = {"route": route, "case": case}
    if ours.status != theirs.status:
        return [
            Difference(
                **named,
                path=WHOLE,
                kind="status",
                ours=ours.status,
                theirs=theirs.status,
            )
        ]
    found = []
    if ours.content_type != theirs.content_type:
        found.append(
            Difference(
                **named,
                path=WHOLE,
                kind="content type",
                ours=ours.content_type,
                theirs=theirs.content_type,
            )
        )
    for path, kind, one, other in _walk(ours.body, theirs.body, ()):
        found.append(
            Difference(
                **named,
                path=".".join(path) or WHOLE,
                kind=kind,
                ours=one,
                theirs=other,
            )
        )
    return found


Found = tuple[tuple[str, ...], str, Any, Any]


def _walk(ours: Any, theirs: Any, path: tuple[str, ...]) -> Iterator[Found]:
    if _kind(ours) != _kind(theirs):
        yield path, "type", ours, theirs
    elif isinstance(ours, dict):
        for key in (*theirs, *(key for key in ours if key not in theirs)):
            here = (*path, str(key))
            if key not in ours:
                yield here, "missing", None, theirs[key]
            elif key not in theirs:
                yield here, "extra", ours[key], None
            else:
                yield from _walk(ours[key], theirs[key], here)
    elif isinstance(ours, list):
        if len(ours) != len(theirs):
            yield path, "length", len(ours), len(theirs)
        for i, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            yield from _walk(one, other, (*path, str(i)))
    elif not _same(ours, theirs):
        yield path, "value", ours, theirs


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) or isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=NEAR, abs_tol=NEAR)
    return bool(ours == theirs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All differences of a run, sorted by whether anybody has explained them."""

    explained: tuple[tuple[Difference, Explained], ...]
    unexplained: tuple[Difference, ...]
    unused: tuple[Explained, ...]
    """Explanations of what does not differ any more."""


def judge(differences: Iterable[Difference], known: Sequence[Explained]) -> Verdict:
    """Find the reason for each difference; the first that covers it counts."""
    explained = []
    unexplained = []
    used = set()
    for difference in differences:
        for i, reason in enumerate(known):
            if reason.covers(difference):
                explained.append((difference, reason))
                used.add(i)
                break
        else:
            unexplained.append(difference)
    unused = tuple(reason for i, reason in enumerate(known) if i not in used)
    return Verdict(
        explained=tuple(explained), unexplained=tuple(unexplained), unused=unused
    )
