"""Where in its Markdown a text stands: at a line's start, in a code fence."""

from __future__ import annotations

FENCE = "```"
INDENT = " \t\r\f\v"


class Lines:
    """Follows text as it is read, piece by piece, with any cut."""

    __slots__ = ("_head", "fenced", "fresh", "last")

    def __init__(self) -> None:
        self._head: str | None = ""  # the line so far, until it is known what it is
        self.fenced = False
        """An odd number of lines so far begin with a fence."""
        self.fresh = True
        """There was nothing but whitespace yet."""
        self.last = ""
        """The last character."""

    @property
    def at_start(self) -> bool:
        """True if the line holds nothing but indentation so far."""
        return self._head == ""

    def add(self, text: str) -> None:
        """Goes on after `text`."""
        if not text:
            return
        first, *more = text.split("\n")
        self._grow(first)
        for line in more:
            self._head = ""
            self._grow(line)
        self.last = text[-1]
        self.fresh = self.fresh and text.isspace()

    def _grow(self, part: str) -> None:
        if self._head is None:
            return
        head = (self._head + part).lstrip(INDENT)
        if head.startswith(FENCE):
            self.fenced = not self.fenced
            self._head = None
        elif head.strip("`"):
            self._head = None
        else:
            self._head = head
