"""Finds in running text the markers that may open something, where they count."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kinetic.model.chat.reply.lines import Lines
from kinetic.model.chat.reply.source import BLANKS, Reading, Source

TICKS = re.compile(r"`+")
FENCED = re.compile(r"[^`]+")
QUOTING = frozenset(" \t\"'`([{<*_")
"""Behind these a tag is spoken of, not used."""


class Where(enum.Enum):
    """Where in a text an opener is one; in a code fence none is."""

    ANYWHERE = enum.auto()
    UNQUOTED = enum.auto()
    """At the start of a line, or right after text."""
    LINE_START = enum.auto()
    TEXT_START = enum.auto()
    """Where there was nothing but whitespace before."""


@dataclass(frozen=True, slots=True)
class Opener:
    """Text that may open something."""

    text: str
    where: Where = Where.ANYWHERE

    def counts(self, lines: Lines) -> bool:
        """True if it is an opener at this place, which is in no fence."""
        match self.where:
            case Where.ANYWHERE:
                return True
            case Where.UNQUOTED:
                return lines.at_start or lines.last not in QUOTING
            case Where.LINE_START:
                return lines.at_start
            case Where.TEXT_START:
                return lines.fresh


class OpenerSet:
    """A set of openers, ready to be looked for."""

    def __init__(self, openers: Iterable[Opener]) -> None:
        self._by_lead: dict[str, list[Opener]] = {}
        for opener in openers:
            self._by_lead.setdefault(opener.text[0], []).append(opener)
        known = [opener for found in self._by_lead.values() for opener in found]
        self._line_leads = frozenset(
            opener.text[0] for opener in known if opener.where is Where.LINE_START
        )
        self._plain = _plain_run(
            [
                opener.text
                for opener in known
                if opener.where in (Where.ANYWHERE, Where.UNQUOTED)
            ],
            self._line_leads,
        )

    def find(
        self, source: Source, lines: Lines, put: Callable[[str], None]
    ) -> Reading[str | None]:
        """Reads text up to the next opener that counts.

        Args:
            source: The text.
            lines: Where in it the source stands; `put` has to keep it up.
            put: Takes the text that is passed over, as it comes.

        Returns:
            The opener, which is not read; None at the end.
        """
        while True:
            if not (lines.at_start and source.now in self._line_leads):
                put(source.run(self._run(lines)))
            char = source.now
            if not char:
                if not (yield from source.peek()):
                    return None
                continue
            options = self._options(lines, char)
            if options:
                found = yield from source.choose(options)
                if found is not None:
                    return found
            put(source.run(BLANKS) or source.run(TICKS) or source.take(1))

    def _run(self, lines: Lines) -> re.Pattern[str]:
        if lines.fenced:
            return FENCED
        return BLANKS if lines.fresh else self._plain

    def _options(self, lines: Lines, char: str) -> list[str]:
        if lines.fenced:
            return []
        found = self._by_lead.get(char, ())
        return [opener.text for opener in found if opener.counts(lines)]


def _plain_run(markers: Iterable[str], line_leads: Iterable[str]) -> re.Pattern[str]:
    """Matches text in which no marker begins: the bulk of it, in one step.

    Two characters decide, so that a lone `<` does not stop the run; one whose second
    character has not come does. A newline stops it if something that counts at a line's
    start may come after.
    """
    seconds: dict[str, set[str]] = {}
    for marker in markers:
        seconds.setdefault(marker[0], set()).add(marker[1:2])
    leads = "".join(sorted(seconds))
    at_lines = "".join(sorted(line_leads))
    stops = leads + ("\n" if at_lines else "")
    parts = [f"[^{re.escape(stops)}]+" if stops else "(?s:.)+"]
    parts += [
        f"{re.escape(lead)}(?=[^{re.escape(''.join(sorted(following)))}])"
        for lead, following in seconds.items()
        if "" not in following
    ]
    if at_lines:
        parts.append(rf"\n(?=[^\s{re.escape(at_lines)}])")
    return re.compile(f"(?:{'|'.join(parts)})+")
