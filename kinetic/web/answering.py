"""How a request is answered, whole or as a stream: what all dialects do alike."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kinetic.actors.messages import Failed, SinkEvent
from kinetic.errors import ClientGone
from kinetic.web.errors import to_http
from kinetic.web.http.sse import EventStream

if TYPE_CHECKING:
    from kinetic.actors.messages import Job
    from kinetic.types import GenerationRequest
    from kinetic.web.base import ApiHandler
    from kinetic.web.http.outflow import Outflow
    from kinetic.web.stream import RequestStream


class Writer(Protocol):
    """Writes one answer in a dialect's words, from its events in their order."""

    def pieces(self, event: SinkEvent) -> list[Any]:
        """What an event adds to a stream, as values that JSON can hold."""

    def last(self) -> list[Any]:
        """What a stream ends with, after every job's end."""

    def take(self, event: SinkEvent) -> None:
        """Keep what an event adds to a whole answer."""

    def whole(self) -> Any:
        """The body of a whole answer, once it took every job's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A request as its dialect read it: what is to be made, and how it is written."""

    request: GenerationRequest
    streamed: bool
    writer: Callable[[tuple[Job, ...]], Writer]
    """Makes the answer's writer, given the request's jobs. Any thread."""
    out: type[Outflow] = EventStream
    """How a stream goes out."""
    silence_s: float | None = None
    """Silence of a stream after which a sign of life is sent; None: never."""


@dataclass(frozen=True, slots=True)
class Ready:
    """An answer for which nothing has to be generated."""

    body: Any
    """What JSON can hold."""


async def answer(handler: ApiHandler, read: Callable[[], Reply | Ready]) -> None:
    """Read a request, have it answered and send that; a client that left gets nothing.

    Args:
        handler: The one that was asked. An error after a stream's first piece is the
            stream's last, as its `error_body` writes it.
        read: Reads the body; called off the loop.

    Raises what `read`, the prompt builder or a job failed with before anything was
    sent.
    """
    service = handler.service

    def prepare() -> Ready | tuple[Reply, tuple[Job, ...], Writer]:
        # A body of many megabytes takes a while to parse and check, and its prompts to
        # be built: one turn with the prompt threads does for both.
        reply = read()
        if isinstance(reply, Ready):
            return reply
        jobs = service.builder.build(reply.request)
        return reply, jobs, reply.writer(jobs)

    prepared = await service.run(prepare)
    if isinstance(prepared, Ready):
        handler.send_json(prepared.body)
        return
    reply, jobs, writer = prepared
    # A client that is gone leaves nobody to answer.
    with (
        contextlib.suppress(ClientGone),
        handler.open_stream(jobs, streamed=reply.streamed) as stream,
    ):
        if reply.streamed:
            await _send_stream(handler, reply, writer, stream)
        else:
            await _send_whole(handler, writer, stream)


async def _send_whole(
    handler: ApiHandler, writer: Writer, stream: RequestStream
) -> None:
    while events := await stream.read():
        for event in events:
            if isinstance(event, Failed):
                raise event.error
            writer.take(event)
    handler.send_json(writer.whole())


async def _send_stream(
    handler: ApiHandler, reply: Reply, writer: Writer, stream: RequestStream
) -> None:
    out = reply.out(handler)
    while (events := await stream.read_or_silence(reply.silence_s)) != []:
        if events is None:
            await out.comment()
            continue
        pieces: list[Any] = []
        for event in events:
            if not isinstance(event, Failed):
                pieces += writer.pieces(event)
                continue
            gone = isinstance(event.error, ClientGone)
            if gone or not (out.is_open or pieces):
                raise event.error
            # The status is out: what went wrong is the last piece.
            await out.send(pieces)
            await out.send([handler.error_body(to_http(event.error))])
            return
        await out.send(pieces)
    for piece in writer.last():
        await out.send([piece])
