"""Chooses what of a grammar is read in one go, so that masks are cheap and exact.

llguidance reads text with a lexer, under a parser. Its lexer always reads as far as it
can: with `"a" "bc" | "ab" "d"` it reads "ab" of "abc" and is stuck, while GBNF means
text character by character. A lexer that reads single characters is always right and
far too slow (16 ms a mask at 150,000 tokens, against 0.03). So the largest regular
parts become lexemes, and those that could be read too far are taken apart until none
can: the texts that the grammar matches stay exactly the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kinetic.model.constraints.charset import Ranges
from kinetic.model.constraints.gbnf.automaton import (
    Automaton,
    Meeting,
    Meetings,
    TooComplex,
    automaton,
)
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
from kinetic.model.constraints.gbnf.parser import ROOT, Gbnf
from kinetic.model.constraints.gbnf.passes import (
    IRREGULAR,
    Order,
    evaluate,
    height,
    inside,
    is_nullable,
)

ROUNDS = range(3, 25)
"""Fewest and most attempts to find parts that fit, by the grammar's size."""
MAX_WORK = 60_000
"""Expressions looked at in all attempts together, about a second's."""
MAX_PAIRS = 100_000


@dataclass(frozen=True, slots=True)
class Lexed:
    """A grammar whose rules consist of lexemes and tokens."""

    grammar: Gbnf
    """Rules that may be reached, over `Lexeme` and `Tokens`."""
    regular: Mapping[str, int]
    """All rules as they were: what the refs inside lexemes stand for."""
    nullable: frozenset[int]
    """Bodies of lexemes that the empty text matches."""
    beside: tuple[tuple[int, Ranges], ...] = ()
    """Sets of tokens, and what text may begin with where one of them is allowed."""


def lexed(grammar: Gbnf) -> Lexed:
    """Choose the lexemes of a simplified grammar."""
    order = Order(grammar.nodes, grammar.rules, ROOT)
    nodes, rules = grammar.nodes, grammar.rules
    heights, _ = evaluate(nodes, rules, order, height(order), start=IRREGULAR)
    empties = _Empties(nodes, *evaluate(nodes, rules, order, is_nullable, start=False))
    regular = {number for number, tall in heights.items() if tall < IRREGULAR}
    split: set[int] = set()
    lexer = _Lexer(nodes, rules)
    if rules[ROOT] in regular:
        # Nothing comes behind the one lexeme, so nothing can be swallowed.
        return _as_lexed(
            _Shaper(grammar, regular, split, peel=True).shape(), rules, empties
        )
    n_rounds = max(ROUNDS.start, min(MAX_WORK // len(nodes), ROUNDS.stop - 1))
    for round_number in range(n_rounds):
        # Sequences lose their last item at first, and are taken apart later.
        peel = round_number < n_rounds // 2
        shaper = _Shaper(grammar, regular, split, peel=peel)
        shaped = shaper.shape()
        graph = _Graph(shaped, empties)
        try:
            unsafe = set(_read_too_far(graph, lexer))
            if not unsafe:
                beside = tuple(_token_choices(graph, lexer))
                return _as_lexed(shaped, rules, empties, beside)
        except TooComplex:
            break
        split |= unsafe
        split |= {rules[n.rule] for i in unsafe if isinstance(n := nodes[i], Ref)}
    shaped = _Shaper(grammar, set(), split, peel=False).shape()
    beside = tuple(_all_token_choices(_Graph(shaped, empties), lexer))
    return _as_lexed(shaped, rules, empties, beside)


def _as_lexed(
    shaped: Gbnf,
    rules: Mapping[str, int],
    is_empty: _Empties,
    beside: tuple[tuple[int, Ranges], ...] = (),
) -> Lexed:
    nodes = shaped.nodes
    everything = {i for body in shaped.rules.values() for i in inside(nodes, body)}
    bodies = {node.body for i in everything if isinstance(node := nodes[i], Lexeme)}
    nullable = frozenset(body for body in bodies if is_empty(body))
    return Lexed(shaped, rules, nullable, beside)


@dataclass(slots=True)
class _Empties:
    """Which bodies are nullable, those that shaping made included."""

    nodes: Nodes
    known: dict[int, bool]
    by_rule: dict[str, bool]

    def __call__(self, number: int) -> bool:
        if number not in self.known:
            for part in inside(self.nodes, number):
                if part not in self.known:
                    node = self.nodes[part]
                    self.known[part] = is_nullable(node, self.known, self.by_rule)
        return self.known[number]


@dataclass(slots=True)
class _Shaper:
    """Marks what is read in one go, given what must not be."""

    grammar: Gbnf
    regular: set[int]
    split: set[int]
    peel: bool
    done: dict[int, int] = field(default_factory=dict)

    def shape(self) -> Gbnf:
        nodes, rules = self.grammar.nodes, self.grammar.rules
        shaped: dict[str, int] = {}
        todo = [ROOT]
        while todo:
            rule = todo.pop()
            if rule in shaped:
                continue
            shaped[rule] = self._of(rules[rule])
            body = inside(nodes, shaped[rule])
            todo.extend(n.rule for i in body if isinstance(n := nodes[i], Ref))
        return Gbnf(nodes, shaped)

    def _is_lexeme(self, number: int) -> bool:
        return number in self.regular and number not in self.split

    def _of(self, number: int) -> int:
        for part in inside(self.grammar.nodes, number):
            if part not in self.done:
                self.done[part] = self._shaped(part)
        return self.done[number]

    def _shaped(self, number: int) -> int:
        nodes = self.grammar.nodes
        node = nodes[number]
        if number in {nodes.empty, nodes.never}:
            return number
        if isinstance(node, Chars) or self._is_lexeme(number):
            return nodes.lexeme(number)
        match node:
            case Seq(items):
                return self._sequence(items)
            case Alt(options):
                return self._choice(options)
            case Repeat(item, least, most):
                return nodes.repeat(self.done[item], least, most)
            case Tokens() | Ref() | Lexeme():
                return number

    def _sequence(self, items: tuple[int, ...]) -> int:
        out: list[int] = []
        run: list[int] = []
        for item in items:
            if item in self.regular:
                run.append(item)
                continue
            out += [*self._run(run), self.done[item]]
            run = []
        return self.grammar.nodes.seq([*out, *self._run(run)])

    def _run(self, run: list[int]) -> list[int]:
        """Regular items that follow each other, as few lexemes as may be."""
        nodes = self.grammar.nodes
        behind: list[int] = []
        while len(run) > 1:
            whole = nodes.seq(run)
            self.regular.add(whole)
            if whole not in self.split:
                return [nodes.lexeme(whole), *behind]
            if not self.peel:
                break
            behind.insert(0, self.done[run[-1]])
            run = run[:-1]
        return [*(self.done[item] for item in run), *behind]

    def _choice(self, options: tuple[int, ...]) -> int:
        nodes = self.grammar.nodes
        together = [option for option in options if option in self.regular]
        if len(together) > 1:
            whole = nodes.alt(together)
            self.regular.add(whole)
            if whole not in self.split:
                others = [self.done[o] for o in options if o not in self.regular]
                return nodes.alt([*others, nodes.lexeme(whole)])
        return nodes.alt(self.done[option] for option in options)


class _Graph:
    """Which lexemes and tokens of a shaped grammar may follow which.

    They are numbered by bits, so that sets of them are integers.
    """

    def __init__(self, grammar: Gbnf, is_empty: _Empties) -> None:
        nodes, rules = grammar.nodes, grammar.rules
        self.nodes = nodes
        order = Order(nodes, rules, ROOT)
        everything = sorted({i for body in rules.values() for i in inside(nodes, body)})
        self.lexemes = {
            i: nodes[i] for i in everything if isinstance(nodes[i], Lexeme | Tokens)
        }
        self.bits = {number: 1 << i for i, number in enumerate(self.lexemes)}
        self._numbers = tuple(self.lexemes)

        def edge(*, backwards: bool) -> tuple[dict[int, _Edge], dict[str, _Edge]]:
            def step(
                node: Node,
                by_number: Mapping[int, _Edge],
                by_rule: Mapping[str, _Edge],
            ) -> _Edge:
                match node:
                    case Lexeme(body):
                        return self.bits[nodes.lexeme(body)], is_empty(body)
                    case Tokens(ids):
                        return self.bits[nodes.tokens(ids)], False
                    case Ref(rule):
                        return by_rule[rule]
                    case Seq(items):
                        return _along(
                            by_number, reversed(items) if backwards else items
                        )
                    case Alt(options):
                        return _either(by_number[option] for option in options)
                    case Repeat(item, least):
                        mask, empty = by_number[item]
                        return mask, empty or least == 0
                    case Chars():
                        raise AssertionError(node)

            return evaluate(nodes, rules, order, step, start=(0, False))

        firsts, first_of_rule = edge(backwards=False)
        lasts, _ = edge(backwards=True)
        self.start = first_of_rule[ROOT][0]
        self.after = dict.fromkeys(self.lexemes, 0)
        for number in everything:
            match nodes[number]:
                case Seq(items):
                    self._link_items(items, firsts, lasts)
                case Repeat(item, _, most) if most != 1:
                    self._link(lasts[item][0], firsts[item][0])
                case _:
                    pass

    def _link_items(
        self,
        items: tuple[int, ...],
        firsts: Mapping[int, _Edge],
        lasts: Mapping[int, _Edge],
    ) -> None:
        ends = 0
        for item in items:
            self._link(ends, firsts[item][0])
            last, empty = lasts[item]
            ends = last | (ends if empty else 0)

    def _link(self, lasts: int, firsts: int) -> None:
        for number in self.members(lasts):
            self.after[number] |= firsts

    def members(self, mask: int) -> Iterator[int]:
        """Lexemes and tokens in a set."""
        while mask:
            bit = mask & -mask
            yield self._numbers[bit.bit_length() - 1]
            mask ^= bit


_Edge = tuple[int, bool]
"""What may stand at one end of an expression, and whether it may be empty."""


def _along(
    by_number: Mapping[int, _Edge], items: Iterator[int] | tuple[int, ...]
) -> _Edge:
    found = 0
    for item in items:
        mask, empty = by_number[item]
        found |= mask
        if not empty:
            return found, False
    return found, True


def _either(edges: Iterator[_Edge]) -> _Edge:
    found, empty = 0, False
    for mask, is_empty in edges:
        found |= mask
        empty = empty or is_empty
    return found, empty


class _Lexer:
    """Automata of lexemes and what is known of pairs of them, kept over rounds."""

    def __init__(self, nodes: Nodes, rules: Mapping[str, int]) -> None:
        self._nodes = nodes
        self._rules = rules
        self._automata: dict[int, Automaton] = {}
        self._meetings = Meetings()
        self._met: dict[tuple[int, int], Meeting] = {}

    def automaton(self, lexeme: int) -> Automaton:
        node = self._nodes[lexeme]
        if lexeme not in self._automata and isinstance(node, Lexeme):
            made = automaton(self._nodes, self._rules, node.body)
            self._automata[lexeme] = made
        return self._automata[lexeme]

    def first(self, lexeme: int) -> frozenset[Ranges]:
        made = self.automaton(lexeme)
        return frozenset(made.members[position] for position in made.follow[0])

    def meet(self, left: int, right: int) -> Meeting:
        if (left, right) not in self._met:
            automata = self.automaton(left), self.automaton(right)
            self._met[left, right] = self._meetings.meet(*automata)
        return self._met[left, right]

    def overlap(self, left: frozenset[Ranges], right: frozenset[Ranges]) -> bool:
        return any(self._meetings.overlaps(a, b) for a in left for b in right)


def _read_too_far(graph: _Graph, lexer: _Lexer) -> Iterator[int]:
    """Bodies of lexemes that can swallow what another one leaves to its successor."""
    for left, right in _together(graph, lexer):
        for a, b in {(left, right), (right, left)}:
            body = graph.nodes[b]
            is_text = isinstance(graph.nodes[a], Lexeme)
            if not isinstance(body, Lexeme) or not is_text:
                continue
            goes_on = frozenset(lexer.meet(a, b).right_goes_on)
            if goes_on and any(
                lexer.overlap(goes_on, lexer.first(after))
                for after in graph.members(graph.after[a])
                if isinstance(graph.nodes[after], Lexeme)
            ):
                yield body.body


def _together(graph: _Graph, lexer: _Lexer) -> Iterator[tuple[int, int]]:
    """Pairs of lexemes that may be read at one place, each with itself included."""
    seen: set[tuple[int, int]] = set()
    todo: list[tuple[int, int]] = []

    def add(one: int, other: int) -> None:
        for a in graph.members(one):
            for b in graph.members(other):
                pair = (min(a, b), max(a, b))
                if pair not in seen:
                    seen.add(pair)
                    todo.append(pair)
        if len(seen) > MAX_PAIRS:
            raise TooComplex

    add(graph.start, graph.start)
    while todo:
        a, b = todo.pop()
        yield a, b
        is_text = isinstance(graph.nodes[a], Lexeme), isinstance(graph.nodes[b], Lexeme)
        if a == b or (all(is_text) and lexer.meet(a, b).share_text):
            add(graph.after[a], graph.after[b])


def _token_choices(graph: _Graph, lexer: _Lexer) -> Iterator[tuple[int, Ranges]]:
    """Sets of tokens with what text may begin with where they are allowed.

    That is a lexeme beside them, or one before them that can go on.
    """
    for a, b in _together(graph, lexer):
        for token, text in ((a, b), (b, a)):
            pair = graph.nodes[token], graph.nodes[text]
            if isinstance(pair[0], Tokens) and isinstance(pair[1], Lexeme):
                yield from ((token, members) for members in lexer.first(text))
    for text, after in graph.after.items():
        if isinstance(graph.nodes[text], Lexeme):
            for token in graph.members(after):
                if isinstance(graph.nodes[token], Tokens):
                    goes_on = lexer.meet(text, text).right_goes_on
                    yield from ((token, members) for members in goes_on)


def _all_token_choices(graph: _Graph, lexer: _Lexer) -> Iterator[tuple[int, Ranges]]:
    """The same for lexemes of one character, taking all to be allowed everywhere."""
    for token, node in graph.lexemes.items():
        if isinstance(node, Tokens):
            for text, other in graph.lexemes.items():
                if isinstance(other, Lexeme):
                    yield from ((token, members) for members in lexer.first(text))
