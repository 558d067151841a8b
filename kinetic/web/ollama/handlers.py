"""The handlers of Ollama's routes: read, have it answered, write."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from kinetic.errors import ModelNotFound, RequestError, UnsupportedFeature
from kinetic.files.gguf import Header, read_headers
from kinetic.files.store import shards
from kinetic.web.answering import Ready, Reply, answer
from kinetic.web.base import ApiHandler
from kinetic.web.errors import HttpError, ollama_body
from kinetic.web.fields.readers import shown
from kinetic.web.http import body as json_body
from kinetic.web.http.ndjson import LineStream
from kinetic.web.ollama import describe, schema
from kinetic.web.ollama.names import check_name, display_name
from kinetic.web.ollama.render import Renderer, Shape, chat_shape, generate_shape
from kinetic.web.ollama.writer import AnswerWriter, utc_now

DIGEST_WAIT_S = 1.0
"""How long an answer waits for the model file to be read; a small one is by then."""


class OllamaHandler(ApiHandler):
    """Base of Ollama's routes: bodies of any content type, errors as one string."""

    id_prefix = "ollama-"
    needs_json = False
    # Ollama's clients are also programs with a web view, whose pages have origins of
    # schemes that no web site can have.
    app_schemes = frozenset({"app", "tauri", "vscode-webview", "vscode-file"})

    def error_body(self, error: HttpError) -> dict[str, Any]:
        """An error in Ollama's shape."""
        return ollama_body(error)

    def body(self) -> dict[str, Any]:
        """The request's body; raises RequestError for anything but an object."""
        if not self.request.body.strip():
            raise RequestError("missing request body")
        return json_body.parse(self.request.body)

    @property
    def names(self) -> tuple[str, str]:
        """What the served model is called: its id and its file's name."""
        info = self.service.info
        return info.id, Path(info.path).name

    async def digest(self) -> str:
        """The model file's SHA-256, or zeros while it is not known yet."""
        found = asyncio.wrap_future(self.service.digest.ask())
        try:
            async with asyncio.timeout(DIGEST_WAIT_S):
                return await found
        except (TimeoutError, OSError):
            return describe.UNKNOWN_DIGEST


# --- What is served -----------------------------------------------------------------


class RootHandler(OllamaHandler):
    """GET /: the text that clients look for to see that somebody is there."""

    def get(self) -> None:
        """Say so."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.write("Ollama is running")


class VersionHandler(OllamaHandler):
    """GET /api/version: the version of Ollama's API that is spoken."""

    def get(self) -> None:
        """Tell it."""
        self.send_json({"version": describe.API_VERSION})


class TagsHandler(OllamaHandler):
    """GET /api/tags: the models, which are one."""

    async def get(self) -> None:
        """List it."""
        model = describe.listed(self.service.info, await self.digest())
        self.send_json({"models": [model]})


class PsHandler(OllamaHandler):
    """GET /api/ps: the models in memory, which is the same one."""

    async def get(self) -> None:
        """List it."""
        n_gpu_layers = self.service.options.n_gpu_layers
        digest = await self.digest()
        model = describe.loaded(self.service.info, digest, n_gpu_layers)
        self.send_json({"models": [model]})


@functools.lru_cache(maxsize=2)
def _brief_header(path: Path) -> Header:
    """Kept, since clients ask often; the loaded file does not change."""
    return read_headers(shards(path), most_items=describe.MAX_BRIEF_ITEMS)


def _whole_header(path: Path) -> Header:
    return read_headers(shards(path))


class ShowHandler(OllamaHandler):
    """POST /api/show: details, metadata, template and capabilities."""

    async def post(self) -> None:
        """Describe the model."""
        body = self.body()
        check_name(body, self.names)
        info = self.service.info
        verbose = schema.read_flag(body, "verbose", default=False)
        read = _whole_header if verbose else _brief_header
        header = await self.service.run(lambda: read(Path(info.path)))
        projector = None
        if info.projector_path:
            projector = await self.service.run(lambda: read(Path(info.projector_path)))
        self.send_json(describe.shown(info, header, projector))


# --- Answers ------------------------------------------------------------------------


class AnswerHandler(OllamaHandler):
    """What /api/chat and /api/generate do alike."""

    deed: ClassVar[str]
    shape: ClassVar[Shape]

    async def post(self) -> None:
        """Answer a request, streamed or whole."""
        arrived_s = time.monotonic()
        await answer(self, lambda: self._reply(arrived_s))

    def _reply(self, arrived_s: float) -> Reply | Ready:
        info, body = self.service.info, self.body()
        model = self.model_of(body)
        asking = schema.Asking(
            model=model,
            info=info,
            facts=self.service.facts,
            request_id=self.request_id,
            arrived_s=arrived_s,
        )
        asked = self.read(body, asking)
        request = asked.request
        if request is None:
            renderer = Renderer(type(self).shape, model)
            return Ready(renderer.loaded(utc_now(), unloads=asked.unloads))
        if info.kind != "text":
            raise UnsupportedFeature(
                f'"{model}" does not support {self.deed}: {other_route(info.kind)}'
            )
        renderer = Renderer(type(self).shape, model, request.n_logprobs)
        return Reply(
            request=request,
            streamed=asked.stream,
            writer=lambda _: AnswerWriter(renderer),
            out=LineStream,
        )

    def model_of(self, body: Mapping[str, Any]) -> str:
        """The name the client wrote; raises RequestError, or ModelNotFound."""
        return check_name(body, self.names)

    def read(self, body: Mapping[str, Any], asking: schema.Asking) -> schema.Asked:
        """Read this route's body; raises RequestError."""
        raise NotImplementedError


class ChatHandler(AnswerHandler):
    """POST /api/chat."""

    deed = "chat"
    shape = staticmethod(chat_shape)

    def read(self, body: Mapping[str, Any], asking: schema.Asking) -> schema.Asked:
        """Read a conversation."""
        return schema.read_chat(body, asking)


class GenerateHandler(AnswerHandler):
    """POST /api/generate."""

    deed = "generate"
    shape = staticmethod(generate_shape)

    def model_of(self, body: Mapping[str, Any]) -> str:
        """A missing name is an unknown one here."""
        return check_name(body, self.names, is_needed=False)

    def read(self, body: Mapping[str, Any], asking: schema.Asking) -> schema.Asked:
        """Read a prompt."""
        return schema.read_generate(body, asking)


def other_route(kind: str) -> str:
    """What to use a model of some kind with."""
    routes = {
        "text": "it is a text model, use /api/chat or /api/generate",
        "embedding": "it is an embedding model, use /api/embed",
        "rerank": "it is a ranking model, use /v1/rerank",
    }
    return routes[kind]


# --- Managing models ----------------------------------------------------------------


class ManagingHandler(OllamaHandler):
    """Routes that fetch, make, copy and delete models: none of them is served."""

    def refuse(self, what: str | None = None) -> NoReturn:
        """Say what was refused, what this server does, and what manages models."""
        name = display_name(self.service.info.id)
        what = what or f"{self.request.path} is refused"
        raise HttpError(
            status=HTTPStatus.FORBIDDEN,
            message=f"{what}: this server serves only {name} and manages no models;"
            " `kinetic pull`, `kinetic list` and `kinetic rm` do, on the command line",
            kind="permission_error",
        )


class PullHandler(ManagingHandler):
    """POST /api/pull: apps do so before they use a model."""

    async def post(self) -> None:
        """Succeed where there is nothing to do, since the model is served."""
        body = self.body()
        stream = schema.read_flag(body, "stream", default=True)
        try:
            check_name(body, self.names)
        except ModelNotFound:
            asked = shown(body.get("model") or body.get("name"))
            self.refuse(f"{asked} is not pulled")
        done = {"status": "success"}
        if stream:
            await LineStream(self).send([{"status": "pulling manifest"}, done])
        else:
            self.send_json(done)


class ManagingPostHandler(ManagingHandler):
    """POST /api/push, /api/create, /api/copy."""

    def post(self) -> None:
        """Refuse."""
        self.refuse()


class ManagingDeleteHandler(ManagingHandler):
    """DELETE /api/delete."""

    def delete(self) -> None:
        """Refuse."""
        self.refuse()


class BlobsHandler(ManagingHandler):
    """HEAD and POST /api/blobs/DIGEST: there are none, and none are taken."""

    def post(self, _digest: str) -> None:
        """Refuse."""
        self.refuse()

    async def head(self, *_args: str) -> None:
        """No such blob."""
        self.set_status(HTTPStatus.NOT_FOUND)


ROUTES: list[tuple[str, type[ApiHandler]]] = [
    ("/", RootHandler),
    ("/api/version", VersionHandler),
    ("/api/tags", TagsHandler),
    ("/api/ps", PsHandler),
    ("/api/show", ShowHandler),
    ("/api/chat", ChatHandler),
    ("/api/generate", GenerateHandler),
    ("/api/pull", PullHandler),
    ("/api/push", ManagingPostHandler),
    ("/api/create", ManagingPostHandler),
    ("/api/copy", ManagingPostHandler),
    ("/api/delete", ManagingDeleteHandler),
    ("/api/blobs/(.+)", BlobsHandler),
]
