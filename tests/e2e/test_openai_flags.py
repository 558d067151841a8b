"""What the flags of `kinetic serve` change of the OpenAI routes."""

import httpx
import openai
import pytest
from openai import OpenAI

from tests.support import tiny_models
from tests.support.openai_http import CHAT, TEXT
from tests.support.server import ServerProcess, running_server

HI = [{"role": "user", "content": "Hi"}]
APP = "https://app.example"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A tiny model that recommends its own sampling, behind keys."""
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text("# whose it is\nfrom-file\n\nsk-Bearer x\n")
    flags = ["-np", "2", "-c", "256", "-t", "1", "-n", "7", "--alias", "my-model"]
    flags += ["--api-key", "first", "--api-key", "second", "--api-key-file", str(keys)]
    flags += ["--cors-origin", APP, "--cache-dir", str(tmp_path_factory.mktemp("s"))]
    model = tiny_models.with_sampling_defaults({"temp": 0.5, "top_k": 3})
    with running_server(model, *flags) as process:
        yield process


def client(server, key="first"):
    return OpenAI(base_url=server.base_url, api_key=key, max_retries=0, timeout=50)


def text(server, **fields):
    body = {"prompt": "a", "max_tokens": 20, "ignore_eos": True, "seed": 1, **fields}
    headers = {"Authorization": "Bearer first"}
    response = httpx.post(server.root + TEXT, json=body, headers=headers, timeout=50)
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["text"]


def test_the_files_recommended_sampling_is_the_default(server):
    told = text(server)
    assert told == text(server, temperature=0.5, top_k=3)
    assert told == text(server, temperature=None, top_k=None)
    others = {text(server, temperature=0.8, top_k=40), text(server, top_k=40)}
    assert told not in others


@pytest.mark.parametrize("key", ["first", "second", "from-file", "sk-Bearer x"])
def test_every_key_that_was_given_opens(server, key):
    with client(server, key) as opened:
        assert opened.models.list().data[0].id == "my-model"


@pytest.mark.parametrize("key", ["third", "# whose it is", "First"])
def test_any_other_key_is_an_authentication_error(server, key):
    with client(server, key) as opened, pytest.raises(openai.AuthenticationError) as no:
        opened.chat.completions.create(model="any", messages=HI)
    assert no.value.code == "invalid_api_key"


def test_health_needs_no_key_and_a_broken_body_is_not_read_without_one(server):
    assert server.health()["status"] == "ok"
    headers = {"Content-Type": "application/json", "Authorization": "Bearer wrong"}
    response = httpx.post(server.root + CHAT, content=b"{broken", headers=headers)
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_an_answer_without_a_limit_of_its_own_has_the_servers(server):
    with client(server) as opened:
        found = opened.chat.completions.create(
            model="any", messages=HI, extra_body={"ignore_eos": True}
        )
        assert found.usage.completion_tokens == 7
        assert found.model == "my-model"


def test_pages_of_the_named_origin_may_stream(server):
    headers = {"Origin": APP, "Authorization": "Bearer first"}
    body = {"messages": HI, "stream": True, "max_tokens": 2}
    answer = httpx.post(server.root + CHAT, json=body, headers=headers, timeout=50)
    assert answer.headers["Access-Control-Allow-Origin"] == APP
    headers["Origin"] = "https://evil.example"
    assert httpx.post(server.root + CHAT, json=body, headers=headers).status_code == 403


def test_requests_are_logged_by_counts_and_neither_prompts_nor_keys_are(server):
    secret = "a-word-nobody-else-uses"
    with client(server) as opened:
        found = opened.chat.completions.create(
            model="any", messages=[{"role": "user", "content": secret}], max_tokens=2
        )
    ended = server.wait_for_log(f"{found.id} ends")
    assert "answer tokens 2" in ended
    log = "\n".join(server.log)
    assert f"{found.id} begins: /v1/chat/completions, choices 1" in log
    for word in (secret, "from-file", "Bearer"):
        assert word not in log


@pytest.mark.parametrize(("flags", "warned"), [((), True), (("--api-key", "k"), False)])
def test_listening_for_others_without_a_key_is_warned_of(flags, warned, tmp_path):
    model = tiny_models.qwen3()
    more = ("--host", "0.0.0.0", "-c", "64", "-np", "1", "-t", "1")
    with ServerProcess(model, *more, *flags, "--cache-dir", str(tmp_path)) as process:
        process.wait_until_serving()
        assert process.stop() == 0
    assert ("without --api-key" in "\n".join(process.log)) == warned
