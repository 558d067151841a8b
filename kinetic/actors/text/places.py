"""Where an answer's text stands in what the model wrote. Pure, no threads."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kinetic.types import CallPiece, ContentPiece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinetic.types import OutputPiece


class Places:
    """Finds how far into the raw text an answer's visible text reaches.

    A parser gives out what the model wrote without markers and some blanks, in order;
    stop strings then hold back or cut the end of the content. All counts are bytes of
    UTF-8.
    """

    def __init__(self) -> None:
        self._pending = ""  # raw text that no piece was found in yet
        self._n_raw = 0  # raw bytes before it
        self._n_content = 0  # content bytes given by the parser
        self._spans: deque[tuple[int, int]] = deque()  # content start, raw start
        self._n_other = 0  # raw bytes up to the end of the last reasoning

    def feed(self, text: str, pieces: Sequence[OutputPiece]) -> None:
        """Take raw text and what the parser gave out for it."""
        self._pending += text
        for piece in pieces:
            if not isinstance(piece, CallPiece):
                self._find(piece.text, is_content=isinstance(piece, ContentPiece))

    def _find(self, text: str, *, is_content: bool) -> None:
        at = max(self._pending.find(text), 0)
        start = self._n_raw + len(self._pending[:at].encode())
        size = len(text.encode())
        self._pending = self._pending[at + len(text) :]
        self._n_raw = start + size
        if is_content:
            self._spans.append((self._n_content, start))
            self._n_content += size
        else:
            self._n_other = self._n_raw

    def reach(self, n_content: int) -> int:
        """Raw bytes up to where the first `n_content` bytes of content end."""
        while len(self._spans) > 1 and self._spans[1][0] < n_content:
            self._spans.popleft()
        if not self._spans or self._spans[0][0] >= n_content:
            return self._n_other
        content_start, raw_start = self._spans[0]
        return max(raw_start + n_content - content_start, self._n_other)
