"""/v1/embeddings and /v1/rerank over HTTP with a scripted inside."""

import asyncio
import base64
import json
from typing import Any

import numpy as np
import pytest

from kinetic.errors import ClientGone, InternalError, Overloaded
from tests.support.vector_app import VectorScript
from tests.support.web_app import Client, talk

EMBEDDING: dict[str, Any] = {"kind": "embedding", "pooling": "mean", "n_vector": 4}
RERANK: dict[str, Any] = {"kind": "rerank", "pooling": "rank", "n_vector": 1}
JSON = {"Content-Type": "application/json"}
RERANK_PATHS = ["/v1/rerank", "/v1/reranking", "/rerank", "/reranking", "/v2/rerank"]


async def post(client: Client, path, body):
    return await client.send("POST", path, json.dumps(body), JSON)


def embedded(body, script=None, **info):
    """The status and the answer of one request."""
    found = []

    async def story(client):
        answer = await post(client, "/v1/embeddings", body)
        found.append((answer.status, json.loads(answer.body)))

    talk(story, script or VectorScript(), **{**EMBEDDING, **info})
    return found[0]


def ranked(body, path="/v1/rerank", script=None):
    found = []

    async def story(client):
        answer = await post(client, path, body)
        found.append((answer.status, json.loads(answer.body)))

    talk(story, script or VectorScript(kind="rerank"), **RERANK)
    return found[0]


def test_a_vector_for_each_input_in_order():
    status, answer = embedded({"input": ["ab", "c", [1, 2, 3]]})
    assert status == 200
    assert answer["model"] == "tiny"
    assert [d["index"] for d in answer["data"]] == [0, 1, 2]
    first = np.array([97, 98, 2, 1], np.float64)
    assert np.allclose(answer["data"][0]["embedding"], first / np.linalg.norm(first))
    assert answer["usage"] == {"prompt_tokens": 6, "total_tokens": 6}


def test_base64_holds_the_same_numbers():
    _, floats = embedded({"input": "abc", "encoding_format": "float"})
    _, packed = embedded({"input": "abc", "encoding_format": "base64"})
    data = base64.b64decode(packed["data"][0]["embedding"])
    assert np.frombuffer(data, "<f4").tolist() == floats["data"][0]["embedding"]


def test_a_text_that_is_too_long_is_told_with_its_index_and_both_numbers():
    status, answer = embedded({"input": ["ok", "much too long"]})
    assert status == 400
    error = answer["error"]
    assert error["message"].startswith("input[1] is too long: 13 tokens")
    assert (error["param"], error["n_prompt_tokens"], error["n_ctx"]) == (
        "input[1]",
        13,
        8,
    )


@pytest.mark.parametrize(
    ("kind", "route"), [("text", "/v1/chat/completions"), ("rerank", "/v1/rerank")]
)
def test_another_kind_of_model_is_told_its_own_route(kind, route):
    status, answer = embedded({"input": "a"}, VectorScript(kind=kind), kind=kind)
    assert status == 400
    assert route in answer["error"]["message"]
    assert answer["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize(
    ("info", "route"), [(EMBEDDING, "/v1/embeddings"), (RERANK, "/v1/rerank")]
)
def test_text_from_a_model_for_vectors_is_told_its_route(path, info, route):
    body = {"messages": [{"role": "user", "content": "hi"}], "prompt": "hi"}
    body.pop("prompt" if "chat" in path else "messages")

    async def story(client):
        answer = await post(client, path, body)
        assert answer.status == 400
        assert route in json.loads(answer.body)["error"]["message"]

    talk(story, VectorScript(kind=info["kind"]), **info)


def test_a_failed_input_fails_the_request_and_gives_up_the_rest():
    script = VectorScript(failure=InternalError("the engine failed"))
    status, answer = embedded({"input": ["a", "b", "c"]}, script)
    assert status == 500
    assert answer["error"]["message"] == "the engine failed"


def test_a_full_line_is_a_503_with_a_time_to_come_again():
    script = VectorScript(failure=Overloaded("9 requests are waiting already"))

    async def story(client):
        answer = await post(client, "/v1/embeddings", {"input": ["a", "b"]})
        assert answer.status == 503
        assert answer.headers["Retry-After"] == "1"

    talk(story, script, **EMBEDDING)


def test_a_client_that_leaves_gives_up_its_inputs():
    script = VectorScript(hold=True)

    async def story(client):
        port = int(client.url.rsplit(":", 1)[1])
        body = json.dumps({"input": ["a"] * 200}).encode()
        head = (
            "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + body)
        await writer.drain()
        await script.came.wait()
        assert not await client.service.is_quiet(within_s=0.0)
        writer.close()
        assert await client.service.is_quiet(within_s=10.0)
        assert [type(error) for error in script.cancelled] == [ClientGone]

    talk(story, script, **EMBEDDING)


def test_only_json_is_taken_and_only_post():
    async def story(client):
        answer = await client.send(
            "POST", "/v1/embeddings", "{}", {"Content-Type": "text/plain"}
        )
        assert answer.status == 415
        answer = await client.send("GET", "/v1/rerank")
        assert answer.status == 405
        assert answer.headers["Allow"] == "POST, OPTIONS"

    talk(story, VectorScript(), **EMBEDDING)


@pytest.mark.parametrize("path", RERANK_PATHS)
def test_every_name_of_the_route_ranks(path):
    script = VectorScript(
        kind="rerank", vector=lambda tokens: np.array([len(tokens)], np.float32)
    )
    body = {"query": "q", "documents": ["a", {"text": "abc"}, "ab"], "top_n": 2}
    status, answer = ranked({**body, "return_documents": True}, path, script)
    assert status == 200
    assert answer["results"] == [
        {"index": 1, "relevance_score": 5.0, "document": {"text": "abc"}},
        {"index": 2, "relevance_score": 4.0, "document": {"text": "ab"}},
    ]
    assert answer["usage"]["prompt_tokens"] == 3 + 5 + 4


def test_ranking_with_another_model_is_told_its_route():
    async def story(client):
        answer = await post(client, "/rerank", {"query": "q", "documents": ["a"]})
        assert answer.status == 400
        assert "/v1/embeddings" in json.loads(answer.body)["error"]["message"]

    talk(story, VectorScript(), **EMBEDDING)


@pytest.mark.parametrize("body", ["", "[]", "{", '{"input": NaN}', '"a"'])
def test_broken_bodies_are_a_400(body):
    async def story(client):
        answer = await client.send("POST", "/v1/embeddings", body, JSON)
        assert answer.status == 400

    talk(story, VectorScript(), **EMBEDDING)
