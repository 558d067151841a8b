"""How a text may go on, guessed from the text itself. Pure: no threads, no clock.

Answers often repeat what their prompt or they themselves have said: code that is
edited, tables, quotes, names. The guess is what followed the last tokens when they
stood in the text before; the longer the match, the likelier it is right.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

SHORTEST: Final = 3
"""Tokens that must agree for a guess; two agree by chance too often to be worth it."""

LONGEST: Final = 32
"""Tokens that are compared at most: beyond, a longer match says nothing more."""

_MOST_PLACES = 8  # earlier places that are compared, the newest first
_MOST_BITS = 17
_FACTORS = (0x2545F491, 0x1B873593, 0x19D699A5)


class RepeatIndex:
    """Finds where a text's last tokens stood before; grows with the text.

    A token costs the same however long the text is: places are chained by the hash of
    their last three tokens, and while a guess comes true the next one is read on from
    there without a look-up. Memory is bounded: 8 bytes a token and one table.
    """

    def __init__(self, tokens: Sequence[int], *, capacity: int) -> None:
        """Take the text so far.

        Args:
            tokens: Any ids that fit 32 bits; those that are no text may be negative.
            capacity: About how long the text can become; sizes the table.
        """
        bits = min(max((2 * capacity).bit_length(), 8), _MOST_BITS)
        self._mask = (1 << bits) - 1
        self._tokens = array("i", tokens)
        # The newest place of each hash, and for each place the one before it; a place
        # is the position of the last of its three tokens, -1 is none.
        self._newest = array("i", [-1]) * (1 << bits)
        self._before = array("i", [-1]) * len(tokens)
        self._enter_all()
        self.n_matched = 0
        """How many of the last tokens stood before the guessed one too; 0: no guess."""
        self._next = -1  # position of the guessed token
        self._find()

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def guess(self) -> int | None:
        """The token that is likeliest to come next; None where nothing repeats."""
        return self._tokens[self._next] if self.n_matched else None

    def guesses(self, count: int) -> list[int]:
        """Up to `count` tokens that may come next, in order."""
        if not self.n_matched:
            return []
        found = self._tokens[self._next : self._next + count].tolist()
        # A text that repeats itself right now goes on with its own guess.
        period = len(found)
        while len(found) < count:
            found.append(found[len(found) - period])
        return found

    def append(self, token: int) -> None:
        """Go on after a token."""
        came_true = self.guess == token
        tokens = self._tokens
        tokens.append(token)
        place = len(tokens) - 1
        self._before.append(-1)
        if place >= SHORTEST - 1:
            a, b, c = _FACTORS
            mixed = tokens[place - 2] * a + tokens[place - 1] * b + token * c
            key = (mixed ^ mixed >> 20) & self._mask
            self._before[place] = self._newest[key]
            self._newest[key] = place
        if came_true:
            self._next += 1
            self.n_matched = min(self.n_matched + 1, LONGEST)
        else:
            self._find()

    def _enter_all(self) -> None:
        """Enter every place of the text at once: 2 ms for 100,000 tokens."""
        if len(self._tokens) < SHORTEST:
            return
        ids = np.array(self._tokens, np.int64)
        a, b, c = _FACTORS
        mixed = ids[:-2] * a + ids[1:-1] * b + ids[2:] * c
        keys = (mixed ^ mixed >> 20) & self._mask
        places = np.arange(2, len(ids), dtype=np.int32)
        order = np.argsort(keys, kind="stable")
        keys, places = keys[order], places[order]
        is_last = np.append(keys[1:] != keys[:-1], True)
        _view(self._newest)[keys[is_last]] = places[is_last]
        follows = ~is_last[:-1]
        _view(self._before)[places[1:][follows]] = places[:-1][follows]

    def _find(self) -> None:
        """Look the last tokens up; the longest match wins, the newest of equals."""
        self.n_matched, self._next = 0, -1
        last = len(self._tokens) - 1
        if last < SHORTEST:
            return
        place = self._before[last]
        for _ in range(_MOST_PLACES):
            if place < 0:
                return
            n = self._n_equal(place, last)
            if n >= SHORTEST and n > self.n_matched:
                self.n_matched, self._next = n, place + 1
                if n == LONGEST:
                    return
            place = self._before[place]

    def _n_equal(self, place: int, last: int) -> int:
        """How many tokens up to `place` equal those up to `last`."""
        tokens = self._tokens
        most = min(LONGEST, place + 1)
        n = 0
        while n < most and tokens[place - n] == tokens[last - n]:
            n += 1
        return n


def _view(values: array[int]) -> npt.NDArray[np.int32]:
    """An array's memory; gone before the array grows, which it could not otherwise."""
    return np.frombuffer(values, np.int32)
