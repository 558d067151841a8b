"""What handlers need of the rest of the server, given to them by app.py."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from kinetic.digest import BackgroundDigest
from kinetic.errors import KineticError, UnsupportedFeature
from kinetic.store import shards
from kinetic.web.stream import RequestStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

    from kinetic.actors.messages import Job, Sink
    from kinetic.actors.metrics import MetricsView
    from kinetic.config import ServeOptions
    from kinetic.model.prompt import PromptBuilder
    from kinetic.types import GenerationRequest, ModelInfo
    from kinetic.web.fields import ModelFacts


T = TypeVar("T")


class Actors(Protocol):
    """The door to the actors."""

    def submit(self, jobs: tuple[Job, ...], sink: Sink) -> None:
        """Have answers made; each job ends exactly once at the sink."""

    def cancel(self, request_id: str, error: KineticError) -> None:
        """Drop a request."""

    def forget(self, request_id: str, index: int) -> None:
        """A sink saw the end of a job."""

    @property
    def view(self) -> MetricsView:
        """The metrics now."""


@dataclass(slots=True)
class Service:
    """One served model: what every handler gets in `initialize`."""

    info: ModelInfo
    options: ServeOptions
    actors: Actors
    builder: PromptBuilder
    facts: ModelFacts
    """What reading a request's fields needs to know of the model."""
    pool: Executor
    """Where prompts are built: templates and tokenising stay off the loop."""
    streams: set[RequestStream] = field(default_factory=set)
    """Requests that are being answered now."""
    digest: BackgroundDigest = field(init=False)
    """SHA-256 of the model file."""
    _quiet: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Nobody is being answered yet."""
        self._quiet.set()
        self.digest = BackgroundDigest(shards(Path(self.info.path)))

    async def is_quiet(self, *, within_s: float) -> bool:
        """Wait until no request is being answered; False when time runs out."""
        try:
            await asyncio.wait_for(self._quiet.wait(), within_s)
        except TimeoutError:
            return False
        return True

    async def run(self, work: Callable[[], T]) -> T:
        """Do something slow off the loop."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, work)

    async def prepare(self, request: GenerationRequest) -> tuple[Job, ...]:
        """Build a request's prompts; raises RequestError for what cannot be served."""
        if self.info.kind != "text":
            raise UnsupportedFeature(wrong_kind(self.info.kind))
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.pool, self.builder.build, request)

    @contextlib.contextmanager
    def open(self, jobs: tuple[Job, ...]) -> Iterator[RequestStream]:
        """Start a request and give its stream; leaving cancels what is still open."""
        stream = RequestStream(self.actors, jobs)
        self.streams.add(stream)
        self._quiet.clear()
        try:
            stream.start()
            yield stream
        finally:
            self.streams.discard(stream)
            if not self.streams:
                self._quiet.set()
            stream.cancel(ClientGone("the request was given up"))


class ClientGone(KineticError):
    """The client closed its connection; nobody is left to tell."""


def wrong_kind(kind: str) -> str:
    """Which endpoint to use with a model of this kind."""
    routes = {
        "text": "/v1/chat/completions or /v1/completions",
        "embedding": "/v1/embeddings",
        "rerank": "/v1/rerank",
    }
    named = {"text": "a text", "embedding": "an embedding", "rerank": "a ranking"}
    return f"the loaded model is {named[kind]} model: use {routes[kind]}"
