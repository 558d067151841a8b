"""Reads GBNF, the grammars of llama.cpp, as llama.cpp reads them.

Where llama.cpp's reader accepts what no text or no end can satisfy, or drops a limit
without a word, this one refuses. It keeps a stack of its own: no grammar can exhaust
Python's or the C stack.

Source: llama.cpp, grammars/README.md and src/llama-grammar.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kinetic.model.constraints import charset
from kinetic.model.constraints.gbnf.nodes import Nodes

ROOT: Final = "root"
MAX_NESTING: Final = 256
MAX_LEAST: Final = 2000
"""llama.cpp's own limit of repetitions that must be there."""
MAX_MOST: Final = 1_000_000

_SPACE = re.compile(r"(?:[ \t]+|\#[^\r\n]*)*")
_SPACE_LINES = re.compile(r"(?:[ \t\r\n]+|\#[^\r\n]*)*")
_NAME = re.compile(r"[a-zA-Z0-9-]+")
_NEWLINE = re.compile(r"\r\n?|\n")
_TOKEN = re.compile(r"(!?)<(?:\[([0-9]{1,10})\]|([^>]*))>")
_TIMES = re.compile(
    r"\{(?:[ \t]*)([0-9]{1,20})(?:[ \t]*)(?:(,)(?:[ \t]*)([0-9]{1,20})?(?:[ \t]*))?\}"
)
_PLAIN = re.compile(r'[^"\\]+')
# llama.cpp ends texts at NUL, so no class of its holds one.
_ANY = charset.without(charset.EVERYTHING, 0)
_HEX = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n"} | {c: c for c in '\\"[]-'}
_OPERATORS: dict[str, tuple[int, int | None]] = {
    "*": (0, None),
    "+": (1, None),
    "?": (0, 1),
}

TokenIds = tuple[tuple[int, int], ...]
FindTokens = Callable[[str | int, bool], TokenIds]
"""Ids of a token named by text or id; of all but it when the flag says so. Raises
GbnfError."""


class GbnfError(ValueError):
    """What is wrong with a grammar, and where."""


@dataclass(frozen=True, slots=True)
class Gbnf:
    """A grammar as read: every rule's expression by name, `root` among them."""

    nodes: Nodes
    rules: dict[str, int]


@dataclass(slots=True)
class _Group:
    """A bracket that is open: alternatives done, and the sequence being read."""

    options: list[int] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    has_last: bool = False
    """Whether the sequence's last item can be repeated."""


def parse(text: str, find_tokens: FindTokens) -> Gbnf:
    """Read a grammar.

    Raises GbnfError, with line and column, for what llama.cpp refuses, and for
    repetitions beyond `MAX_MOST` and brackets deeper than `MAX_NESTING`.
    """
    if "\0" in text:
        raise GbnfError("a NUL character cannot stand in a grammar")
    reader = _Reader(text, find_tokens)
    rules = reader.rules()
    if ROOT not in rules:
        raise GbnfError(f'there is no rule "{ROOT}"')
    for name, (rule, at) in reader.uses.items():
        if name not in rules:
            raise reader.error(f'rule "{rule}" uses "{name}", which is not defined', at)
    return Gbnf(reader.nodes, rules)


class _Reader:
    def __init__(self, text: str, find_tokens: FindTokens) -> None:
        self._text = text
        self._find_tokens = find_tokens
        self._at = 0
        self._rule = ""
        self._chars: dict[int, int] = {}
        self.nodes = Nodes()
        self.uses: dict[str, tuple[str, int]] = {}
        """Rules used: by which rule and where, first use only."""

    def error(self, message: str, at: int | None = None) -> GbnfError:
        at = self._at if at is None else at
        line = self._text.count("\n", 0, at) + 1
        column = at - (self._text.rfind("\n", 0, at) + 1) + 1
        return GbnfError(f"{message} (line {line}, column {column})")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def rules(self) -> dict[str, int]:
        """All rules; of two with one name the last counts, as in llama.cpp."""
        found: dict[str, int] = {}
        self._skip(_SPACE_LINES)
        while self._at < len(self._text):
            name = self._skip(_NAME)
            if not name:
                raise self.error("a rule's name was expected")
            self._rule = name
            self._skip(_SPACE)
            if not self._text.startswith("::=", self._at):
                raise self.error(f'"::=" was expected after "{name}"')
            self._at += 3
            self._skip(_SPACE_LINES)
            found[name] = self._body()
            if self._at < len(self._text) and not self._skip(_NEWLINE):
                raise self.error("a new line or the end was expected")
            self._skip(_SPACE_LINES)
        return found

    def _body(self) -> int:
        groups = [_Group()]
        while True:
            group = groups[-1]
            nested = len(groups) > 1
            match self._peek():
                case "(":
                    if len(groups) > MAX_NESTING:
                        message = f"brackets are nested deeper than {MAX_NESTING}"
                        raise self.error(message)
                    self._at += 1
                    groups.append(_Group())
                    self._skip(_SPACE_LINES)
                    continue
                case ")" if nested:
                    self._at += 1
                    groups.pop()
                    done = self._closed(group)
                    group, nested = groups[-1], len(groups) > 1
                    self._push(group, done)
                case "|":
                    self._at += 1
                    group.options.append(self.nodes.seq(group.items))
                    group.items, group.has_last = [], False
                    self._skip(_SPACE_LINES)
                    continue
                case "*" | "+" | "?" as operator:
                    self._at += 1
                    self._repeat(group, *_OPERATORS[operator])
                case "{":
                    self._repeat(group, *self._times())
                case '"':
                    self._literal(group)
                case "[":
                    self._class(group)
                case "<" | "!":
                    self._push(group, self._token())
                case ".":
                    self._at += 1
                    self._push(group, self.nodes.chars(_ANY))
                case _:
                    name = self._skip(_NAME)
                    if not name:
                        break
                    self.uses.setdefault(name, (self._rule, self._at - len(name)))
                    self._push(group, self.nodes.ref(name))
            self._skip(_SPACE_LINES if nested else _SPACE)
        if len(groups) > 1:
            raise self.error('")" was expected')
        return self._closed(groups[0])

    def _closed(self, group: _Group) -> int:
        return self.nodes.alt([*group.options, self.nodes.seq(group.items)])

    @staticmethod
    def _push(group: _Group, item: int) -> None:
        group.items.append(item)
        group.has_last = True

    def _repeat(self, group: _Group, least: int, most: int | None) -> None:
        if not group.has_last:
            raise self.error("there is nothing to repeat")
        group.items[-1] = self.nodes.repeat(group.items[-1], least, most)

    def _times(self) -> tuple[int, int | None]:
        start = self._at
        found = _TIMES.match(self._text, self._at)
        if found is None:
            raise self.error("{m}, {m,} or {m,n} was expected")
        self._at = found.end()
        least = int(found[1])
        most = int(found[3]) if found[3] else None if found[2] else least
        if least > MAX_LEAST:
            message = f"at least {least} repetitions: the limit is {MAX_LEAST}"
            raise self.error(message, start)
        if most is not None and most > MAX_MOST:
            message = f"at most {most} repetitions: the limit is {MAX_MOST}"
            raise self.error(message, start)
        if most is not None and most < least:
            raise self.error(f"at least {least} but at most {most} repetitions", start)
        return least, most

    def _literal(self, group: _Group) -> None:
        """Push a text in quotes as one item; an empty one is no item."""
        self._at += 1
        points: list[int] = []
        while self._peek() != '"':
            points.extend(map(ord, self._skip(_PLAIN)))
            if self._peek() == "\\":
                points.append(self._escape())
            elif not self._peek():
                raise self.error('the closing " of a text is missing')
        self._at += 1
        if 0 in points:
            raise self.error("a NUL character cannot be matched")
        if points:
            self._push(group, self.nodes.seq(map(self._char, points)))
        else:
            group.has_last = False

    def _char(self, point: int) -> int:
        if point not in self._chars:
            self._chars[point] = self.nodes.chars(charset.ranges([(point, point)]))
        return self._chars[point]

    def _class(self, group: _Group) -> None:
        start = self._at
        self._at += 1
        negated = self._peek() == "^"
        self._at += negated
        pairs: list[tuple[int, int]] = []
        while self._peek() != "]":
            low = high = self._class_char(start)
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                high = self._class_char(start)
            pairs.append((low, high))
        self._at += 1
        if not pairs:
            raise self.error("a class of no characters", start)
        members = charset.ranges(pairs)
        members = charset.complement(members) if negated else members
        members = charset.without(members, 0)
        if not members:
            raise self.error("a class that no character is in", start)
        self._push(group, self.nodes.chars(members))

    def _class_char(self, start: int) -> int:
        if not self._peek():
            raise self.error("the closing ] of a class is missing", start)
        if self._peek() == "\\":
            return self._escape()
        self._at += 1
        return ord(self._text[self._at - 1])

    def _escape(self) -> int:
        kind = self._text[self._at + 1 : self._at + 2]
        if kind in _HEX:
            end = self._at + 2 + _HEX[kind]
            digits = self._text[self._at + 2 : end]
            if not re.fullmatch(rf"[0-9a-fA-F]{{{_HEX[kind]}}}", digits):
                message = (
                    rf"\{kind} must be followed by {_HEX[kind]} hexadecimal digits"
                )
                raise self.error(message)
            point = int(digits, 16)
            if not charset.ranges([(point, point)]):
                raise self.error(f"U+{point:04X} is no character")
            self._at = end
            return point
        if kind not in _ESCAPES or not kind:
            raise self.error(rf"unknown escape \{kind}")
        self._at += 2
        return ord(_ESCAPES[kind])

    def _token(self) -> int:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise self.error("<[id]> or <text of a token> was expected")
        which = int(found[2]) if found[2] else f"<{found[3]}>"
        try:
            ids = self._find_tokens(which, bool(found[1]))
        except GbnfError as error:
            raise self.error(str(error)) from None
        self._at = found.end()
        return self.nodes.tokens(ids)
