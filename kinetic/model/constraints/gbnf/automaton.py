"""Whether two expressions read in one go can get in each other's way.

A lexer that reads as far as it can reads "ab" where a grammar meant "a" and then "b".
Position automata (Glushkov's) of both expressions, run side by side, tell after which
texts that can happen. Repetition counts are left out of them: that only makes them
more careful.

Source: V. M. Glushkov, "The abstract theory of automata", 1961.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kinetic.model.constraints.charset import Ranges, overlap
from kinetic.model.constraints.gbnf.nodes import (
    Alt,
    Chars,
    Lexeme,
    Nodes,
    Ref,
    Repeat,
    Seq,
    Tokens,
)

MAX_POSITIONS = 20_000
"""Most single code points that an expression may be written with."""
MAX_STEPS = 400_000
"""Most pairs of positions looked at for one grammar."""


class TooComplex(Exception):
    """The question costs more than it is worth; the careful answer must do."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """Positions are numbered from 1; 0 is the start."""

    members: tuple[Ranges, ...]
    """By position; the start's is empty."""
    follow: tuple[tuple[int, ...], ...]
    """Positions that may come next, by position."""
    last: frozenset[int]
    """Positions at which a text may end, the start if it may be empty."""


@dataclass(slots=True)
class _Part:
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    nullable: bool = True


@dataclass(slots=True)
class _Builder:
    nodes: Nodes
    rules: Mapping[str, int]
    members: list[Ranges] = field(default_factory=lambda: [()])
    follow: list[set[int]] = field(default_factory=lambda: [set()])

    def part(self, number: int) -> _Part:
        match self.nodes[number]:
            case Chars(members):
                if len(self.members) > MAX_POSITIONS:
                    raise TooComplex
                self.members.append(members)
                self.follow.append(set())
                at = (len(self.members) - 1,)
                return _Part(at, at, nullable=False)
            case Ref(rule):
                return self.part(self.rules[rule])
            case Seq(items):
                done = _Part()
                for item in items:
                    done = self._joined(done, self.part(item))
                return done
            case Alt(options):
                parts = [self.part(option) for option in options]
                return _Part(
                    tuple(p for part in parts for p in part.first),
                    tuple(p for part in parts for p in part.last),
                    nullable=any(part.nullable for part in parts),
                )
            case Repeat(item, least, most):
                done = self.part(item)
                if most != 1:
                    self._link(done.last, done.first)
                done.nullable = done.nullable or least == 0
                return done
            case Tokens() | Lexeme():
                raise TooComplex
        raise AssertionError(number)

    def _joined(self, left: _Part, right: _Part) -> _Part:
        self._link(left.last, right.first)
        return _Part(
            left.first + right.first if left.nullable else left.first,
            left.last + right.last if right.nullable else right.last,
            nullable=left.nullable and right.nullable,
        )

    def _link(self, last: tuple[int, ...], first: tuple[int, ...]) -> None:
        if len(last) * len(first) > MAX_STEPS:
            raise TooComplex
        for position in last:
            self.follow[position].update(first)


def automaton(nodes: Nodes, rules: Mapping[str, int], number: int) -> Automaton:
    """The automaton of a regular expression; raises TooComplex."""
    builder = _Builder(nodes, rules)
    whole = builder.part(number)
    builder.follow[0].update(whole.first)
    last = {*whole.last, *([0] if whole.nullable else [])}
    return Automaton(
        members=tuple(builder.members),
        follow=tuple(tuple(sorted(after)) for after in builder.follow),
        last=frozenset(last),
    )


@dataclass(frozen=True, slots=True)
class Meeting:
    """What two expressions that start at one place have in common."""

    share_text: bool
    """Some text that is not empty matches both."""
    right_goes_on: tuple[Ranges, ...]
    """Behind a text that matches the left one, code points that the right one takes."""


class Meetings:
    """Answers about pairs of automata, each once, within one budget.

    Methods raise TooComplex when the budget is spent.
    """

    def __init__(self) -> None:
        self._steps = MAX_STEPS
        self._overlaps: dict[tuple[Ranges, Ranges], bool] = {}

    def meet(self, left: Automaton, right: Automaton) -> Meeting:
        """Run both side by side over all texts that both can read."""
        share_text = False
        goes_on: set[Ranges] = set()
        seen = {(0, 0)}
        todo = [(0, 0)]
        while todo:
            a, b = todo.pop()
            if (a, b) != (0, 0) and a in left.last:
                share_text = share_text or b in right.last
                goes_on.update(right.members[after] for after in right.follow[b])
            for pair in self._next(left, right, a, b):
                if pair not in seen:
                    seen.add(pair)
                    todo.append(pair)
        return Meeting(share_text, tuple(goes_on))

    def _next(
        self, left: Automaton, right: Automaton, a: int, b: int
    ) -> Iterator[tuple[int, int]]:
        # Positions with one set of code points are looked at together: an alternation
        # of a thousand words has few different first letters.
        by_members: dict[Ranges, list[int]] = {}
        for after in right.follow[b]:
            by_members.setdefault(right.members[after], []).append(after)
        for i in left.follow[a]:
            for members, js in by_members.items():
                self._spend(1)
                if self.overlaps(left.members[i], members):
                    self._spend(len(js))
                    for j in js:
                        yield i, j

    def _spend(self, n_steps: int) -> None:
        self._steps -= n_steps
        if self._steps < 0:
            raise TooComplex

    def overlaps(self, left: Ranges, right: Ranges) -> bool:
        """Whether two sets of code points share one."""
        key = (left, right)
        if key not in self._overlaps:
            self._overlaps[key] = overlap(left, right)
        return self._overlaps[key]
