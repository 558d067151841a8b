"""The handlers of the OpenAI routes: read, have it answered, write."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kinetic import __version__
from kinetic.actors.messages import Failed, Finished, SinkEvent
from kinetic.errors import ClientGone
from kinetic.types import TextInput
from kinetic.web.base import ApiHandler
from kinetic.web.errors import HttpError, to_http
from kinetic.web.http import body as json_body, sse
from kinetic.web.models import model_entry, models_body
from kinetic.web.openai import schema
from kinetic.web.openai.render import ChatWriter, Head, TextWriter, Totals, Writer
from kinetic.web.openai.whole import WholeChat, WholeText

if TYPE_CHECKING:
    from kinetic.web.fields.sampling import ModelFacts
    from kinetic.web.stream import RequestStream


class ModelsHandler(ApiHandler):
    """GET /v1/models: the one model that is served."""

    def get(self) -> None:
        """List it."""
        self.send_json(models_body(self.service.info))


class ModelHandler(ModelsHandler):
    """GET /v1/models/{id}: the same by its name."""

    def get(self, name: str = "") -> None:
        """Describe it; any other name is a 404."""
        if name != self.service.info.id:
            raise HttpError(
                status=404,
                message=f"the model served here is {self.service.info.id}",
                kind="not_found_error",
                param="model",
                code="model_not_found",
            )
        self.send_json(model_entry(self.service.info))


class GenerationHandler(ApiHandler):
    """What the two generating routes do alike."""

    async def post(self) -> None:
        """Answer a request, streamed or whole."""
        self.service.check_kind("text")
        arrival = schema.Arrival(request_id=self.request_id, arrived_s=time.monotonic())
        body = self.request.body

        def read() -> schema.Asked:
            # Off the loop: a body of many megabytes takes a while to parse and check.
            return self.read(json_body.parse(body), self.service.facts, arrival)

        asked = await self.service.run(read)
        jobs = await self.service.prepare(asked.request)
        # A client that is gone leaves nobody to answer.
        with (
            contextlib.suppress(ClientGone),
            self.open_stream(jobs, streamed=asked.stream) as stream,
        ):
            if asked.stream:
                await self._send_stream(asked, stream)
            else:
                await self._send_whole(asked, stream)

    def read(
        self, body: Mapping[str, Any], facts: ModelFacts, arrival: schema.Arrival
    ) -> schema.Asked:
        """Read this route's body; raises RequestError."""
        raise NotImplementedError

    def writer(self, asked: schema.Asked, head: Head) -> Writer:
        """What writes this route's chunks."""
        raise NotImplementedError

    def whole(self, *, logprobs: bool) -> WholeChat | WholeText:
        """What adds this route's chunks up."""
        raise NotImplementedError

    def _head(self, asked: schema.Asked) -> Head:
        info = self.service.info
        return Head(
            id=asked.request.request_id,
            created=int(time.time()),
            model=info.id,
            system_fingerprint=f"kinetic-{__version__}-{info.plan}",
        )

    async def _send_whole(self, asked: schema.Asked, stream: RequestStream) -> None:
        writer = self.writer(asked, self._head(asked))
        whole = self.whole(logprobs=asked.request.n_logprobs is not None)
        totals = Totals(n_per_prompt=asked.request.n)
        while events := await stream.read():
            for event in events:
                if isinstance(event, Failed):
                    raise event.error
                if isinstance(event, Finished):
                    totals.add(event)
                for chunk in writer.chunks(event):
                    whole.add(chunk)
        self.send_json(whole.to_json(totals.to_json()))

    async def _send_stream(self, asked: schema.Asked, stream: RequestStream) -> None:
        writer = self.writer(asked, self._head(asked))
        totals = Totals(n_per_prompt=asked.request.n)
        out = sse.EventStream(self)
        while (events := await stream.read_or_silence(sse.SILENCE_S)) != []:
            if events is None:
                await out.comment()
                continue
            chunks, failed = _rendered(events, writer, totals)
            if failed is not None and not out.is_open and not chunks:
                raise failed.error
            await out.send(chunks)
            if failed is not None:
                await out.send([self.error_body(to_http(failed.error))])
                return
        if asked.include_usage:
            await out.send([writer.usage_chunk(totals.to_json())])
        await out.send([sse.DONE])


def _rendered(
    events: Sequence[SinkEvent], writer: Writer, totals: Totals
) -> tuple[list[Any], Failed | None]:
    """The chunks of some events up to the first failure, and that failure."""
    chunks: list[Any] = []
    for event in events:
        if isinstance(event, Failed):
            if isinstance(event.error, ClientGone):
                raise event.error
            return chunks, event
        if isinstance(event, Finished):
            totals.add(event)
        chunks += writer.chunks(event)
    return chunks, None


class ChatHandler(GenerationHandler):
    """POST /v1/chat/completions."""

    id_prefix = "chatcmpl-"

    def read(
        self, body: Mapping[str, Any], facts: ModelFacts, arrival: schema.Arrival
    ) -> schema.Asked:
        """Read a conversation."""
        return schema.read_chat(body, facts, arrival)

    def writer(self, asked: schema.Asked, head: Head) -> Writer:
        """Chat chunks."""
        return ChatWriter(
            head,
            n_choices=asked.request.n,
            usage_follows=asked.include_usage,
            has_functions=asked.has_functions,
        )

    def whole(self, *, logprobs: bool) -> WholeChat:
        """A chat completion."""
        return WholeChat(logprobs=logprobs)


class CompletionHandler(GenerationHandler):
    """POST /v1/completions."""

    id_prefix = "cmpl-"

    def read(
        self, body: Mapping[str, Any], facts: ModelFacts, arrival: schema.Arrival
    ) -> schema.Asked:
        """Read prompts."""
        return schema.read_completion(body, facts, arrival)

    def writer(self, asked: schema.Asked, head: Head) -> Writer:
        """Text chunks, behind the prompts where those are asked for."""
        request = asked.request
        echoes: list[str] = []
        if request.echo:
            for inputs in request.inputs:
                echoes += [self._text(inputs)] * request.n  # type: ignore[arg-type]
        n_choices = len(request.inputs) * request.n
        return TextWriter(
            head,
            echoes=echoes,
            n_choices=n_choices,
            usage_follows=asked.include_usage,
        )

    def _text(self, inputs: TextInput) -> str:
        if isinstance(inputs.prompt, str):
            return inputs.prompt
        ids = [part for part in inputs.prompt if isinstance(part, int)]
        return self.service.facts.detokenize(ids).decode("utf-8", "replace")

    def whole(self, *, logprobs: bool) -> WholeText:
        """A text completion."""
        return WholeText(logprobs=logprobs)


ROUTES: list[tuple[str, type[ApiHandler]]] = [
    ("/v1/models", ModelsHandler),
    ("/models", ModelsHandler),
    ("/v1/models/(.+)", ModelHandler),
    ("/v1/chat/completions", ChatHandler),
    ("/chat/completions", ChatHandler),
    # Without /v1 this path is llama-server's, whose completions are of another shape.
    ("/v1/completions", CompletionHandler),
]
