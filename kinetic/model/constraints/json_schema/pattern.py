r"""Rewrites `pattern`s so that every dialect of regular expressions reads them alike.

JSON Schema means ECMAScript's, llguidance reads Rust's, and the validators that clients
run read their own language's: `[a&&b]`, `[[:alpha:]]`, `\w`, `\s` or `.` differ among
them without a word. Rewritten, a pattern matches what it matches in all of them: where
they differ, a class is taken for what they agree on.

Source: ECMA-262, chapter 22.2.1; the Rust crate regex's syntax; Python's re.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kinetic.model.constraints import charset
from kinetic.model.constraints.charset import Ranges

MAX_LENGTH: Final = 2000
MAX_NESTING: Final = 50
MAX_TIMES: Final = 10_000

_DIGITS: Final = "0-9"
_WORD: Final = "0-9A-Za-z_"
_BLANKS: Final = (
    r"\x{9}-\x{d}\x{20}\x{a0}\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
)
_ANY_BLANKS: Final = rf"{_BLANKS}\x{{1c}}-\x{{1f}}\x{{85}}\x{{feff}}"
_CLASSES: Final = {
    # What all agree on, and what any of them may mean.
    "d": (_DIGITS, r"\p{Nd}"),
    "D": (r"[^\p{Nd}]", f"[^{_DIGITS}]"),
    "w": (_WORD, r"\w\p{N}"),
    "W": (r"[^\w\p{N}]", f"[^{_WORD}]"),
    "s": (_BLANKS, _ANY_BLANKS),
    "S": (f"[^{_ANY_BLANKS}]", f"[^{_BLANKS}]"),
}
_CONTROLS: Final = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}
_DOT: Final = r"[^\x{a}\x{d}\x{2028}\x{2029}]"
_PROPERTY = re.compile(r"\{[A-Za-z_]+(?:=[A-Za-z_]+)?\}")
_TIMES = re.compile(r"\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\}")
_CODES = (
    re.compile(r"x([0-9a-fA-F]{2})"),
    re.compile(r"u\{([0-9a-fA-F]{1,6})\}"),
    re.compile(r"u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE),
    re.compile(r"u([0-9a-fA-F]{4})"),
)
_WRITABLE: Final = charset.complement(
    charset.ranges([(0, 7), (11, 11), (14, 31), (127, 127)])
)
_GROUP = re.compile(r"\((?:\?(?:(:)|P?<([A-Za-z_]\w*)>|([is]+):))?")
_FLAGS = re.compile(r"\(\?([is]+)\)")


class PatternError(ValueError):
    """Why a pattern cannot be used."""


def rewritten(pattern: str) -> str:
    """The pattern in unmistakable syntax; what it matches is looked for anywhere.

    Raises PatternError for what is no regular expression, or is one in some dialects
    only: look-around, back-references, word boundaries.
    """
    if len(pattern) > MAX_LENGTH:
        raise PatternError(f"it is longer than {MAX_LENGTH} characters")
    return _Reader(pattern).all()


@dataclass(slots=True)
class _Reader:
    pattern: str
    at: int = 0
    dot: str = _DOT

    def all(self) -> str:
        flags = _FLAGS.match(self.pattern)
        prefix = ""
        if flags is not None:
            self.at = flags.end()
            prefix, self.dot = self._flagged(flags[1])
        out: list[str] = []
        dots: list[str] = []
        can_repeat = False
        while self.at < len(self.pattern):
            character = self.pattern[self.at]
            match character:
                case "(":
                    if len(dots) >= MAX_NESTING:
                        raise PatternError(f"it nests deeper than {MAX_NESTING} groups")
                    dots.append(self.dot)
                    out.append(self._group())
                    can_repeat = False
                case ")":
                    if not dots:
                        raise PatternError("a ) has no (")
                    self.dot = dots.pop()
                    self.at += 1
                    out.append(")")
                    can_repeat = True
                case "|" | "^" | "$":
                    self.at += 1
                    out.append(character)
                    can_repeat = False
                case "*" | "+" | "?" | "{" if (times := self._times()) is not None:
                    if not can_repeat:
                        raise PatternError(f"nothing stands before {times}")
                    out.append(times)
                    can_repeat = False
                case _:
                    out.append(self._one())
                    can_repeat = True
        if dots:
            raise PatternError("a ( is not closed")
        return f"(?{prefix}:{''.join(out)})" if prefix else "".join(out)

    @staticmethod
    def _flagged(flags: str) -> tuple[str, str]:
        dot = "(?s:.)" if "s" in flags else _DOT
        return "i" if "i" in flags else "", dot

    def _group(self) -> str:
        found = _GROUP.match(self.pattern, self.at)
        if found is None or self.pattern.startswith("?", found.end()):
            kind = self.pattern[self.at : self.at + 4]
            raise PatternError(
                f"{kind}…) is not supported: it looks around or sets modes"
            )
        self.at = found.end()
        if found[3] is None:
            return "(?:"
        prefix, self.dot = self._flagged(found[3])
        return f"(?{prefix}:"

    def _times(self) -> str | None:
        """A repetition, without the mark that only says which match is wanted."""
        character = self.pattern[self.at]
        if character == "{":
            found = _TIMES.match(self.pattern, self.at)
            if found is None:
                if re.match(r"\{,[0-9]", self.pattern[self.at :]):
                    raise PatternError(
                        "{,n} means different things to different readers"
                    )
                return None
            times = found[0]
            most = int(found[3]) if found[3] else None
            if int(found[1]) > MAX_TIMES or (most is not None and most > MAX_TIMES):
                raise PatternError(f"{times} is more than {MAX_TIMES} repetitions")
            if most is not None and most < int(found[1]):
                raise PatternError(f"{times} is out of order")
            self.at = found.end()
        else:
            times = character
            self.at += 1
        mark = self.pattern[self.at : self.at + 1]
        if mark == "?":
            self.at += 1
        elif mark in {"*", "+"}:
            raise PatternError(f"{times}{mark} repeats a repetition")
        return times

    def _one(self) -> str:
        character = self.pattern[self.at]
        if character == ".":
            self.at += 1
            return self.dot
        if character == "[":
            return self._class()
        if character == "\\":
            escape = self._escape()
            if isinstance(escape, int):
                return _spelled(_point(escape))
            return f"[{escape[0]}]"
        self.at += 1
        return _spelled(_point(ord(character)))

    def _class(self) -> str:
        start = self.at
        self.at += 1
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        pairs: list[tuple[int, int]] = []
        texts: list[str] = []
        while not self.pattern.startswith("]", self.at):
            low = self._member(start, negated=negated)
            if isinstance(low, str):
                texts.append(low)
                continue
            high = low
            rest = self.pattern[self.at : self.at + 2]
            if rest[:1] == "-" and rest[1:] not in {"", "]"}:
                self.at += 1
                end = self._member(start, negated=negated)
                if isinstance(end, str):
                    # "[a-\d]": a dash between what is no range is a dash.
                    texts.append(end)
                    pairs += [(low, low), (ord("-"), ord("-"))]
                    continue
                high = end
                if high < low:
                    raise PatternError("a range in a class is out of order")
            pairs.append((low, high))
        self.at += 1
        members = charset.ranges(pairs)
        if not texts:
            members = charset.complement(members) if negated else members
            if not members:
                raise PatternError("a class that no character is in")
            return _spelled(members)
        body = charset.class_body(members) + "".join(texts)
        return f"[^{body}]" if negated else f"[{body}]"

    def _member(self, start: int, *, negated: bool) -> int | str:
        if self.at >= len(self.pattern):
            raise PatternError(f"the class {self.pattern[start:][:20]} is not closed")
        if self.pattern[self.at] != "\\":
            self.at += 1
            return ord(self.pattern[self.at - 1])
        if self.pattern.startswith(r"\b", self.at):
            self.at += 2
            return 8
        escape = self._escape()
        return escape if isinstance(escape, int) else escape[negated]

    def _escape(self) -> int | tuple[str, str]:
        """A code point, or a class: what is sure to be in it, and what may be."""
        kind = self.pattern[self.at + 1 : self.at + 2]
        for code in _CODES:
            found = code.match(self.pattern, self.at + 1)
            if found is not None:
                self.at = found.end()
                return _code_point(found)
        self.at += 2
        if kind in _CLASSES:
            return _CLASSES[kind]
        if kind in {"p", "P"}:
            found = _PROPERTY.match(self.pattern, self.at)
            if found is None:
                raise PatternError(
                    rf"\{kind} must be followed by {{a Unicode property}}"
                )
            self.at = found.end()
            return (rf"\{kind}{found[0]}",) * 2
        if kind == "0" and self.pattern[self.at : self.at + 1].isdigit():
            raise PatternError("octal escapes are not supported")
        if kind in _CONTROLS:
            return _CONTROLS[kind]
        if kind == "c" and re.match(r"[A-Za-z]", self.pattern[self.at :]):
            self.at += 1
            return ord(self.pattern[self.at - 1]) % 32
        if not kind or kind.isalnum() or kind == "_":
            raise PatternError(rf"\{kind} is not supported")
        return ord(kind)


def _spelled(members: Ranges) -> str:
    """A class for the set, of which llguidance would leave out what strings cannot be.

    Left out alone, the characters around it would be joined.
    """
    if not charset.overlap(members, _WRITABLE):
        raise PatternError(f"U+{members[0][0]:04X} cannot be generated in a string")
    return charset.regex(members)


def _point(code: int) -> Ranges:
    members = charset.ranges([(code, code)])
    if not members:
        raise PatternError(f"U+{code:04X} is no character")
    return members


def _code_point(found: re.Match[str]) -> int:
    if found.re.groups > 1:
        high, low = int(found[1], 16), int(found[2], 16)
        return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
    code = int(found[1], 16)
    if code > charset.LAST:
        raise PatternError(f"U+{code:X} is no character")
    return code
