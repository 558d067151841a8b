"""From the events of an answer to Ollama's JSON objects. Pure: time is passed in.

Every object carries the answer's text, if only an empty one; clients read it without
looking. The last one has `done` true and the counts. Nothing is ever null.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kinetic.actors.messages import Delta
from kinetic.types import CallPiece, ContentPiece, Outcome, ReasoningPiece

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from kinetic.actors.messages import Finished
    from kinetic.types import OutputPiece, TokenLogprob

JsonObject = dict[str, Any]

_NS_PER_S = 1_000_000_000


@dataclass(slots=True)
class Part:
    """What one line tells: a run of one kind of output."""

    content: str = ""
    thinking: str = ""
    calls: tuple[CallPiece, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


class Shape(Protocol):
    """Where a route's objects hold the output."""

    def __call__(self, part: Part) -> JsonObject:
        """The keys that are the route's own."""


def chat_shape(part: Part) -> JsonObject:
    """/api/chat: a message."""
    message: JsonObject = {"role": "assistant", "content": part.content}
    if part.thinking:
        message["thinking"] = part.thinking
    if part.calls:
        message["tool_calls"] = [_call(piece) for piece in part.calls]
    return {"message": message}


def generate_shape(part: Part) -> JsonObject:
    """/api/generate: text."""
    found: JsonObject = {"response": part.content}
    if part.thinking:
        found["thinking"] = part.thinking
    return found


class Renderer:
    """Writes the objects of one answer.

    Args:
        shape: The route's.
        model: The model's name as the client wrote it.
        n_logprobs: Alternatives that were asked for; None: no log-probabilities.
    """

    def __init__(self, shape: Shape, model: str, n_logprobs: int | None = None) -> None:
        self._shape = shape
        self._model = model
        self._n_logprobs = n_logprobs

    def lines(self, event: Delta, now: datetime) -> list[JsonObject]:
        """The objects that an event adds to a stream; none where nothing is out yet."""
        return [self._object(part, now, done=False) for part in parts_of([event])]

    def last_line(self, finished: Finished, now: datetime) -> JsonObject:
        """The object that ends a stream."""
        return {**self._object(Part(), now, done=True), **_end(finished)}

    def whole(
        self, events: Sequence[Delta], finished: Finished, now: datetime
    ) -> JsonObject:
        """The one object of an answer that is not streamed."""
        parts = parts_of(events)
        part = Part(
            content="".join(p.content for p in parts),
            thinking="".join(p.thinking for p in parts),
            calls=tuple(call for p in parts for call in p.calls),
            logprobs=tuple(entry for p in parts for entry in p.logprobs),
        )
        return {**self._object(part, now, done=True), **_end(finished)}

    def loaded(self, now: datetime, *, unloads: bool) -> JsonObject:
        """The answer to a request that asks for no text."""
        reason = "unload" if unloads else "load"
        return {**self._object(Part(), now, done=True), "done_reason": reason}

    def _object(self, part: Part, now: datetime, *, done: bool) -> JsonObject:
        found = {
            "model": self._model,
            "created_at": utc_time(now),
            **self._shape(part),
            "done": done,
        }
        if part.logprobs:
            found["logprobs"] = [self._logprob(entry) for entry in part.logprobs]
        return found

    def _logprob(self, entry: TokenLogprob) -> JsonObject:
        found = _token(entry.piece, entry.logprob)
        if self._n_logprobs:
            found["top_logprobs"] = [_token(piece, p) for _, piece, p in entry.top]
        return found


def parts_of(events: Iterable[Delta]) -> list[Part]:
    """Runs of one kind of output, each event's apart; log-probabilities go first.

    An event that has log-probabilities and no text makes a part of its own.
    """
    parts: list[Part] = []
    for event in events:
        found: list[Part] = []
        for piece in event.pieces:
            _add(found, piece)
        if event.logprobs:
            if not found:
                found.append(Part())
            found[0].logprobs = event.logprobs
        parts += found
    return parts


def _add(parts: list[Part], piece: OutputPiece) -> None:
    last = parts[-1] if parts else None
    match piece:
        case ContentPiece(text) if last is not None and last.content:
            last.content += text
        case ContentPiece(text):
            parts.append(Part(content=text))
        case ReasoningPiece(text) if last is not None and last.thinking:
            last.thinking += text
        case ReasoningPiece(text):
            parts.append(Part(thinking=text))
        case CallPiece() if last is not None and last.calls:
            last.calls += (piece,)
        case CallPiece():
            parts.append(Part(calls=(piece,)))


def _call(piece: CallPiece) -> JsonObject:
    """A call, its arguments as an object with the model's order of keys."""
    return {
        "id": piece.call.id,
        "function": {
            "index": piece.index,
            "name": piece.call.name,
            "arguments": json.loads(piece.call.arguments),
        },
    }


def _token(piece: bytes, logprob: float) -> JsonObject:
    return {
        "token": piece.decode("utf-8", "replace"),
        "logprob": logprob,
        "bytes": list(piece),
    }


def _end(finished: Finished) -> JsonObject:
    """Why it ended, and what it took.

    Waiting for a slot is told as the load's duration: Ollama's clients know that as
    the time before the prompt is read.
    """
    usage, timings = finished.usage, finished.timings
    load, prompt, generated = (
        _ns(timings.queued_s),
        _ns(timings.prompt_s),
        _ns(timings.predicted_s),
    )
    more: JsonObject = {}
    if finished.warnings:
        more["warnings"] = list(finished.warnings)
    if finished.receipt is not None:
        more["receipt"] = finished.receipt
    return {
        **more,
        "done_reason": "length" if finished.finish.reason == Outcome.LIMIT else "stop",
        "total_duration": load + prompt + generated,
        "load_duration": load,
        "prompt_eval_count": usage.n_prompt,
        "prompt_eval_duration": prompt,
        "eval_count": usage.n_generated,
        "eval_duration": generated,
    }


def _ns(seconds: float) -> int:
    return round(max(seconds, 0.0) * _NS_PER_S)


def utc_time(now: datetime) -> str:
    """A moment in UTC as Ollama writes it: RFC 3339 with a Z."""
    return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
