"""What happens on the wire: bodies of every make, half-closed and closed connections."""

import asyncio
import gzip
import json

import pytest

from kinetic.errors import ClientGone
from tests.support.raw_http import RawClient, exchange, request
from tests.support.web_app import Script, delta, finished, talk

CHAT = "/v1/chat/completions"
BODY = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
STREAM = json.dumps(
    {"messages": [{"role": "user", "content": "hi"}], "stream": True}
).encode()


def told(story, script=None, **options):
    """Run a story against a served script; the script."""
    script = script or Script()
    talk(story, script, options=options)
    return script


def answered(data, script=None, **options):
    """The answer to some bytes on a connection of their own."""
    answers = []

    async def story(client):
        answers.append(await exchange(client.url, data))

    told(story, script, **options)
    return answers[0]


def is_openai_error(answer, status):
    assert answer.status == status, answer
    assert answer.headers["content-type"].startswith("application/json")
    error = answer.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    return error["message"]


# --- Bodies -------------------------------------------------------------------------


def chunked(body, size):
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return (
        b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    )


def chunked_request(body, size=7):
    head = {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    return request("POST", CHAT, headers=head) + chunked(body, size)


def test_a_body_in_chunks_is_read():
    assert answered(chunked_request(BODY)).status == 200


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=UTF-8",
        "Application/JSON",
        "application/problem+json",
        "application/json;charset=utf-8",
    ],
)
def test_json_is_known_whatever_its_case_and_parameters(content_type):
    data = request("POST", CHAT, BODY, {"Content-Type": content_type})
    assert answered(data).status == 200


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
        "application/jsonp",
        "text/json",
    ],
)
def test_a_body_that_is_not_sent_as_json_is_refused(content_type):
    data = request("POST", CHAT, BODY, {"Content-Type": content_type})
    assert "application/json" in is_openai_error(answered(data), 415)


def test_a_body_without_a_content_type_is_refused():
    head = {"Host": "localhost", "Content-Length": str(len(BODY))}
    lines = [f"POST {CHAT} HTTP/1.1", *(f"{k}: {v}" for k, v in head.items()), "", ""]
    is_openai_error(answered("\r\n".join(lines).encode() + BODY), 415)


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "GZIP"])
def test_a_compressed_body_is_refused_by_name(encoding):
    data = request("POST", CHAT, gzip.compress(BODY), {"Content-Encoding": encoding})
    assert encoding.lower() in is_openai_error(answered(data), 415)


def test_expect_100_continue_is_answered_before_the_body_is_sent():
    async def story(client):
        async with RawClient(client.url) as raw:
            head = {
                "Expect": "100-continue",
                "Content-Type": "application/json",
                "Content-Length": str(len(BODY)),
            }
            await raw.send(request("POST", CHAT, headers=head))
            assert (await raw.answer(has_body=False)).status == 100
            await raw.send(BODY)
            assert (await raw.answer()).status == 200

    told(story)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"5", b'"x"', b"null", b'{"messages":NaN}', b"\xff\xfe{}", BODY.decode().encode("utf-16"), '{"prompt":"漢字"}'.encode("gbk"), b'{"messages":"\xc0\xaf"}', b'{"a":1e999}', b'{"a":' + b"9" * 5000 + b"}", b'{"messages":[{"role":"user","content":"x \\ud83d"}]}', b'{"\\ude00":1}'],
)  # fmt: skip
def test_a_body_that_is_no_json_object_is_refused(body):
    message = is_openai_error(
        answered(request("POST", CHAT, body, {"Content-Type": "application/json"})), 400
    )
    assert message.isascii()


@pytest.mark.parametrize("depth", [129, 3000, 100_000])
def test_a_body_of_many_levels_is_refused(depth):
    deep = b'{"x":' + b"[" * depth + b"]" * depth + b"}"
    assert "128" in is_openai_error(answered(request("POST", CHAT, deep)), 400)


def test_a_byte_order_mark_is_taken():
    assert answered(request("POST", CHAT, b"\xef\xbb\xbf" + BODY)).status == 200


LARGE = b'{"x":"' + b"y" * (2 << 20) + b'"}'


@pytest.mark.parametrize(
    "data", [request("POST", CHAT, LARGE), chunked_request(LARGE, 4096)]
)
def test_a_body_that_is_too_large_gets_its_answer_and_the_connection_lives(data):
    async def story(client):
        async with RawClient(client.url) as raw:
            await raw.send(data)
            assert "1 MiB" in is_openai_error(await raw.answer(), 413)
            await raw.send(request("POST", CHAT, BODY))
            assert (await raw.answer()).status == 200

    told(story, max_body_bytes=1 << 20)


@pytest.mark.parametrize(
    "head",
    [
        {"Content-Length": "99999999999"},
        {"Content-Length": "1048577", "Expect": "100-continue"},
    ],
)
def test_a_body_that_says_it_is_too_large_is_answered_before_it_is_sent(head):
    async def story(client):
        async with RawClient(client.url) as raw:
            await raw.send(request("POST", CHAT, b"", head))
            assert "1 MiB" in is_openai_error(await raw.answer(), 413)

    told(story, max_body_bytes=1 << 20)


# --- What is not HTTP ---------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        {"Content-Length": "5", "Transfer-Encoding": "chunked"},
        {"Content-Length": "5, 6"},
        {"Content-Length": "-5"},
        {"Content-Length": "five"},
        {"Transfer-Encoding": "gzip"},
    ],
)
def test_conflicting_lengths_are_refused_as_json_and_the_connection_is_closed(head):
    async def story(client):
        async with RawClient(client.url) as raw:
            head_fields = {"Content-Type": "application/json", **head}
            await raw.send(request("POST", CHAT, headers=head_fields) + b"hello")
            is_openai_error(await raw.answer(), 400)
            assert await raw.rest() == b""

    told(story)


def test_what_is_not_http_is_refused_as_json():
    is_openai_error(answered(b"hello\r\n\r\n"), 400)


# --- Connections that stay ----------------------------------------------------------


def test_a_connection_serves_on_after_errors_and_pipelined_requests_keep_their_order():
    async def story(client):
        async with RawClient(client.url) as raw:
            for _ in range(2):
                await raw.send(request("POST", CHAT, b"{"))
                is_openai_error(await raw.answer(), 400)
                await raw.send(request("GET", "/nope"))
                is_openai_error(await raw.answer(), 404)
            await raw.send(
                request("POST", CHAT, BODY)
                + request("GET", "/v1/models")
                + request("POST", CHAT, STREAM)
            )
            assert (await raw.answer()).json()["object"] == "chat.completion"
            assert (await raw.answer()).json()["object"] == "list"
            assert (await raw.answer()).body.endswith(b"data: [DONE]\n\n")

    told(story)


def test_an_upload_that_breaks_off_disturbs_nobody():
    async def story(client):
        async with RawClient(client.url) as raw:
            await raw.send(
                request("POST", CHAT, headers={"Content-Length": "500"}) + b"{"
            )
        assert (await exchange(client.url, request("POST", CHAT, BODY))).status == 200

    assert len(told(story).requests) == 1


def test_a_request_that_trickles_is_given_up():
    async def story(client):
        async with RawClient(client.url) as raw:
            await raw.send(
                request("POST", CHAT, headers={"Content-Length": "500"}) + b"{"
            )
            assert await raw.rest() == b""

    told(story, request_timeout_s=0.2)


# --- Clients that end their half, and clients that are gone -------------------------


class Held(Script):
    """A script whose last events wait to be let go."""

    def let_go(self, *events):
        (sink,) = self._sinks.values()
        for event in events:
            sink.put(event)


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it did not come to pass")


@pytest.mark.parametrize("body", [BODY, STREAM])
def test_a_client_that_ends_its_half_still_gets_its_whole_answer(body):
    script = Held([])

    async def story(client):
        async with RawClient(client.url) as raw:
            await raw.send(request("POST", CHAT, body))
            raw.writer.write_eof()
            await until(lambda: script.requests)
            # The server has had time to see the end and to find out what it means.
            await asyncio.sleep(0.3)
            assert script.cancelled == []
            script.let_go(delta("Hello"), finished())
            answer = await raw.answer()
            assert answer.status == 200
            assert b"Hello" in answer.body
            assert await raw.rest() == b""

    told(story, script)


def test_a_client_that_ends_its_half_in_a_stream_gets_the_rest():
    script = Held([delta("Hel")])

    async def story(client):
        async with RawClient(client.url) as raw:
            await raw.send(request("POST", CHAT, STREAM))
            await raw.reader.readuntil(b"\r\n\r\n")
            raw.writer.write_eof()
            await asyncio.sleep(0.3)
            script.let_go(delta("lo"), finished())
            body = await raw._chunks()
            assert b'"Hel"' in body
            assert b'"lo"' in body
            assert body.endswith(b"data: [DONE]\n\n")

    told(story, script)
    assert script.cancelled == []


@pytest.mark.parametrize(
    ("body", "events"),
    [(BODY, ()), (STREAM, ()), (BODY, (delta("Hel"),)), (STREAM, (delta("Hel"),))],
)
def test_a_client_that_is_gone_frees_its_slot_though_nothing_is_said(body, events):
    script = Script(list(events))

    async def story(client):
        async with RawClient(client.url) as raw:
            await raw.send(request("POST", CHAT, body))
            await until(lambda: script.requests)
            if body is STREAM and events:
                await raw.reader.readuntil(b'"Hel"')
        await until(lambda: script.cancelled)

    told(story, script)
    (error,) = script.cancelled
    assert isinstance(error, ClientGone)


def test_an_answer_in_plain_http_1_0_is_given_too():
    data = request("POST", CHAT, STREAM).replace(b"HTTP/1.1", b"HTTP/1.0")

    async def story(client):
        async with RawClient(client.url) as raw:
            await raw.send(data)
            assert (await raw.rest()).endswith(b"data: [DONE]\n\n")

    told(story)
