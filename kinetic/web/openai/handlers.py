"""The handlers of the OpenAI routes: read, have it answered, write."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kinetic import __version__
from kinetic.types import TextInput
from kinetic.web.answering import Reply, answer
from kinetic.web.base import ApiHandler
from kinetic.web.errors import HttpError
from kinetic.web.http import body as json_body, sse
from kinetic.web.models import model_entry, models_body
from kinetic.web.openai import schema
from kinetic.web.openai.render import ChatWriter, Head, TextWriter
from kinetic.web.openai.whole import WholeChat, WholeText
from kinetic.web.openai.writer import AnswerWriter

if TYPE_CHECKING:
    from kinetic.web.fields.sampling import ModelFacts


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

        def read() -> Reply:
            asked = self.read(json_body.parse(body), self.service.facts, arrival)
            return Reply(
                request=asked.request,
                streamed=asked.stream,
                writer=lambda _: self.writer(asked, self._head(asked)),
                silence_s=sse.SILENCE_S,
            )

        await answer(self, read)

    def read(
        self, body: Mapping[str, Any], facts: ModelFacts, arrival: schema.Arrival
    ) -> schema.Asked:
        """Read this route's body; raises RequestError. In a prompt thread."""
        raise NotImplementedError

    def writer(self, asked: schema.Asked, head: Head) -> AnswerWriter:
        """What writes this route's answers. In a prompt thread."""
        raise NotImplementedError

    def _head(self, asked: schema.Asked) -> Head:
        info = self.service.info
        return Head(
            id=asked.request.request_id,
            created=int(time.time()),
            model=info.id,
            system_fingerprint=f"kinetic-{__version__}-{info.plan}",
        )


class ChatHandler(GenerationHandler):
    """POST /v1/chat/completions."""

    id_prefix = "chatcmpl-"

    def read(
        self, body: Mapping[str, Any], facts: ModelFacts, arrival: schema.Arrival
    ) -> schema.Asked:
        """Read a conversation."""
        return schema.read_chat(body, facts, arrival)

    def writer(self, asked: schema.Asked, head: Head) -> AnswerWriter:
        """Chat chunks, or a chat completion."""
        chunks = ChatWriter(
            head,
            n_choices=asked.request.n,
            usage_follows=asked.include_usage,
            has_functions=asked.has_functions,
        )
        whole = WholeChat(
            head,
            n_choices=asked.request.n,
            logprobs=asked.request.n_logprobs is not None,
            has_functions=asked.has_functions,
        )
        return AnswerWriter(asked, chunks, whole)


class CompletionHandler(GenerationHandler):
    """POST /v1/completions."""

    id_prefix = "cmpl-"

    def read(
        self, body: Mapping[str, Any], facts: ModelFacts, arrival: schema.Arrival
    ) -> schema.Asked:
        """Read prompts."""
        return schema.read_completion(body, facts, arrival)

    def writer(self, asked: schema.Asked, head: Head) -> AnswerWriter:
        """Text chunks, after the prompts where those are asked for, or one body."""
        request = asked.request
        echoes: list[str] = []
        if request.echo:
            for inputs in request.inputs:
                echoes += [self._text(inputs)] * request.n  # type: ignore[arg-type]
        n_choices = len(request.inputs) * request.n
        chunks = TextWriter(
            head,
            echoes=echoes,
            n_choices=n_choices,
            usage_follows=asked.include_usage,
        )
        whole = WholeText(
            head,
            echoes=echoes,
            n_choices=n_choices,
            logprobs=request.n_logprobs is not None,
        )
        return AnswerWriter(asked, chunks, whole)

    def _text(self, inputs: TextInput) -> str:
        if isinstance(inputs.prompt, str):
            return inputs.prompt
        ids = [part for part in inputs.prompt if isinstance(part, int)]
        return self.service.facts.detokenize(ids).decode("utf-8", "replace")


ROUTES: list[tuple[str, type[ApiHandler]]] = [
    ("/v1/models", ModelsHandler),
    ("/models", ModelsHandler),
    ("/v1/models/(.+)", ModelHandler),
    ("/v1/chat/completions", ChatHandler),
    ("/chat/completions", ChatHandler),
    # Without /v1 this path is llama-server's, whose completions are of another shape.
    ("/v1/completions", CompletionHandler),
]
