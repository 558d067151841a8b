"""What handlers need of the rest of the server, given to them by app.py."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kinetic.errors import ClientGone, UnsupportedFeature
from kinetic.web.stream import RequestStream
from kinetic.web.vectors import VectorCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor

    from kinetic.actors.messages import Job
    from kinetic.config import ServeOptions
    from kinetic.files.digest import BackgroundDigest
    from kinetic.types import (
        ChatInput,
        GenerationRequest,
        ModelInfo,
        RankRequest,
        VectorJob,
        VectorRequest,
    )
    from kinetic.web.actors import Actors
    from kinetic.web.fields.sampling import ModelFacts
    from kinetic.web.journal import Journal


T = TypeVar("T")
Answering = TypeVar("Answering", bound=RequestStream | VectorCall)


class Builder(Protocol):
    """Makes prompts; slow, so called off the loop."""

    def build(self, request: GenerationRequest) -> tuple[Job, ...]:
        """One job per choice; raises RequestError for what cannot be served."""

    def tokenize(
        self,
        content: str | Sequence[int | str],
        *,
        add_special: bool,
        parse_special: bool,
    ) -> list[int]:
        """Token ids of text, ids, or a mix; raises RequestError for unknown ids."""

    def chat_text(self, inputs: ChatInput) -> str:
        """A conversation as the model reads it; raises RequestError."""


@dataclass(slots=True)
class Service:
    """One served model: what every handler gets in `initialize`."""

    info: ModelInfo
    options: ServeOptions
    actors: Actors
    builder: Builder
    facts: ModelFacts
    """What reading a request's fields needs to know of the model."""
    pool: Executor
    """Where prompts are built: templates and tokenising stay off the loop."""
    digest: BackgroundDigest
    """SHA-256 of the model file."""
    receipt_key: Mapping[str, Any] | None = None
    """The public key that receipts are signed with, as JSON."""
    vector_inputs: Callable[[VectorRequest], VectorJob] | None = None
    """Makes inputs of texts, for an embedding model; slow, so called off the loop."""
    pair_inputs: Callable[[RankRequest], VectorJob] | None = None
    """Makes inputs of documents, for a ranking model; slow, so called off the loop."""
    streams: set[RequestStream | VectorCall] = field(default_factory=set)
    """Requests whose answers are being made now."""
    _requests: set[object] = field(default_factory=set)
    """Requests that have not been answered, those that are still read included."""
    _quiet: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Nobody is being answered yet."""
        self._quiet.set()

    async def is_quiet(self, *, within_s: float) -> bool:
        """Wait until every request has its answer; False when time runs out."""
        try:
            await asyncio.wait_for(self._quiet.wait(), within_s)
        except TimeoutError:
            return False
        return True

    def entered(self, request: object) -> None:
        """A request has come: stopping waits for its answer."""
        self._requests.add(request)
        self._quiet.clear()

    def left(self, request: object) -> None:
        """A request has its answer, or nobody to answer."""
        self._requests.discard(request)
        self._settle()

    def _settle(self) -> None:
        if not self._requests and not self.streams:
            self._quiet.set()

    async def run(self, work: Callable[[], T]) -> T:
        """Do something slow off the loop."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, work)

    def build_vectors(self, request: VectorRequest) -> VectorJob:
        """Make inputs of texts, off the loop; raises RequestError."""
        if self.vector_inputs is None:
            raise UnsupportedFeature(wrong_kind(self.info.kind))
        return self.vector_inputs(request)

    def build_pairs(self, request: RankRequest) -> VectorJob:
        """Make inputs of documents, off the loop; raises RequestError."""
        if self.pair_inputs is None:
            raise UnsupportedFeature(wrong_kind(self.info.kind))
        return self.pair_inputs(request)

    def check_kind(self, kind: str) -> None:
        """Raise UnsupportedFeature, naming the right route, for any other model."""
        if self.info.kind != kind:
            raise UnsupportedFeature(wrong_kind(self.info.kind))

    @contextlib.contextmanager
    def open(self, jobs: tuple[Job, ...], journal: Journal) -> Iterator[RequestStream]:
        """Start a request and give its stream; leaving cancels what is still open."""
        with self._answering(RequestStream(self.actors, jobs, journal)) as stream:
            yield stream

    @contextlib.contextmanager
    def open_vectors(self, job: VectorJob) -> Iterator[VectorCall]:
        """Start a request for vectors; leaving cancels what is still open."""
        with self._answering(VectorCall(self.actors, job)) as call:
            yield call

    @contextlib.contextmanager
    def _answering(self, stream: Answering) -> Iterator[Answering]:
        self.streams.add(stream)
        self._quiet.clear()
        try:
            stream.start()
            yield stream
        finally:
            self.streams.discard(stream)
            self._settle()
            stream.cancel(ClientGone("the request was given up"))


def wrong_kind(kind: str) -> str:
    """Which endpoint to use with a model of this kind."""
    routes = {
        "text": "/v1/chat/completions or /v1/completions",
        "embedding": "/v1/embeddings",
        "rerank": "/v1/rerank",
    }
    named = {"text": "a text", "embedding": "an embedding", "rerank": "a ranking"}
    return f"the loaded model is {named[kind]} model: use {routes[kind]}"
