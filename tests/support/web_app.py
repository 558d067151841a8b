"""The web application over a scripted inside: real HTTP, no model, no actors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tornado import httpclient

from kinetic.actors.messages import Delta, Failed, Finished, SinkEvent
from kinetic.actors.metrics.view import MetricsView, SlotView
from kinetic.config import ServeOptions
from kinetic.errors import KineticError
from kinetic.files.digest import BackgroundDigest
from kinetic.files.store import shards
from kinetic.model.job import Job
from kinetic.types import ContentPiece, Finish, GenerationRequest, Timings, Usage
from kinetic.web.http.server import listen
from kinetic.web.routes import application
from kinetic.web.service import Service
from tests.support.served import model_facts, model_info

LIMIT_S = 20.0


def delta(*pieces: Any) -> Delta:
    """A piece of output; texts are content."""
    read = tuple(ContentPiece(p) if isinstance(p, str) else p for p in pieces)
    return Delta(index=0, pieces=read, tokens=())


def finished(reason: str = "eos") -> Finished:
    """The end of an answer."""
    return Finished(
        index=0,
        finish=Finish(reason=reason),
        usage=Usage(n_prompt=5, n_cached=2, n_generated=3),
        timings=Timings(queued_s=0.1, prompt_s=0.2, predicted_s=0.3),
        slot_id=0,
    )


@dataclass
class Script:
    """The inside of a server: it answers every job with the same events."""

    events: Sequence[SinkEvent] = (delta("Hel"), delta("lo"), finished())
    refusal: KineticError | None = None
    """Raised in place of building a prompt."""
    requests: list[GenerationRequest] = field(default_factory=list)
    """What was to be built."""
    cancelled: list[KineticError] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """Of the responses that were sent."""
    _sinks: dict[str, Any] = field(default_factory=dict)

    # The prompt builder's side.

    def build(self, request: GenerationRequest) -> tuple[Job, ...]:
        self.requests.append(request)
        if self.refusal is not None:
            raise self.refusal
        sampling = request.sampling
        job = Job(
            request_id=request.request_id, index=0, prompt=(1,), sampling=sampling
        )
        return (job,)

    # The actors' side.

    def submit(self, jobs: tuple[Job, ...], sink: Any) -> None:
        (job,) = jobs
        self._sinks[job.request_id] = sink
        for event in self.events:
            sink.put(event)

    def cancel(self, request_id: str, error: KineticError) -> None:
        self.cancelled.append(error)
        self._sinks[request_id].put(Failed(index=0, error=error))

    def forget(self, request_id: str, index: int) -> None:
        return

    def count_response(self, status: int) -> None:
        self.statuses.append(status)

    def parts(self) -> dict[str, Any]:
        """Further parts of the service."""
        return {}

    @property
    def view(self) -> MetricsView:
        return MetricsView(slots=(SlotView(slot_id=0),))


@dataclass(frozen=True)
class Answer:
    """What a client got."""

    status: int
    headers: Any
    body: bytes


class Client:
    """Sends requests to the application under test."""

    def __init__(self, url: str, service: Service) -> None:
        self.url = url
        self.service = service
        self._http = httpclient.AsyncHTTPClient(force_instance=True)

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request."""
        response = await self._http.fetch(
            self.url + path,
            raise_error=False,
            method=method,
            body=body,
            headers=headers or {},
            allow_nonstandard_methods=True,
            request_timeout=LIMIT_S,
        )
        return Answer(response.code, response.headers, response.body or b"")

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def talk(
    story: Callable[[Client], Awaitable[None]],
    script: Script,
    *,
    options: dict[str, Any] | None = None,
    **info: Any,
) -> None:
    """Serve on a loopback port while a story is told; info's changes shape the model."""

    async def run() -> None:
        with ThreadPoolExecutor(1, thread_name_prefix="prompt") as pool:
            served = ServeOptions(model=Path("m.gguf"), port=0, **(options or {}))
            shown = model_info(**info)
            service = Service(
                info=shown,
                options=served,
                actors=script,  # type: ignore[arg-type]
                builder=script,  # type: ignore[arg-type]
                facts=model_facts(),
                pool=pool,
                digest=BackgroundDigest(shards(Path(shown.path))),
                **script.parts(),
            )
            server = listen(application(service), served)
            client = Client(f"http://127.0.0.1:{server.bound_port}", service)
            try:
                async with asyncio.timeout(LIMIT_S):
                    await story(client)
            finally:
                client.close()
                server.stop()
                await server.close_all_connections()

    asyncio.run(run())
