"""What the log says of a request is true, however the request ended."""

import asyncio
import json

import pytest

from kinetic.actors.messages import Failed
from kinetic.errors import ClientGone, InternalError, Overloaded
from kinetic.model.job import Job
from kinetic.types import SamplingParams, Timings, Usage
from kinetic.web.journal import Journal
from tests.support.raw_http import RawClient, exchange, request
from tests.support.web_app import Script, delta, finished, talk

HI = {"messages": [{"role": "user", "content": "hi"}]}
ROUTES = [
    ("/v1/chat/completions", HI),
    ("/v1/completions", {"prompt": "hi"}),
    ("/completion", {"prompt": "hi"}),
    ("/api/chat", {"model": "tiny", **HI}),
    ("/api/generate", {"model": "tiny", "prompt": "hi"}),
]
USAGE = Usage(n_prompt=9, n_cached=4, n_generated=7)
TIMINGS = Timings(queued_s=1.25, prompt_s=0.5, predicted_s=2.0)
FIGURES = "cached tokens 4, answer tokens 7, queued 1.250 s"


class Cancelled(Script):
    """A script whose answers end by an error with what was made of them."""

    def cancel(self, request_id, error):
        self.cancelled.append(error)
        self._sinks[request_id].put(failed(error))


def failed(error):
    return Failed(index=0, error=error, usage=USAGE, timings=TIMINGS)


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


@pytest.fixture
def ends(caplog):
    caplog.set_level("INFO", "kinetic.web.journal")

    def found():
        texts = [record.getMessage() for record in caplog.records]
        return [text.partition(" ends: ")[2] for text in texts if " ends: " in text]

    return found


@pytest.mark.parametrize(("route", "body"), ROUTES)
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_left_is_told_of_with_what_was_made(route, body, stream, ends):
    script = Cancelled([delta("Hel")])

    async def story(client):
        async with RawClient(client.url) as raw:
            data = json.dumps({**body, "stream": stream}).encode()
            await raw.send(request("POST", route, data))
            await until(lambda: script.requests)
        await until(ends)

    talk(story, script)
    (line,) = ends()
    assert line.startswith(f"client gone, {FIGURES}")


def test_a_client_whose_leaving_shows_in_writing_is_told_of_too(ends):
    script = Cancelled([])

    async def story(client):
        async with RawClient(client.url) as raw:
            data = json.dumps({**HI, "stream": True}).encode()
            await raw.send(request("POST", "/v1/chat/completions", data))
            await until(lambda: script._sinks)
            (sink,) = script._sinks.values()
            sink.put(delta("x" * (8 << 20)))
        for _ in range(3):
            sink.put(delta("more"))
        await until(ends)

    talk(story, script)
    (line,) = ends()
    assert line.startswith(f"client gone, {FIGURES}")


@pytest.mark.parametrize("stream", [False, True])
def test_every_other_end_is_told_once_with_its_figures(stream, ends):
    cases = [
        (
            [delta("a"), finished()],
            "eos, cached tokens 2, answer tokens 3, queued 0.100 s",
        ),
        ([delta("a"), failed(InternalError("broke"))], f"InternalError, {FIGURES}"),
        ([failed(Overloaded("full"))], f"Overloaded, {FIGURES}"),
        # Whoever knew the figures is dead.
        (
            [Failed(index=0, error=InternalError("dead"))],
            "InternalError, tokens unknown",
        ),
    ]
    for events, words in cases:

        async def story(client):
            data = json.dumps({**HI, "stream": stream}).encode()
            await exchange(client.url, request("POST", "/v1/chat/completions", data))

        talk(story, Script(events))
        assert ends()[-1].startswith(words)
    assert len(ends()) == len(cases)


def test_a_client_that_left_before_its_prompt_was_built_is_told_of(ends):
    job = Job(request_id="x-1", index=0, prompt=(1,), sampling=SamplingParams())
    Journal("/v1/completions", [job], streamed=True).never_began(ClientGone("left"))
    (line,) = ends()
    assert line.startswith("client gone, cached tokens 0, answer tokens 0")
