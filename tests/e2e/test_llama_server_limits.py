"""llama-server's routes of a server with little room, a key, and shown prompts."""

from __future__ import annotations

import httpx
import pytest

from tests.support.native_http import LIMIT_S
from tests.support.server import running_server

N_CTX = 256
KEY = {"Authorization": "Bearer secret"}
WORD = 504


@pytest.fixture(scope="module")
def server(smollm2_path, tmp_path_factory):
    """The same model with little room, so that going to its end does not take long."""
    flags = ("-np", "4", "-c", str(N_CTX), "-t", "1", "--api-key", "secret")
    states = str(tmp_path_factory.mktemp("states"))
    with running_server(
        smollm2_path, *flags, "--show-prompts", "--cache-dir", states
    ) as process:
        yield process


def ask(server, path, body=None, headers=KEY):
    method = "GET" if body is None else "POST"
    return httpx.request(
        method, server.root + path, json=body, headers=headers, timeout=LIMIT_S
    )


def test_a_prompt_that_leaves_room_for_one_token_gets_one(server):
    body = {"prompt": [WORD] * (N_CTX - 1), "temperature": 0}
    found = ask(server, "/completion", body).json()
    assert (found["stop_type"], found["truncated"]) == ("limit", True)
    assert found["tokens_predicted"] == 1
    assert found["tokens_cached"] == N_CTX - 1


def test_an_answer_without_limit_ends_where_the_context_does(server):
    body = {"prompt": [WORD], "n_predict": -1, "temperature": 0, "ignore_eos": True}
    found = ask(server, "/completion", body).json()
    assert (found["stop_type"], found["truncated"]) == ("limit", True)
    assert found["tokens_evaluated"] + found["tokens_predicted"] == N_CTX


@pytest.mark.parametrize("n", [N_CTX, N_CTX + 1, 10 * N_CTX])
@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_does_not_fit_is_refused_with_both_numbers(server, n, stream):
    response = ask(server, "/completion", {"prompt": [WORD] * n, "stream": stream})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "exceed_context_size_error"
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (n, N_CTX)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/slots", None),
        ("/props", None),
        ("/metrics", None),
        ("/v1/metrics", None),
        ("/tokenize", {"content": "a"}),
        ("/completion", {"prompt": "a", "n_predict": 1}),
    ],
)
def test_a_key_is_asked_for(server, path, body):
    response = ask(server, path, body, headers={})
    assert response.status_code == 401
    assert response.json()["error"]["type"] == "authentication_error"
    for headers in (KEY, {"X-Api-Key": "secret"}):
        assert ask(server, path, body, headers=headers).status_code == 200


def test_prompts_are_shown_where_the_operator_asked_for_it(server):
    body = {"prompt": "The word is heliotrope", "n_predict": 1, "id_slot": 3}
    assert ask(server, "/completion", body).status_code == 200
    slot = ask(server, "/slots").json()[3]
    assert slot["prompt"] == "The word is heliotrope"
