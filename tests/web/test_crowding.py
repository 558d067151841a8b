"""Many connections at once: who is idle or slow gives way, who is answered never does."""

import asyncio
import contextlib
import errno
import json
import logging
import socket

import pytest

from kinetic.web.http import connection, crowd, door, room
from kinetic.web.http.crowd import Crowd, Room, Stage
from tests.support.raw_http import RawClient, exchange, request
from tests.support.web_app import Script, delta, finished, talk

CHAT = "/v1/chat/completions"
HI = {"messages": [{"role": "user", "content": "hi"}]}
STREAM = json.dumps({**HI, "stream": True}).encode()
MODELS = request("GET", "/v1/models")
HALF = b"GET /v1/models HTTP/1.1\r\nHost: loc"


class Held(Script):
    """A script whose answers wait to be let go."""

    def let_go(self, *events):
        for sink in self._sinks.values():
            for event in events:
                sink.put(event)


@contextlib.asynccontextmanager
async def clients(client, count, data=b"", *, read=False):
    """So many connections, each of which has sent the same."""
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for _ in range(count):
            raw = await stack.enter_async_context(RawClient(client.url))
            found.append(raw)
            if data:
                await raw.send(data)
            if read:
                await raw.answer()
        yield found


async def status(client, data=MODELS):
    return (await exchange(client.url, data)).status


async def is_closed(raw):
    async with asyncio.timeout(10):
        return await raw.reader.read() == b""


@pytest.fixture
def few_senders(monkeypatch):
    monkeypatch.setattr(room, "SENDERS", 4)
    monkeypatch.setattr(crowd, "GRACE_S", dict.fromkeys(crowd.GRACE_S, 0.1))


# --- Idle connections ---------------------------------------------------------------


def test_idle_connections_give_way_the_oldest_first():
    async def story(client):
        async with clients(client, 3, MODELS, read=True) as (first, second, third):
            # The first is used again, so the second is idle for longest now.
            await first.send(MODELS)
            await first.answer()
            assert await status(client) == 200
            assert await is_closed(second)
            for raw in (first, third):
                await raw.send(MODELS)
                assert (await raw.answer()).status == 200

    talk(story, Script(), options={"max_connections": 3})


def test_a_hundred_idle_connections_keep_nobody_out():
    async def story(client):
        async with clients(client, 100, MODELS, read=True):
            for path in ("/health", "/v1/models", "/api/tags", "/metrics"):
                data = request("GET", path)
                assert await status(client, data) in {200, 500}

    talk(story, Script(), options={"max_connections": 64})


def test_one_that_has_begun_its_next_request_gives_way_last():
    async def story(client):
        async with clients(client, 2, MODELS, read=True) as (older, newer):
            await older.send(HALF)
            await asyncio.sleep(0.1)  # until it is read
            assert await status(client) == 200
            assert await is_closed(newer)
            await older.send(b"alhost\r\n\r\n")
            assert (await older.answer()).status == 200

    talk(story, Script(), options={"max_connections": 2})


def test_half_a_next_request_keeps_nobody_out():
    async def story(client):
        async with clients(client, 8, MODELS, read=True) as all_of_them:
            for raw in all_of_them:
                await raw.send(HALF)
            await asyncio.sleep(0.1)
            assert await status(client) == 200

    talk(story, Script(), options={"max_connections": 8})


def test_http_1_0_and_pipelined_requests_are_answered_at_the_limit():
    async def story(client):
        old = MODELS.replace(b"HTTP/1.1", b"HTTP/1.0")
        async with clients(client, 1, MODELS, read=True):
            async with RawClient(client.url) as raw:
                await raw.send(old)
                assert b'"object":"list"' in await raw.rest()
            async with RawClient(client.url) as raw:
                await raw.send(MODELS * 5)
                for _ in range(5):
                    assert (await raw.answer()).status == 200

    talk(story, Script(), options={"max_connections": 1})


# --- Answers that are made ----------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/models", lambda error: error["message"]),
        ("/nope", lambda error: error["message"]),
        ("/api/tags", lambda error: error),
        ("/props", lambda error: error["message"] if error["code"] == 503 else ""),
    ],
)
def test_answers_that_are_made_never_give_way(path, shape):
    script = Held([delta("Hel")])

    async def story(client):
        async with clients(client, 2, request("POST", CHAT, STREAM)) as streaming:
            for raw in streaming:
                await raw.reader.readuntil(b'"Hel"')
            for _ in range(3):
                full = await exchange(client.url, request("GET", path))
                assert full.status == 503
                assert full.headers["retry-after"] == "1"
                assert full.headers["connection"] == "close"
                assert full.headers["x-request-id"]
                assert "--max-connections" in shape(full.json()["error"])
                health = await exchange(client.url, request("GET", "/health"))
                assert health.status == 200
                assert health.headers["connection"] == "close"
            assert await status(client, request("OPTIONS", path)) == 204
            script.let_go(delta("lo"), finished())
            for raw in streaming:
                assert b"[DONE]" in await raw.reader.readuntil(b"[DONE]")
            assert await status(client) == 200

    talk(story, script, options={"max_connections": 2})
    assert script.cancelled == []


def test_the_key_is_asked_for_before_and_after():
    async def story(client):
        assert await status(client) == 401
        assert await status(client, request("GET", "/health")) == 200

    talk(story, Script(), options={"max_connections": 1, "api_keys": ("K",)})


def test_an_answer_that_nobody_reads_is_given_up(monkeypatch):
    monkeypatch.setattr(connection, "WRITE_S", 0.2)
    whole = json.dumps(HI).encode()

    async def story(client):
        async with RawClient(client.url) as raw:
            raw.stop_reading()
            await raw.send(request("POST", CHAT, whole))
            async with asyncio.timeout(10):
                while await status(client) != 200:  # noqa: ASYNC110 - nothing tells
                    await asyncio.sleep(0.02)

    text = "x" * (16 << 20)
    talk(story, Script([delta(text), finished()]), options={"max_connections": 1})


# --- Those that send nothing, or slowly ---------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"G",
        HALF,
        request("POST", CHAT, headers={"Content-Length": "500"}),
        request("POST", CHAT, headers={"Content-Length": "500"}) + b"{",
        request("POST", CHAT, headers={"Transfer-Encoding": "chunked"}) + b"5\r\n{",
    ],
    ids=["silent", "a byte", "half a head", "no body", "a body's byte", "a chunk"],
)
@pytest.mark.usefixtures("few_senders")
def test_those_that_send_no_whole_request_keep_nobody_out(data):
    async def story(client):
        async with clients(client, 40, data) as slow:
            for path in ("/health", "/v1/models"):
                assert await status(client, request("GET", path)) == 200
            assert await is_closed(slow[0])

    talk(story, Script(), options={"max_connections": 2})


@pytest.mark.usefixtures("few_senders")
def test_those_that_trickle_keep_nobody_out():
    async def trickle(raw):
        with contextlib.suppress(ConnectionError):
            while True:
                await raw.send(b"x")
                await asyncio.sleep(0.02)

    async def story(client):
        async with clients(client, 12, HALF) as slow:
            tasks = [asyncio.create_task(trickle(raw)) for raw in slow]
            for _ in range(5):
                assert await status(client) == 200
            for task in tasks:
                task.cancel()

    talk(story, Script(), options={"max_connections": 2})


@pytest.mark.usefixtures("few_senders")
def test_a_rush_of_good_clients_is_answered_every_one():
    async def story(client):
        found = await asyncio.gather(*(status(client) for _ in range(200)))
        assert found == [200] * 200

    talk(story, Script(), options={"max_connections": 20})


@pytest.mark.usefixtures("few_senders")
def test_a_large_body_that_comes_fast_enough_gives_way_to_nobody(monkeypatch):
    monkeypatch.setitem(crowd.GRACE_S, Stage.BODY, 1.0)
    body = json.dumps({"messages": [{"role": "user", "content": "x" * (1 << 20)}]})
    head = request(
        "POST",
        CHAT,
        headers={"Content-Length": str(len(body)), "Content-Type": "application/json"},
    )

    async def story(client):
        async with clients(client, 1, head) as (upload,), clients(client, 40):
            for i in range(0, len(body), 128 << 10):
                await upload.send(body[i : i + (128 << 10)].encode())
                await asyncio.sleep(0.2)
            assert (await upload.answer()).status == 200

    talk(story, Script(), options={"max_connections": 2})


@pytest.mark.usefixtures("few_senders")
def test_silent_ones_disturb_no_stream():
    script = Held([delta("Hel")])

    async def story(client):
        async with clients(client, 2, request("POST", CHAT, STREAM)) as streaming:
            for raw in streaming:
                await raw.reader.readuntil(b'"Hel"')
            async with clients(client, 40):
                assert await status(client, request("GET", "/health")) == 200
            script.let_go(finished())
            for raw in streaming:
                await raw.reader.readuntil(b"[DONE]")

    talk(story, script, options={"max_connections": 2})


def test_a_client_that_has_not_sent_for_the_time_given_is_closed():
    async def story(client):
        async with clients(client, 1) as (silent,), clients(client, 1, HALF) as (half,):
            assert await is_closed(silent)
            assert await is_closed(half)

    talk(story, Script(), options={"request_timeout_s": 0.2})


# --- Who gives way, decided ---------------------------------------------------------


class Guest:
    def __init__(self, crowd, *, unread=False, part=False):
        self._crowd = crowd
        self._unread = unread
        self._part = part
        self.is_closed = False

    def has_unread(self):
        return self._unread

    def has_part(self):
        return self._part

    def close(self):
        self.is_closed = True
        self._crowd.leave(self)


def crowd_of(*guests, n_answers=2, n_senders=2):
    """A crowd, and those who came to each stage at its time."""
    everyone = Crowd(Room(n_answers=n_answers, n_senders=n_senders))
    found = []
    for stage, at_s, traits in guests:
        guest = Guest(everyone, **traits)
        everyone.move(guest, stage, at_s)
        found.append(guest)
    return everyone, found


@pytest.mark.parametrize(
    ("guests", "now_s", "lets_in", "closed"),
    [
        ([(Stage.HEAD, 0, {})], 0, True, []),
        ([(Stage.HEAD, 0, {}), (Stage.HEAD, 0, {})], 0.2, False, []),
        ([(Stage.HEAD, 0, {}), (Stage.HEAD, 0, {})], 1, True, [0]),
        ([(Stage.BODY, 0, {}), (Stage.HEAD, 0, {})], 1, True, [1]),
        ([(Stage.BODY, 0, {}), (Stage.BODY, 0, {})], 0.9, False, []),
        ([(Stage.BODY, 0, {}), (Stage.BODY, 0.5, {})], 1, True, [0]),
        ([(Stage.HEAD, 0, {"unread": True}), (Stage.HEAD, 1, {})], 2, True, [1]),
        ([(Stage.LEAVING, 0, {}), (Stage.HEAD, 1.4, {})], 1.5, True, [0]),
        (
            [(Stage.ANSWER, 0, {}), (Stage.IDLE, 0, {}), (Stage.HEAD, 0, {})],
            9,
            True,
            [],
        ),
    ],
)
def test_one_more_may_come(guests, now_s, lets_in, closed):
    everyone, found = crowd_of(*guests)
    assert everyone.lets_in(now_s) is lets_in
    assert [i for i, guest in enumerate(found) if guest.is_closed] == closed


@pytest.mark.parametrize(
    ("guests", "lets_answer", "closed"),
    [
        ([(Stage.ANSWER, 0, {}), (Stage.BODY, 0, {})], True, []),
        ([(Stage.ANSWER, 0, {}), (Stage.ANSWER, 0, {})], False, []),
        ([(Stage.IDLE, 1, {}), (Stage.ANSWER, 0, {})], True, [0]),
        ([(Stage.IDLE, 1, {}), (Stage.IDLE, 2, {})], True, [0]),
        ([(Stage.IDLE, 1, {"part": True}), (Stage.IDLE, 2, {})], True, [1]),
        ([(Stage.IDLE, 1, {"part": True}), (Stage.ANSWER, 2, {})], True, [0]),
        ([(Stage.IDLE, 1, {"unread": True}), (Stage.ANSWER, 2, {})], False, []),
    ],
)
def test_one_more_may_be_answered(guests, lets_answer, closed):
    everyone, found = crowd_of(*guests)
    assert everyone.lets_answer() is lets_answer
    assert [i for i, guest in enumerate(found) if guest.is_closed] == closed


def test_who_left_is_at_nothing():
    everyone, (guest,) = crowd_of((Stage.IDLE, 0, {}))
    assert everyone.stage_of(guest) is Stage.IDLE
    everyone.leave(guest)
    everyone.leave(guest)
    assert everyone.stage_of(guest) is None


# --- Nothing left to open -----------------------------------------------------------


class Exhausted:
    """A listening socket whose accept fails for a while."""

    def __init__(self, inner: socket.socket, code: int) -> None:
        self._inner = inner
        self.error: OSError | None = OSError(code, "Too many open files")
        self.n_tries = 0

    def fileno(self):
        return self._inner.fileno()

    def accept(self):
        self.n_tries += 1
        if self.error is not None:
            raise self.error
        return self._inner.accept()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS])
def test_while_nothing_can_be_opened_the_door_waits_and_says_so_once(code, caplog):
    caplog.set_level(logging.WARNING, "kinetic")

    async def story():
        everyone, (idle,) = crowd_of((Stage.IDLE, 0, {}))
        taken = []
        with socket.create_server(("127.0.0.1", 0)) as inner:
            inner.setblocking(False)
            listening = Exhausted(inner, code)
            one = door.Door(listening, everyone, lambda c, _: taken.append(c))
            with socket.create_connection(inner.getsockname()):
                async with asyncio.timeout(10):
                    while listening.n_tries < 5:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                    assert idle.is_closed
                    listening.error = None
                    while not taken:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
            one.close()
            taken[0].close()

    asyncio.run(story())
    assert [r.getMessage() for r in caplog.records] == [
        "new connections wait: Too many open files"
    ]


# --- How many fit -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_files", "asked", "n_answers", "n_senders"),
    [
        (1024, None, 256, 64),
        (384, None, 256, 64),
        (256, None, 144, 48),
        (80, None, 12, 4),
        (1024, 10, 10, 64),
        (1024, 896, 896, 64),
    ],
)
def test_the_room_fits_the_files_that_may_be_open(n_files, asked, n_answers, n_senders):
    found = room.fit(n_files, asked)
    assert found == Room(n_answers=n_answers, n_senders=n_senders)
    assert n_answers + n_senders + room.RESERVE <= n_files


@pytest.mark.parametrize(("n_files", "asked"), [(79, None), (256, 145), (1024, 897)])
def test_what_does_not_fit_is_refused_with_both_numbers(n_files, asked):
    with pytest.raises(room.LimitError, match=str(n_files)) as error:
        room.fit(n_files, asked)
    assert asked is None or f"--max-connections {asked}" in str(error.value)
