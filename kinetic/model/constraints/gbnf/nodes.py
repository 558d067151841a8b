"""What grammars are made of: expressions, each kept once and named by a number.

Equal expressions have equal numbers, and what an expression consists of has smaller
ones. So every question about a grammar is a loop over numbers, however deeply a client
nested its brackets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kinetic.model.constraints import charset
from kinetic.model.constraints.charset import Ranges


@dataclass(frozen=True, slots=True)
class Chars:
    """One code point of a set."""

    members: Ranges


@dataclass(frozen=True, slots=True)
class Tokens:
    """One token of a set of ids, given as sorted inclusive ranges."""

    ids: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Ref:
    """What the rule of this name stands for."""

    rule: str


@dataclass(frozen=True, slots=True)
class Seq:
    """One after another; of nothing, the empty text."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    """One of several; of nothing, no text at all."""

    options: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`least` to `most` times the same; `most` None is without end."""

    item: int
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Lexeme:
    """An expression that is to be read in one go, by a regular expression."""

    body: int


Node = Chars | Tokens | Ref | Seq | Alt | Repeat | Lexeme


class Nodes:
    """The expressions of one grammar."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._numbers: dict[Node, int] = {}
        self.empty = self._number(Seq(()))
        self.never = self._number(Alt(()))

    def __getitem__(self, number: int) -> Node:
        return self._nodes[number]

    def __len__(self) -> int:
        return len(self._nodes)

    def _number(self, node: Node) -> int:
        number = self._numbers.setdefault(node, len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(node)
        return number

    def chars(self, members: Ranges) -> int:
        """A set of code points; the empty set is never matched."""
        return self._number(Chars(members)) if members else self.never

    def tokens(self, ids: tuple[tuple[int, int], ...]) -> int:
        """A set of token ids."""
        return self._number(Tokens(ids)) if ids else self.never

    def ref(self, rule: str) -> int:
        """A use of a rule."""
        return self._number(Ref(rule))

    def lexeme(self, body: int) -> int:
        """An expression to be read in one go."""
        return self._number(Lexeme(body))

    def seq(self, items: Iterable[int]) -> int:
        """Items one after another, flat."""
        flat: list[int] = []
        for item in items:
            node = self._nodes[item]
            if item == self.never:
                return self.never
            if isinstance(node, Seq):
                flat.extend(node.items)
            else:
                flat.append(item)
        return flat[0] if len(flat) == 1 else self._number(Seq(tuple(flat)))

    def alt(self, options: Iterable[int]) -> int:
        """One of several, flat, each once, single code points as one set."""
        flat: dict[int, None] = {}
        members: list[tuple[int, int]] = []
        for option in options:
            node = self._nodes[option]
            for part in node.options if isinstance(node, Alt) else (option,):
                inner = self._nodes[part]
                if isinstance(inner, Chars):
                    members.extend(inner.members)
                else:
                    flat[part] = None
        if members:
            flat[self.chars(charset.ranges(members))] = None
        return next(iter(flat)) if len(flat) == 1 else self._number(Alt(tuple(flat)))

    def repeat(self, item: int, least: int, most: int | None) -> int:
        """The item `least` to `most` times; repetitions of repetitions are merged."""
        if most == 0 or item == self.empty or (item == self.never and least == 0):
            return self.empty
        if item == self.never or (least == 1 and most == 1):
            return item
        node = self._nodes[item]
        if isinstance(node, Repeat) and node.least <= 1 and least <= 1:
            merged = _merged(node, least, most)
            if merged is not None:
                return self._number(Repeat(node.item, *merged))
        return self._number(Repeat(item, least, most))


def _merged(
    node: Repeat, least: int, most: int | None
) -> tuple[int, int | None] | None:
    """`(x{a,b}){c,d}` as one repetition, where all are `*`, `+` or `?`."""
    if any(limit not in {1, None} for limit in (node.most, most)):
        return None
    endless = node.most is None or most is None
    return node.least * least, None if endless else 1
