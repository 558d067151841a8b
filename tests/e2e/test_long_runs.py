"""Runs of one character that ended the process: every way in is safe."""

import httpx
import pytest

from tests.support import tiny_models
from tests.support.server import running_server

RUN = "Z" * 30_000
LIMIT_S = 60
CHAT = [{"role": "user", "content": RUN}]


@pytest.fixture(scope="module")
def server():
    flags = ("-t", "1", "-c", "512", "--no-probe", "--ollama", "--max-body", "64")
    with running_server(tiny_models.with_pre_tokenizer("tekken"), *flags) as process:
        yield process


@pytest.fixture
def post(server):
    """Posts a body; the answer, after which the server must be alive."""

    def send(route, **body):
        body["model"] = httpx.get(f"{server.base_url}/models").json()["data"][0]["id"]
        answer = httpx.post(server.root + route, json=body, timeout=LIMIT_S)
        assert server.is_alive
        assert server.health()["status"] == "ok"
        return answer

    return send


@pytest.mark.parametrize("parse_special", [True, False])
@pytest.mark.parametrize("unit", ["Z", "漢", ".", "=", "1", " ", "\n", "'", "🦊"])
def test_a_run_is_tokenised_and_comes_back(post, unit, parse_special):
    text = unit * 30_000
    ids = post("/tokenize", content=text, parse_special=parse_special).json()["tokens"]
    assert post("/detokenize", tokens=ids).json()["content"] == text


@pytest.mark.parametrize(
    ("route", "body", "status"),
    [
        ("/v1/chat/completions", {"messages": CHAT}, 400),
        ("/v1/completions", {"prompt": RUN}, 400),
        ("/v1/prefill", {"messages": CHAT}, 400),
        ("/completion", {"prompt": RUN}, 400),
        ("/api/chat", {"messages": CHAT}, 400),
        ("/api/generate", {"prompt": RUN}, 400),
        ("/api/generate", {"prompt": RUN, "raw": True}, 400),
        ("/apply-template", {"messages": CHAT}, 200),
        (
            "/v1/completions",
            {"prompt": "a", "max_tokens": 1, "logit_bias": {"Z" * 256: 1}},
            200,
        ),
        (
            "/v1/completions",
            {"prompt": "a", "max_tokens": 1, "stop": ["Z" * 1_024]},
            200,
        ),
        (
            "/completion",
            {"prompt": "a", "n_predict": 1, "grammar": f'root ::= "{RUN}"'},
            200,
        ),
        (
            "/v1/chat/completions",
            {
                "messages": [{"role": "user", "content": "a"}],
                "max_tokens": 1,
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"const": RUN}},
                },
            },
            200,
        ),
    ],
)
def test_a_run_in_any_field_is_answered(post, route, body, status):
    answer = post(route, **body)
    assert answer.status_code == status, answer.text[:500]
    assert answer.status_code == 200 or "tokens" in answer.text


def test_what_is_far_too_long_is_refused_with_its_limit(post):
    answer = post("/tokenize", content="Z" * 20_000_000)
    assert answer.status_code == 400
    assert "content has 20000000 characters" in answer.text
    answer = post("/tokenize", content="Z" * 2_000_000)
    assert answer.status_code == 400
    assert "content has 2000000 characters without a line break" in answer.text
    for route in ("/completion", "/v1/completions"):
        answer = post(route, prompt="Z" * 20_000_000)
        assert answer.status_code == 400
        assert "context length is 512" in answer.text
