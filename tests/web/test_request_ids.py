"""Every answer names its request, whatever became of it."""

import json
import re

import pytest

from kinetic.web.routes import all_routes
from tests.support.raw_http import exchange, request
from tests.support.web_app import Script, talk

PATHS = sorted({path for path, _ in all_routes() if "(" not in path})
CHAT = "/v1/chat/completions"
HI = {"messages": [{"role": "user", "content": "hi"}]}
ORIGIN = {"Origin": "http://localhost:3000"}


def answers_to(requests, **options):
    answers = []

    async def story(client):
        answers.extend(
            [
                await exchange(client.url, data, has_body=not data.startswith(b"HEAD"))
                for data in requests
            ]
        )

    talk(story, Script(), options=options)
    return answers


def id_of(answer):
    found = answer.headers["x-request-id"]
    assert re.fullmatch(r"[a-z]+-[0-9a-f]{24}", found), found
    return found


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "PUT", "OPTIONS"])
def test_every_route_names_the_request_whatever_the_method(method):
    requests = [request(method, path) for path in [*PATHS, "/nope", "/api/nope"]]
    ids = [id_of(answer) for answer in answers_to(requests)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("status", "data"),
    [
        (200, request("POST", CHAT, json.dumps(HI).encode())),
        (200, request("POST", CHAT, json.dumps({**HI, "stream": True}).encode())),
        (204, request("OPTIONS", CHAT, headers=ORIGIN)),
        (400, request("POST", CHAT, b"{")),
        (400, b"hello\r\n\r\n"),
        (400, request("POST", CHAT, headers={"Content-Length": "five"})),
        (401, request("GET", "/v1/models")),
        (403, request("GET", CHAT, host="evil.example")),
        (403, request("GET", CHAT, headers={"Origin": "null"})),
        (404, request("GET", "/nope")),
        (405, request("GET", CHAT)),
        (413, request("POST", CHAT, b"{" + b" " * (1 << 20))),
        (413, request("POST", CHAT, headers={"Content-Length": "99999999999"})),
        (415, request("POST", CHAT, b"{}", {"Content-Type": "text/plain"})),
    ],
)
def test_every_status_names_the_request(status, data):
    keys = ("K",) if status == 401 else ()
    (answer,) = answers_to([data], max_body_bytes=1 << 20, api_keys=keys)
    assert answer.status == status
    id_of(answer)


@pytest.mark.parametrize(
    ("path", "body", "prefix"),
    [
        (CHAT, HI, "chatcmpl-"),
        ("/v1/completions", {"prompt": "hi"}, "cmpl-"),
        ("/completion", {"prompt": "hi"}, "completion-"),
        ("/api/chat", {"model": "tiny", **HI}, "ollama-"),
        ("/v1/prefill", HI, "prefill-"),
        ("/v1/models", None, "req-"),
    ],
)
def test_the_name_is_the_one_that_the_log_uses(path, body, prefix, caplog):
    caplog.set_level("INFO", "kinetic")
    method, data = ("GET", b"") if body is None else ("POST", json.dumps(body).encode())
    (answer,) = answers_to([request(method, path, data)])
    assert answer.status == 200
    found = id_of(answer)
    assert found.startswith(prefix)
    assert prefix in {"req-", "prefill-"} or f"{found} begins" in caplog.text
    if path.startswith("/v1/c"):
        assert answer.json()["id"] == found


def test_a_web_page_may_read_it():
    (answer,) = answers_to([request("GET", "/v1/models", headers=ORIGIN)])
    assert answer.headers["access-control-expose-headers"] == "X-Request-Id"
