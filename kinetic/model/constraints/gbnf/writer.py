"""Writes a lexed grammar as llguidance's Lark.

No brackets are written: every part has a name of its own, since llguidance refuses
brackets nested deeper than its own stack allows.

Source: llguidance, docs/syntax.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kinetic.model.constraints import charset
from kinetic.model.constraints.gbnf.lexemes import Lexed
from kinetic.model.constraints.gbnf.nodes import (
    Alt,
    Chars,
    Lexeme,
    Ref,
    Repeat,
    Seq,
    Tokens,
)
from kinetic.model.constraints.gbnf.parser import ROOT, GbnfError
from kinetic.model.constraints.lark import quoted

MAX_NAMES = 12_000
"""Most rules and terminals; llguidance walks them recursively."""


def written(lexed: Lexed, start: str) -> str:
    """Lark text whose rule `start` stands for the grammar's root."""
    writer = _Writer(lexed)
    root = writer.rule(lexed.grammar.rules[ROOT])
    return "\n".join([f"{start}: {root}", *writer.lines(), ""])


class _Writer:
    def __init__(self, lexed: Lexed) -> None:
        self._lexed = lexed
        self._nodes = lexed.grammar.nodes
        self._bodies: dict[str, str | None] = {}
        self._todo: list[tuple[str, Callable[[], str]]] = []

    def lines(self) -> Iterator[str]:
        """Definitions of everything that was named so far, and of what they name."""
        while self._todo:
            name, body = self._todo.pop()
            self._bodies[name] = body()
        return (f"{name}: {body}" for name, body in self._bodies.items())

    def _named(self, name: str, body: Callable[[], str]) -> str:
        if name not in self._bodies:
            if len(self._bodies) >= MAX_NAMES:
                raise GbnfError(f"the grammar has more than {MAX_NAMES} parts")
            self._bodies[name] = None
            self._todo.append((name, body))
        return name

    def rule(self, number: int) -> str:
        """The name of an expression over lexemes, or what it is, if short."""
        while isinstance(node := self._nodes[number], Ref):
            number = self._lexed.grammar.rules[node.rule]
        match node:
            case Lexeme(body):
                return self._lexeme(body)
            case Tokens(ids):
                return (
                    f"<[{','.join(f'{a}-{b}' if a < b else str(a) for a, b in ids)}]>"
                )
            case Seq(items) if not items:
                return '""'
            case _:
                return self._named(f"r{number}", lambda: self._rule_body(number))

    def _rule_body(self, number: int) -> str:
        match self._nodes[number]:
            case Seq(items):
                return " ".join(map(self.rule, items))
            case Alt(options):
                return " | ".join(map(self.rule, options))
            case Repeat(item, least, most):
                return self.rule(item) + _times(least, most)
            case node:
                raise AssertionError(node)

    def _lexeme(self, body: int) -> str:
        terminal = self._terminal(body)
        if body not in self._lexed.nullable:
            return terminal
        # A lexeme must not be empty, so the parser decides whether there is one.
        some = self._named(f"S{body}", lambda: f"{terminal} & /(?s:.+)/")
        return self._named(f"o{body}", lambda: f"{some}?")

    def _terminal(self, number: int) -> str:
        match self._nodes[number]:
            case Chars(members):
                one = charset.character(members)
                return f"/{charset.regex(members)}/" if one is None else quoted(one)
            case Ref(rule):
                return self._terminal(self._lexed.regular[rule])
            case Seq(items) if not items:
                return '""'
            case _:
                return self._named(f"T{number}", lambda: self._terminal_body(number))

    def _terminal_body(self, number: int) -> str:
        match self._nodes[number]:
            case Seq(items):
                return " ".join(self._pieces(items))
            case Alt(options):
                return " | ".join(map(self._terminal, options))
            case Repeat(item, least, most):
                return self._terminal(item) + _times(least, most)
            case node:
                raise AssertionError(node)

    def _pieces(self, items: tuple[int, ...]) -> Iterator[str]:
        """Parts of a sequence, single characters in a row as one text."""
        text = ""
        for item in items:
            node = self._nodes[item]
            one = charset.character(node.members) if isinstance(node, Chars) else None
            if one is not None:
                text += one
                continue
            if text:
                yield quoted(text)
            text = ""
            yield self._terminal(item)
        if text:
            yield quoted(text)


def _times(least: int, most: int | None) -> str:
    match least, most:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
        case _, None:
            return f"{{{least},}}"
        case _:
            return f"{{{least},{most}}}"
