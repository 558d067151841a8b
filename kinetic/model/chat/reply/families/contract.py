"""What the reader of one family's calls has to offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from kinetic.model.chat.reply.arguments import FoundCall, Tools
from kinetic.model.chat.reply.openers import Opener
from kinetic.model.chat.reply.source import Reading, Source, skip_blanks

AT_PAYLOAD = ""
"""The opener of a reply held to calls: its first marker may have been left out."""


class CallSyntax(ABC):
    """How one family writes calls.

    Readers raise `Mismatch` as soon as the text cannot be a call of a known tool; the
    scanner then goes back, and the text is ordinary text. They hold no state, so that
    one object serves every generation.
    """

    openers: ClassVar[tuple[Opener, ...]]
    markers: ClassVar[tuple[str, ...]]
    """Texts that must be visible when the model writes them as one token."""

    @abstractmethod
    def read(
        self, source: Source, tools: Tools, opener: str
    ) -> Reading[list[FoundCall]]:
        """Reads the calls after an opener, up to where they are complete.

        Args:
            source: The text, at the opener.
            tools: The functions that may be called.
            opener: The opener's text, or AT_PAYLOAD.

        Raises:
            Mismatch: There is no call.
        """

    def read_more(
        self, source: Source, tools: Tools, opener: str
    ) -> Reading[list[FoundCall]]:
        """Reads what may stand after calls: a closing tag, or more calls in it.

        Returns:
            The further calls, after which this is asked again; empty at the end.

        Raises:
            Mismatch: There is nothing that belongs to the calls.
        """
        del source, tools, opener
        yield from ()
        return []


def read_closer(source: Source, closer: str) -> Reading[bool]:
    """Reads whitespace and a closing tag.

    Returns:
        False if something else comes, which is then not read, whitespace aside.
    """
    yield from skip_blanks(source)
    return (yield from source.accept(closer)) is not None
