"""Flags that say which hosts and which web pages are served."""

import pytest

from kinetic.cli.options import serve_options
from kinetic.cli.program import parser
from kinetic.errors import ModelError
from tests.support.raw_http import exchange, request
from tests.support.web_app import Script, talk


def options(tmp_path, *flags):
    model = tmp_path / "m.gguf"
    model.touch()
    return serve_options(parser().parse_args(["serve", str(model), *flags]))


def test_hosts_are_kept_as_they_are_compared(tmp_path):
    flags = ("--allowed-host", "LLM.Example.com.", "--allowed-host", "[2001:DB8::1]")
    found = options(tmp_path, *flags).allowed_hosts
    assert found == ("llm.example.com", "2001:db8::1")


@pytest.mark.parametrize("name", ["llm:8080", "http://llm", "*", "llm/x", ""])
def test_what_is_no_host_is_refused_at_start(name, tmp_path):
    with pytest.raises(ModelError, match="--allowed-host"):
        options(tmp_path, "--allowed-host", name)


def test_origins_are_taken_with_a_slash_at_the_end(tmp_path):
    flags = ("--cors-origin", "https://app.example/", "--cors-origin", "*")
    assert options(tmp_path, *flags).cors_origins == ("https://app.example", "*")


@pytest.mark.parametrize(
    "origin", ["app.example", "https://app.example/x", "null", "https://*.example", ""]
)
def test_what_is_no_origin_is_refused_at_start(origin, tmp_path):
    with pytest.raises(ModelError, match="--cors-origin"):
        options(tmp_path, "--cors-origin", origin)


def test_a_host_allowed_by_name_is_answered():
    answers = []

    async def story(client):
        for host in ("llm.example.com:8443", "evil.example"):
            data = request("GET", "/v1/models", host=host)
            answers.append((await exchange(client.url, data)).status)

    talk(story, Script(), options={"allowed_hosts": ("llm.example.com",)})
    assert answers == [200, 403]
