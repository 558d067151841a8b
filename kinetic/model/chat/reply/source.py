"""Text that arrives in pieces, read as if it were all there.

The readers of this folder are generators: they `yield` when what they need has not
arrived, and are resumed after more was fed or the end was told. A decision is made only
from characters that are there, so it cannot depend on where the text was cut, and a
whole text takes the same path as a streamed one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator
from typing import TypeVar

T = TypeVar("T")

Reading = Generator[None, None, T]
"""A reader: yields while it waits for text, returns what it read."""

ANYTHING = re.compile(r"(?s:.+)")
BLANKS = re.compile(r"\s+")


class Mismatch(Exception):
    """The text is not what the reader reads; an expected outcome, not an error."""


class Source:
    """The text of one generation, read forward, with a way back to one mark.

    Offsets count characters from the start of the text. What has been read is let go,
    so feeding costs the new piece and what waits, never the whole text; while a mark is
    set, what was read since is kept.
    """

    __slots__ = (
        "_base",
        "_ended",
        "_kept",
        "_kept_from",
        "_limit",
        "_n_marks",
        "_pos",
        "_stop",
        "_stopped",
        "_window",
        "truncated",
    )

    def __init__(self) -> None:
        self._window = ""
        self._base = 0  # offset of the window's first character
        self._pos = 0  # next character, an index into the window
        self._limit = 0  # how far of the window may be read
        self._kept: list[str] = []  # read since the mark, and no longer in the window
        self._kept_from = 0  # the outermost mark
        self._n_marks = 0
        self._stop: str | None = None
        self._stopped = False
        self._ended = False
        self.truncated = False
        """The end came from a limit, not from the model."""

    def feed(self, text: str) -> None:
        """Adds text after what is there."""
        pos, waiting = self._pos, len(self._window) - self._pos
        if self._n_marks:
            self._kept.append(self._window[max(self._kept_from - self._base, 0) : pos])
        self._window = self._window[pos:] + text
        self._base += pos
        self._pos = 0
        self._limit -= pos
        self._find_limit(waiting)

    def end(self, *, truncated: bool) -> None:
        """Tells that nothing more will come."""
        self._ended = True
        self.truncated = truncated
        self._find_limit(len(self._window))

    def stop_before(self, text: str | None) -> None:
        """Makes the next occurrence of `text` the end for every reader; None: no more.

        A tail that may become `text` is kept from the readers until that is known.
        """
        self._stop = text
        self._stopped = False
        self._find_limit(self._pos)

    def _find_limit(self, searched: int) -> None:
        """Sets how far may be read; up to `searched` there is no whole stop text."""
        if self._stopped:
            return
        self._limit = len(self._window)
        if self._stop is None:
            return
        start = max(self._pos, searched - len(self._stop) + 1)
        found = self._window.find(self._stop, start)
        if found >= 0:
            self._limit, self._stopped = found, True
        elif not self._ended:
            self._limit -= overlap(self._window[start:], self._stop)

    @property
    def offset(self) -> int:
        """Where the next character stands in the whole text."""
        return self._base + self._pos

    @property
    def exhausted(self) -> bool:
        """True if everything up to the end, or the stop text, was read."""
        return self._pos >= self._limit and (self._ended or self._stopped)

    @property
    def stopped(self) -> bool:
        """True if the stop text has arrived: it is what ends the text."""
        return self._stopped

    @property
    def marked(self) -> bool:
        """True while something is read that may have to be given back."""
        return self._n_marks > 0

    @property
    def now(self) -> str:
        """The next character, empty if none is there yet."""
        return self._window[self._pos] if self._pos < self._limit else ""

    def run(self, pattern: re.Pattern[str]) -> str:
        """Reads what matches of the text that is there; may be nothing."""
        match = pattern.match(self._window, self._pos, self._limit)
        if match is None:
            return ""
        self._pos = match.end()
        return match[0]

    def take(self, n_chars: int) -> str:
        """Reads up to `n_chars` of the text that is there."""
        end = min(self._pos + n_chars, self._limit)
        text = self._window[self._pos : end]
        self._pos = end
        return text

    def peek(self) -> Reading[str]:
        """Waits for the next character; empty at the end."""
        while self._pos >= self._limit:
            if self._ended or self._stopped:
                return ""
            yield
        return self._window[self._pos]

    def read_run(self, pattern: re.Pattern[str]) -> Reading[str]:
        """Reads a run of single characters (`[...]+`), waiting for where it ends."""
        parts = []
        while True:
            parts.append(self.run(pattern))
            if self._pos < self._limit or self._ended or self._stopped:
                return "".join(parts)
            yield

    def choose(self, options: Collection[str]) -> Reading[str | None]:
        """Waits until it is known which option comes next, the longest; reads none."""
        longest = max(map(len, options), default=0)
        while True:
            here = self._window[self._pos : min(self._pos + longest, self._limit)]
            final = self._ended or self._stopped or len(here) == longest
            if final or not any(
                len(option) > len(here) and option.startswith(here)
                for option in options
            ):
                fitting = [option for option in options if here.startswith(option)]
                return max(fitting, key=len, default=None)
            yield

    def accept(self, *options: str) -> Reading[str | None]:
        """Reads the longest option that comes next, if one does."""
        found = yield from self.choose(options)
        if found is not None:
            self._pos += len(found)
        return found

    def expect(self, *options: str) -> Reading[str]:
        """As `accept`.

        Raises:
            Mismatch: None of the options comes next.
        """
        found = yield from self.accept(*options)
        if found is None:
            raise Mismatch
        return found

    def mark(self) -> int:
        """Keeps what is read from here on, for `rewind`, until its `release`."""
        if not self._n_marks:
            self._kept_from = self.offset
        self._n_marks += 1
        return self.offset

    def rewind(self, offset: int) -> None:
        """Goes back to a mark: what was read since is unread."""
        back: list[str] = []
        base = self._base
        while offset < base:
            back.append(self._kept.pop())
            base -= len(back[-1])
        if back:
            self._window = "".join([*reversed(back), self._window])
            self._limit += self._base - base
            self._base = base
        self._pos = offset - base

    def release(self) -> None:
        """Lets go of the innermost mark."""
        self._n_marks -= 1
        if not self._n_marks:
            self._kept.clear()


def overlap(text: str, stop: str) -> int:
    """How long the end of `text` is that may be the beginning of `stop`."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0


def skip_blanks(source: Source) -> Reading[str]:
    """Reads over whitespace and waits for what follows: its first character."""
    char = source.now or (yield from source.peek())
    if char.isspace():
        yield from source.read_run(BLANKS)
        char = yield from source.peek()
    return char
