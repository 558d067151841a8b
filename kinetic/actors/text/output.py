"""The text of one generation: tokens in, pieces of output out. Pure, no threads."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kinetic.actors.text.places import Places
from kinetic.types import ContentPiece, Finish, Outcome, OutputPiece, TokenLogprob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinetic.model.chat.reply.calls import OutputParser


class StopMatcher:
    """Finds stop strings in text that comes in pieces.

    Only the tail that may still become a stop string is held back.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found: str | None = None

    def feed(self, text: str) -> str:
        """Return what is now certain; sets `found` at the first match.

        The match that is complete first wins, and of those that end together the one
        that starts first: so the answer does not depend on how the text is cut.
        """
        if not self._stops:
            return text
        text = self._held + text
        hits = [(at, s) for s in self._stops if (at := text.find(s)) >= 0]
        if hits:
            at, self.found = min(hits, key=lambda hit: (hit[0] + len(hit[1]), hit[0]))
            self._held = ""
            return text[:at]
        keep = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """Give out what was held back; the text is over."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a proper start of `stop`."""
    for n in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:n]):
            return n
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What one token, or the end, adds to an answer."""

    pieces: tuple[OutputPiece, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish: Finish | None = None
    """Set once the text itself ends the answer: a stop string, a complete call."""


class OutputText:
    """Turns a generation's tokens into pieces of output.

    bytes -> UTF-8 decoder -> output parser (reasoning, calls) -> stop strings (visible
    content only) -> pieces. Whole and streamed output are the same by construction:
    both are the concatenation of these pieces.
    """

    def __init__(
        self,
        *,
        stops: Sequence[str] = (),
        parser: OutputParser | None = None,
        min_indent: int = 0,
    ) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._matcher = StopMatcher(stops)
        self._parser = parser
        self._logprobs: list[TokenLogprob] = []
        self._n_out = 0  # bytes of content that are out
        self._places = Places()
        self._n_logged = 0  # bytes of the tokens whose log-probabilities are out
        self._indent = _IndentRule(min_indent) if min_indent > 0 else None

    def feed(self, piece: bytes, logprob: TokenLogprob | None = None) -> Output:
        """Take one token's bytes."""
        if logprob is not None:
            self._logprobs.append(logprob)
        text = self._decoder.decode(piece)
        if self._indent is not None:
            text = self._indent.feed(text)
        pieces = self._read(text)
        finish = None
        if self._matcher.found is not None:
            finish = Finish(reason=Outcome.STOP, stop_string=self._matcher.found)
        elif self._indent is not None and self._indent.broken:
            finish = Finish(reason=Outcome.LIMIT)
        elif self._parser is not None and self._parser.complete:
            finish = Finish(reason=Outcome.CALLS)
        return Output(pieces=pieces, logprobs=self._due(), finish=finish)

    def end(self, *, truncated: bool) -> Output:
        """Give out what was held back; the answer is over."""
        if self.stopped is not None:
            return Output(logprobs=self._last(cut=True))
        pieces = list(self._read(self._decoder.decode(b"", final=True)))
        rest: list[OutputPiece] = []
        if self._parser is not None:
            parsed = self._parser.finish(truncated=truncated)
            self._places.feed("", parsed)
            rest = self._visible(parsed)
        held = self._matcher.flush()
        if held and self.stopped is None:
            rest.append(ContentPiece(held))
        self._count(rest)
        return Output(
            pieces=(*pieces, *rest), logprobs=self._last(cut=self.stopped is not None)
        )

    @property
    def stopped(self) -> Finish | None:
        """The stop string that ended the text, also when found only at its end."""
        if self._matcher.found is None:
            return None
        return Finish(reason=Outcome.STOP, stop_string=self._matcher.found)

    def _read(self, text: str) -> tuple[OutputPiece, ...]:
        if not text:
            return ()
        if self._parser is None:
            out = self._matcher.feed(text)
            pieces: tuple[OutputPiece, ...] = (ContentPiece(out),) if out else ()
        else:
            parsed = self._parser.feed(text)
            self._places.feed(text, parsed)
            pieces = tuple(self._visible(parsed))
        self._count(pieces)
        return pieces

    def _visible(self, pieces: Sequence[OutputPiece]) -> list[OutputPiece]:
        """Run the stop strings over the content; what follows a match is dropped."""
        out: list[OutputPiece] = []
        for piece in pieces:
            if self._matcher.found is not None:
                break
            if isinstance(piece, ContentPiece):
                text = self._matcher.feed(piece.text)
                if text:
                    out.append(ContentPiece(text))
                continue
            # A stop string does not reach over a call or over reasoning.
            if held := self._matcher.flush():
                out.append(ContentPiece(held))
            out.append(piece)
        return out

    def _count(self, pieces: Sequence[OutputPiece]) -> None:
        for piece in pieces:
            if isinstance(piece, ContentPiece):
                self._n_out += len(piece.text.encode())

    def _reach(self) -> int:
        """How many bytes of what the model wrote are out, or left out for good."""
        if self._parser is None:
            return self._n_out
        return self._places.reach(self._n_out)

    def _due(self) -> tuple[TokenLogprob, ...]:
        """Log-probabilities of the tokens whose text is out.

        Where text is parsed, its markers never come out, so an entry goes with the
        next piece that does.
        """
        if not self._logprobs:
            return ()
        reach = self._reach()
        due = []
        while self._logprobs:
            end = self._n_logged + len(self._logprobs[0].piece)
            if end > reach:
                break
            due.append(self._logprobs.pop(0))
            self._n_logged = end
        return tuple(due)

    def _last(self, *, cut: bool) -> tuple[TokenLogprob, ...]:
        """What is left at the end; after a stop string, only what is in the text."""
        left, self._logprobs = self._logprobs, []
        if not cut:
            return tuple(left)
        reach = self._reach()
        due = []
        for entry in left:
            visible = reach - self._n_logged
            if visible <= 0:
                break
            self._n_logged += len(entry.piece)
            due.append(replace(entry, piece=entry.piece[:visible]))
        return tuple(due)


class _IndentRule:
    """Ends the text at a new line with fewer leading blanks than asked for.

    Source: llama-server's `n_indent`.
    """

    def __init__(self, least: int) -> None:
        self._least = least
        self._line: str | None = None  # blanks of a line that has only blanks so far
        self.broken = False

    def feed(self, text: str) -> str:
        out: list[str] = []
        for char in text:
            if self.broken:
                break
            if char == "\n":
                out.append((self._line or "") + char)
                self._line = ""
            elif self._line is not None and char in " \t":
                self._line += char
            elif self._line is not None and len(self._line) < self._least:
                self.broken = True
            else:
                out.append((self._line or "") + char)
                self._line = None
        return "".join(out)
