"""Heads that no client library would send: each gets an answer all the same."""

import pytest

from tests.support.raw_http import RawClient, request
from tests.support.web_app import Script, talk

CHAT = "/v1/chat/completions"


def answered(data, *, ends_half=False):
    """The answer to some bytes on a connection of their own."""
    answers = []

    async def story(client):
        async with RawClient(client.url) as raw:
            await raw.send(data)
            if ends_half:
                raw.writer.write_eof()
            answers.append(await raw.answer())

    talk(story, Script(), options={})
    return answers[0]


@pytest.mark.parametrize("length", ["²", "٣", "1²", "+5", "-5", "0x5", "5 5"])
def test_a_length_that_is_no_number_is_refused_in_words(length, caplog):
    data = request("POST", CHAT, b"{}", {"Content-Length": length})
    # Header text is latin-1 on the wire.
    data = data.replace("²".encode(), b"\xb2")
    answer = answered(data)
    assert answer.status == 400
    assert answer.json()["error"]["message"] == "the request is not valid HTTP/1.1"
    assert "Traceback" not in caplog.text
    assert not [r for r in caplog.records if r.exc_info]


@pytest.mark.parametrize("size", [80_000, 140_000, 200_000])
def test_a_long_head_is_answered_though_its_client_ends_its_half(size):
    data = request("GET", "/v1/models", headers={"X-Filler": "a" * size})
    assert answered(data, ends_half=True).status == 200


def test_half_a_head_is_no_request():
    async def story(client):
        async with RawClient(client.url) as raw:
            await raw.send(request("GET", "/v1/models")[:-2])
            raw.writer.write_eof()
            assert await raw.rest() == b""

    talk(story, Script(), options={})
