"""Made-up GBNF grammars, and the plainest reading of what they match."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

from kinetic.model.constraints.gbnf.nodes import Alt, Chars, Node, Ref, Repeat, Seq
from kinetic.model.constraints.gbnf.parser import ROOT, Gbnf

TEXTS = (
    *(
        "".join(letters)
        for n in range(5)
        for letters in itertools.product("abc", repeat=n)
    ),
    *("ababa", "aabba", "cabab", "aaaaaa", "abcabc", "bababa"),
)
_LEAVES = ('"a"', '"b"', '"ab"', '"ba"', '"aa"', '"c"', '"abc"', '""')
_CLASSES = ("[ab]", "[^a]", "[a-c]")
_TIMES = ("*", "+", "?", "{2}", "{1,2}", "{2,}", "{0,2}")


def random_grammar(rng: random.Random) -> str:
    """A small grammar, most likely recursive and ambiguous."""
    names = [ROOT, "x", "y", "z"][: rng.randint(1, 4)]
    rules = []
    for name in names:
        options = [_expression(rng, rng.randint(1, 3), names)]
        if rng.random() < 0.6:
            options.append(_expression(rng, 2, names))
        rules.append(f"{name} ::= {' | '.join(options)}")
    return "\n".join(rules)


def _expression(rng: random.Random, depth: int, names: list[str]) -> str:
    kind = rng.random()
    if depth <= 0 or kind < 0.35:
        return rng.choice((*_LEAVES, *_CLASSES) if rng.random() < 0.7 else names)
    parts = [_expression(rng, depth - 1, names) for _ in range(rng.randint(2, 3))]
    if kind < 0.6:
        return " ".join(parts)
    if kind < 0.8:
        return f"({' | '.join(parts)})"
    return f"({parts[0]}){rng.choice(_TIMES)}"


def matches(grammar: Gbnf, text: str) -> bool:
    """Whether the root matches a text: by trying every expression at every place.

    For each, the places where it can end are made more until nothing changes.
    """
    nodes, rules = grammar.nodes, grammar.rules
    places = range(len(text) + 1)
    ends = {(i, at): frozenset[int]() for i in range(len(nodes)) for at in places}
    changed = True
    while changed:
        changed = False
        for (number, at), known in ends.items():
            found = frozenset(_ends(nodes[number], at, text, ends, rules))
            if found != known:
                ends[number, at] = found
                changed = True
    return len(text) in ends[rules[ROOT], 0]


def _ends(
    node: Node,
    at: int,
    text: str,
    ends: Mapping[tuple[int, int], frozenset[int]],
    rules: Mapping[str, int],
) -> set[int]:
    match node:
        case Chars(members):
            point = ord(text[at]) if at < len(text) else -1
            is_member = any(low <= point <= high for low, high in members)
            return {at + 1} if is_member else set()
        case Ref(rule):
            return set(ends[rules[rule], at])
        case Seq(items):
            found = {at}
            for item in items:
                found = {end for place in found for end in ends[item, place]}
            return found
        case Alt(options):
            return {end for option in options for end in ends[option, at]}
        case Repeat(item, least, most):
            limit = least + len(text) + 1 if most is None else most
            reached, found = {at}, {at} if least == 0 else set()
            for count in range(1, limit + 1):
                reached = {end for place in reached for end in ends[item, place]}
                found |= reached if count >= least else set()
                if not reached:
                    break
            return found
        case _:
            raise AssertionError(node)
