"""Clients that go away: at any moment of a request, its slot is free at once."""

import asyncio
import json
import random
from typing import Any

import httpx
import pytest

from tests.support.openai_http import CHAT, TEXT, answer, without_times
from tests.support.raw_http import RawClient, request

LONG = {
    "prompt": "Once upon a time",
    "max_tokens": 2000,
    "temperature": 0,
    "ignore_eos": True,
}
FREE_WITHIN_S = 3.0
"""A pass or two, and 0.1 s to find out; much, because the machine is shared."""


def bytes_of(route, **fields):
    return request("POST", route, json.dumps(fields).encode())


async def leave(server, data, until=None):
    """Send a request, wait for something of its answer, and go."""
    async with RawClient(server.root) as raw:
        await raw.send(data)
        if until is not None:
            async with asyncio.timeout(30):
                await raw.reader.readuntil(until)


def processing(server):
    return server.health()["slots_processing"]


async def busy(server, count=1):
    for _ in range(1000):
        if processing(server) >= count:
            return
        await asyncio.sleep(0.01)
    pytest.fail("no slot began")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("n", [1, 4])
def test_leaving_in_the_middle_of_an_answer(server, streamed, n):
    async def story():
        async with RawClient(server.root) as raw:
            await raw.send(bytes_of(TEXT, **LONG, stream=streamed, n=n))
            await busy(server, n)

    asyncio.run(story())
    server.wait_until_idle(FREE_WITHIN_S)


def test_leaving_after_the_first_piece(server):
    asyncio.run(leave(server, bytes_of(TEXT, **LONG, stream=True), b'"text"'))
    server.wait_until_idle(FREE_WITHIN_S)


@pytest.mark.parametrize("streamed", [False, True])
def test_leaving_while_the_prompt_is_run(server, streamed):
    words = " ".join(random.Random(1).choices("abcdefghij", k=1800))

    async def story():
        async with RawClient(server.root) as raw:
            await raw.send(bytes_of(TEXT, prompt=words, max_tokens=1, stream=streamed))
            await busy(server)

    asyncio.run(story())
    server.wait_until_idle(FREE_WITHIN_S)


@pytest.mark.parametrize("streamed", [False, True])
def test_leaving_the_queue_lets_the_others_be(server, streamed):
    async def story():
        async with RawClient(server.root) as first:
            await first.send(bytes_of(TEXT, **LONG, n=4, stream=True))
            await busy(server, 4)
            await leave(server, bytes_of(TEXT, **LONG, stream=streamed))
            await first.reader.readuntil(b'"text"')

    asyncio.run(story())
    server.wait_until_idle(FREE_WITHIN_S)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_ends_its_half_is_answered(server, streamed):
    fields = {
        "prompt": "One, two,",
        "max_tokens": 40,
        "temperature": 0,
        "ignore_eos": True,
    }
    expected = answer(server, TEXT, **fields)["choices"][0]["text"]

    async def story():
        async with RawClient(server.root) as raw:
            await raw.send(bytes_of(TEXT, **fields, stream=streamed))
            raw.writer.write_eof()
            return await raw.answer()

    found = asyncio.run(story())
    assert found.status == 200
    if streamed:
        events = [line[6:] for line in found.body.decode().split("\n\n") if line]
        assert events.pop() == "[DONE]"
        texts = [json.loads(event)["choices"][0]["text"] for event in events]
        assert "".join(texts) == expected
    else:
        assert found.json()["choices"][0]["text"] == expected


def test_a_reader_that_stalls_blocks_nobody(server):
    async def story():
        async with RawClient(server.root) as stalled:
            stalled.stop_reading()
            await stalled.send(bytes_of(TEXT, **LONG, stream=True, logprobs=20))
            await busy(server)
            async with httpx.AsyncClient(timeout=30) as client:
                body = {"prompt": "Hi", "max_tokens": 5, "temperature": 0}
                response = await client.post(server.root + TEXT, json=body)
                assert response.status_code == 200

    asyncio.run(story())
    server.wait_until_idle(FREE_WITHIN_S)


def test_clients_that_come_and_go_at_random_leave_answers_as_they_were(server):
    """Twenty seconds of it, three at a time, in every phase of a request."""
    fields = {
        "messages": [{"role": "user", "content": "Name three rivers."}],
        "max_tokens": 12,
        "temperature": 1.0,
        "seed": 5,
        "logprobs": True,
    }
    expected = without_times(answer(server, CHAT, **fields))
    choice = random.Random(7)
    words = [" ".join(choice.choices("abcdefghij", k=200)) for _ in range(5)]

    async def visitor(number):
        dice = random.Random(number)
        for _ in range(12):
            said = dice.choice(words)
            route = dice.choice([TEXT, CHAT])
            own: dict[str, Any] = {"prompt": said, "n": dice.choice([1, 3])}
            if route == CHAT:
                own = {"messages": [{"role": "user", "content": said}]}
            streamed = dice.random() < 0.5
            data = bytes_of(route, **own, stream=streamed, max_tokens=100, seed=number)
            async with RawClient(server.root) as raw:
                await raw.send(data)
                await asyncio.sleep(dice.random() * 0.5)

    async def watcher():
        async with httpx.AsyncClient(timeout=30) as client:
            for _ in range(8):
                response = await client.post(server.root + CHAT, json=fields)
                assert without_times(response.json()) == expected
                health = await client.get(server.root + "/health", timeout=2)
                assert health.status_code == 200

    async def everyone():
        await asyncio.gather(*(visitor(i) for i in range(3)), watcher())

    asyncio.run(everyone())
    server.wait_until_idle(FREE_WITHIN_S)
    assert without_times(answer(server, CHAT, **fields)) == expected
