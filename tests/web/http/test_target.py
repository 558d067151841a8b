"""Whole addresses as targets: answered as their path, and their host is the one checked."""

import json

import pytest

from kinetic.web.http.target import origin_form
from tests.support.raw_http import exchange, request
from tests.support.web_app import Script, talk

CHAT = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()


@pytest.mark.parametrize(
    ("method", "target", "found"),
    [
        ("GET", "/v1/models?a=b", ("/v1/models?a=b", None)),
        ("GET", "http://host/v1/models?a=b", ("/v1/models?a=b", "host")),
        ("GET", "HTTP://Host:80/v1", ("/v1", "Host:80")),
        ("GET", "https://[::1]:8080/", ("/", "[::1]:8080")),
        ("GET", "http://host", ("/", "host")),
        ("GET", "http://host?a", ("/?a", "host")),
        ("GET", "http://host//v1", ("//v1", "host")),
        ("GET", "/x?u=http://other/y", ("/x?u=http://other/y", None)),
        ("GET", "ftp://host/v1", ("ftp://host/v1", None)),
        ("OPTIONS", "http://host", ("*", "host")),
        ("OPTIONS", "http://host/", ("/", "host")),
        ("OPTIONS", "*", ("*", None)),
    ],
)
def test_a_target_is_read_in_every_form(method, target, found):
    assert origin_form(method, target) == found


def ask(*requests, **options):
    answers = []

    async def story(client):
        answers.extend([await exchange(client.url, data) for data in requests])

    talk(story, Script(), options=options)
    return answers


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/models", b""),
        ("GET", "/v1/models/tiny", b""),
        ("GET", "/health", b""),
        ("POST", "/v1/chat/completions", CHAT),
        ("POST", "/v1/chat/completions", b"{"),
        ("GET", "/v1//models", b""),
        ("GET", "/nope", b""),
        ("OPTIONS", "/v1/models", b""),
        ("GET", "/slots?fail_on_no_slot=1", b""),
    ],
)
def test_a_whole_address_is_answered_as_its_path(method, path, body):
    plain, absolute, other_host = ask(
        request(method, path, body),
        request(method, f"http://localhost:1234{path}", body),
        # The target's host counts, not the header's.
        request(method, f"http://127.0.0.1{path}", body, host="evil.example"),
    )
    assert absolute.status == other_host.status == plain.status
    assert absolute.headers.keys() == plain.headers.keys()


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "[::1].evil.example",
        "user@localhost",
        "localhost:65536",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/v1/models", "/health", "/nope", "/api/tags"])
def test_the_host_of_a_whole_address_is_checked_whatever_the_header_says(host, path):
    (answer,) = ask(request("GET", f"http://{host}{path}", host="localhost"))
    assert answer.status in {400, 403}


def test_a_whole_address_needs_the_key_too():
    (answer,) = ask(request("GET", "http://localhost/v1/models"), api_keys=("K",))
    assert answer.status == 401


@pytest.mark.parametrize(
    "target",
    ["*", "v1/models", "/v1/models#x", "/v1/%6dodels", "ftp://localhost/v1/models"],
)
def test_any_other_target_is_a_json_404(target):
    (answer,) = ask(request("GET", target))
    assert answer.status == 404
    assert answer.json()["error"]["type"] == "not_found_error"


def test_options_of_the_whole_server_is_answered():
    for answer in ask(request("OPTIONS", "*"), request("OPTIONS", "http://localhost")):
        assert answer.status == 204
        assert "OPTIONS" in answer.headers["allow"]
