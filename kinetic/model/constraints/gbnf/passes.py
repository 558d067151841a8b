"""Questions about whole grammars, answered from the inside out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from kinetic.model.constraints import charset
from kinetic.model.constraints.charset import Ranges
from kinetic.model.constraints.gbnf.nodes import (
    Alt,
    Chars,
    Lexeme,
    Node,
    Nodes,
    Ref,
    Repeat,
    Seq,
    Tokens,
)

Answer = TypeVar("Answer")
Evaluate = Callable[[Node, Mapping[int, Answer], Mapping[str, Answer]], Answer]
"""An expression's answer from its parts' by number and rules' by name."""


def parts(node: Node) -> tuple[int, ...]:
    """Numbers of the expressions that one consists of."""
    match node:
        case Seq(items):
            return items
        case Alt(options):
            return options
        case Repeat(item):
            return (item,)
        case Chars() | Tokens() | Ref() | Lexeme():
            return ()


def inside(nodes: Nodes, number: int) -> list[int]:
    """All expressions that one consists of, itself last; rules are not entered."""
    seen = {number}
    todo = [number]
    while todo:
        for part in parts(nodes[todo.pop()]):
            if part not in seen:
                seen.add(part)
                todo.append(part)
    return sorted(seen)


def uses(nodes: Nodes, number: int) -> list[str]:
    """Names of the rules that an expression uses, in order of numbers."""
    found = (nodes[part] for part in inside(nodes, number))
    return [node.rule for node in found if isinstance(node, Ref)]


class Order:
    """The rules that one can reach, in groups: what a group uses comes before it.

    The rules of a group use each other in a circle.
    """

    def __init__(self, nodes: Nodes, rules: Mapping[str, int], root: str) -> None:
        self.uses: dict[str, list[str]] = {}
        todo = [root]
        while todo:
            rule = todo.pop()
            if rule not in self.uses:
                self.uses[rule] = uses(nodes, rules[rule])
                todo.extend(self.uses[rule])
        self.groups: tuple[tuple[str, ...], ...] = tuple(_circles(self.uses, root))
        self.recursive = frozenset(
            rule
            for group in self.groups
            for rule in group
            if len(group) > 1 or rule in self.uses[rule]
        )


def _circles(graph: Mapping[str, list[str]], root: str) -> Iterator[tuple[str, ...]]:
    """Strongly connected components, those used before those that use them.

    Source: R. Tarjan, "Depth-first search and linear graph algorithms", 1972.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_rules: list[str] = []
    is_open: set[str] = set()
    calls: list[tuple[str, Iterator[str]]] = []

    def enter(rule: str) -> None:
        index[rule] = low[rule] = len(index)
        open_rules.append(rule)
        is_open.add(rule)
        calls.append((rule, iter(graph[rule])))

    enter(root)
    while calls:
        rule, rest = calls[-1]
        for used in rest:
            if used not in index:
                enter(used)
                break
            if used in is_open:
                low[rule] = min(low[rule], index[used])
        else:
            calls.pop()
            if calls:
                caller = calls[-1][0]
                low[caller] = min(low[caller], low[rule])
            if low[rule] == index[rule]:
                group = [open_rules.pop()]
                while group[-1] != rule:
                    group.append(open_rules.pop())
                is_open.difference_update(group)
                yield tuple(group)


def evaluate(
    nodes: Nodes,
    rules: Mapping[str, int],
    order: Order,
    step: Evaluate[Answer],
    start: Answer,
) -> tuple[dict[int, Answer], dict[str, Answer]]:
    """Answers for every expression and rule: the least that agree with each other.

    `start` is what a rule is taken for before it was looked at.
    """
    by_number: dict[int, Answer] = {}
    by_rule: dict[str, Answer] = dict.fromkeys(order.uses, start)
    for group in order.groups:
        bodies = {rule: inside(nodes, rules[rule]) for rule in group}
        changed = True
        while changed:
            changed = False
            for rule, body in bodies.items():
                for number in body:
                    by_number[number] = step(nodes[number], by_number, by_rule)
                answer = by_number[rules[rule]]
                if answer != by_rule[rule]:
                    by_rule[rule] = answer
                    changed = len(group) > 1 or rule in order.recursive
    return by_number, by_rule


def is_nullable(
    node: Node, by_number: Mapping[int, bool], by_rule: Mapping[str, bool]
) -> bool:
    """Whether the empty text matches."""
    match node:
        case Chars() | Tokens():
            return False
        case Ref(rule):
            return by_rule[rule]
        case Seq(items):
            return all(by_number[item] for item in items)
        case Alt(options):
            return any(by_number[option] for option in options)
        case Repeat(item, least):
            return least == 0 or by_number[item]
        case Lexeme():
            raise AssertionError(node)


def is_productive(
    node: Node, by_number: Mapping[int, bool], by_rule: Mapping[str, bool]
) -> bool:
    """Whether any text of an end matches: the same, but one character is a text."""
    return isinstance(node, Chars | Tokens) or is_nullable(node, by_number, by_rule)


def first_members(is_empty: Mapping[int, bool]) -> Evaluate[Ranges]:
    """Code points that a text may begin with, given which expressions are nullable."""

    def step(
        node: Node, by_number: Mapping[int, Ranges], by_rule: Mapping[str, Ranges]
    ) -> Ranges:
        match node:
            case Chars(members):
                return members
            case Tokens() | Lexeme():
                return ()
            case Ref(rule):
                return by_rule[rule]
            case Seq(items):
                found: list[tuple[int, int]] = []
                for item in items:
                    found.extend(by_number[item])
                    if not is_empty[item]:
                        break
                return charset.ranges(found)
            case Alt(options):
                return charset.ranges(p for o in options for p in by_number[o])
            case Repeat(item):
                return by_number[item]

    return step


MAX_HEIGHT = 100
"""How deep a regular expression's parts may be nested, rules entered."""


def height(order: Order) -> Evaluate[int]:
    """How deep an expression is nested if it is regular; `IRREGULAR` if it is not."""

    def step(
        node: Node, by_number: Mapping[int, int], by_rule: Mapping[str, int]
    ) -> int:
        match node:
            case Chars():
                return 0
            case Tokens() | Lexeme():
                return IRREGULAR
            case Ref(rule):
                tall = IRREGULAR if rule in order.recursive else by_rule[rule] + 1
            case Seq() | Alt() | Repeat():
                tall = max((by_number[part] for part in parts(node)), default=0) + 1
        return tall if tall <= MAX_HEIGHT else IRREGULAR

    return step


IRREGULAR = 1 << 20
