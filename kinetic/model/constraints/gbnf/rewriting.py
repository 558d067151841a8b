"""Makes a grammar simpler without changing its texts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

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
from kinetic.model.constraints.gbnf.parser import ROOT, Gbnf, GbnfError
from kinetic.model.constraints.gbnf.passes import Order, evaluate, inside, is_productive

MAX_FACTORING: Final = 30
"""Levels of alternatives with a common beginning that are taken apart."""


def simplified(grammar: Gbnf) -> Gbnf:
    """The grammar as loops where it can be, without what can never end.

    Raises GbnfError when no text of an end matches at all.
    """
    return _factored(_productive(_disjoint_tokens(_looped(grammar))))


def _looped(grammar: Gbnf) -> Gbnf:
    """Turn `a ::= x a | y` into `a ::= x* y`, and `a ::= a x | y` into `a ::= y x*`.

    A parser reads loops far quicker, and they are regular, which recursion is not.
    Source: Arden's rule.
    """
    nodes = grammar.nodes
    rules = {}
    for rule, body in grammar.rules.items():
        rules[rule] = _loop(nodes, nodes.ref(rule), body)
    return Gbnf(nodes, rules)


def _loop(nodes: Nodes, itself: int, body: int) -> int:
    options = _options(nodes, body)
    if options is None or itself not in inside(nodes, body):
        return body
    ends: list[int] = []
    before: list[int] = []
    behind: list[int] = []
    for option in options:
        node = nodes[option]
        items = node.items if isinstance(node, Seq) else (option,)
        if items == (itself,):
            continue
        if len(items) > 1 and items[-1] == itself:
            before.append(nodes.seq(items[:-1]))
        elif len(items) > 1 and items[0] == itself:
            behind.append(nodes.seq(items[1:]))
        else:
            ends.append(option)
    if (before and behind) or not (before or behind):
        return body
    loop = nodes.repeat(nodes.alt(before or behind), 0, None)
    end = nodes.alt(ends)
    return nodes.seq([loop, end] if before else [end, loop])


def _options(nodes: Nodes, body: int) -> tuple[int, ...] | None:
    """The alternatives of a rule, `x?` being `x` or nothing; None for no choice."""
    match nodes[body]:
        case Alt(options):
            return options
        case Repeat(item, 0, 1):
            return (*(_options(nodes, item) or (item,)), nodes.empty)
        case _:
            return None


def _disjoint_tokens(grammar: Gbnf) -> Gbnf:
    """Write sets of tokens that overlap as alternatives of sets that do not.

    The lexer takes one set of tokens for a token, not all that it is in.
    """
    nodes = grammar.nodes
    sets = {
        node.ids
        for body in grammar.rules.values()
        for number in inside(nodes, body)
        if isinstance(node := nodes[number], Tokens)
    }
    if len(sets) <= 1:
        return grammar
    cuts = sorted({c for ids in sets for low, high in ids for c in (low, high + 1)})
    by_owner: dict[frozenset[int], list[tuple[int, int]]] = {}
    numbered = sorted(sets)
    for low, high in pairwise(cuts):
        owner = frozenset(
            i
            for i, ids in enumerate(numbered)
            if any(first <= low <= last for first, last in ids)
        )
        if owner:
            by_owner.setdefault(owner, []).append((low, high - 1))
    replaced = {
        ids: nodes.alt(
            nodes.tokens(tuple(part)) for owner, part in by_owner.items() if i in owner
        )
        for i, ids in enumerate(numbered)
    }

    def exchange(number: int) -> int:
        node = nodes[number]
        return replaced[node.ids] if isinstance(node, Tokens) else number

    return rewritten(grammar, exchange)


def _productive(grammar: Gbnf) -> Gbnf:
    nodes, rules = grammar.nodes, grammar.rules
    order = Order(nodes, rules, ROOT)
    by_number, by_rule = evaluate(nodes, rules, order, is_productive, start=False)
    if not by_rule[ROOT]:
        raise GbnfError(f'rule "{ROOT}" matches no text that ever ends')
    kept = Gbnf(
        nodes, {rule: body for rule, body in rules.items() if by_rule.get(rule)}
    )

    def drop(number: int) -> int:
        return number if by_number.get(number, True) else nodes.never

    return rewritten(kept, drop)


def _factored(grammar: Gbnf) -> Gbnf:
    """Write `"word" | "work"` as `"wor" ("d" | "k")`, so that long lists stay cheap."""
    nodes = grammar.nodes

    def merge(number: int) -> int:
        node = nodes[number]
        return _merged(nodes, node.options, 0) if isinstance(node, Alt) else number

    return rewritten(grammar, _same, merge)


def _merged(nodes: Nodes, options: tuple[int, ...], depth: int) -> int:
    groups: dict[int, list[tuple[int, ...]]] = {}
    for option in options:
        node = nodes[option]
        items = node.items if isinstance(node, Seq) else (option,)
        groups.setdefault(items[0] if items else nodes.empty, []).append(items)
    if depth >= MAX_FACTORING or len(groups) == len(options):
        return nodes.alt(options)
    out = []
    for group in groups.values():
        n_common = _n_common(group) if len(group) > 1 else len(group[0])
        rests = tuple(nodes.seq(items[n_common:]) for items in group)
        tail = _merged(nodes, tuple(dict.fromkeys(rests)), depth + 1)
        out.append(nodes.seq([*group[0][:n_common], tail]))
    return nodes.alt(out)


def _n_common(sequences: list[tuple[int, ...]]) -> int:
    """How many first items several sequences share."""
    n = min(map(len, sequences))
    first = sequences[0]
    return next(
        (i for i in range(n) if any(items[i] != first[i] for items in sequences)), n
    )


def _same(number: int) -> int:
    return number


def rewritten(
    grammar: Gbnf, exchange: Callable[[int], int], finish: Callable[[int], int] = _same
) -> Gbnf:
    """The grammar with expressions exchanged.

    `exchange` is asked for every expression as it was; one that it leaves alone is
    built anew from its parts, and `finish` makes what it likes of that.
    """
    nodes = grammar.nodes
    done: dict[int, int] = {}
    for body in grammar.rules.values():
        for number in inside(nodes, body):
            if number in done:
                continue
            other = exchange(number)
            if other == number:
                other = finish(_rebuilt(nodes, number, done))
            done[number] = other
    return Gbnf(nodes, {rule: done[body] for rule, body in grammar.rules.items()})


def _rebuilt(nodes: Nodes, number: int, done: dict[int, int]) -> int:
    match nodes[number]:
        case Seq(items):
            return nodes.seq(done[item] for item in items)
        case Alt(options):
            return nodes.alt(done[option] for option in options)
        case Repeat(item, least, most):
            return nodes.repeat(done[item], least, most)
        case Chars() | Tokens() | Ref() | Lexeme():
            return number
