"""Vectors and scores are those that llama-server gives for the same file."""

from __future__ import annotations

import base64

import httpx
import numpy as np
import pytest

from tests.support import tiny_models
from tests.support.peer import peer_program, running_peer
from tests.support.server import running_server

pytestmark = pytest.mark.conformance

TEXTS = ["A man is eating food.", "a", "ünïcode 漢字", "marked [SEP] text", "12"]
QUERY = "What is the capital of China?"
DOCUMENTS = ["The capital of China is Beijing.", "Gravity pulls bodies.", "Beijing", ""]
RERANKERS = {
    "bert": tiny_models.bert_cross_encoder,
    "qwen3": tiny_models.qwen3_reranker,
}


@pytest.fixture(scope="module")
def both(minilm_dir):
    from scripts.minilm import all_minilm_l6_v2

    peer_program()
    path = all_minilm_l6_v2()
    with (
        running_server(path, "-t", "1") as process,
        running_peer(path, "--embeddings") as peer,
    ):
        yield process.root, peer


@pytest.fixture(scope="module", params=RERANKERS)
def rankers(request):
    peer_program()
    path = RERANKERS[request.param]()
    with (
        running_server(path, "-t", "1") as process,
        running_peer(path, "--reranking", "-c", "4096") as peer,
    ):
        yield process.root, peer


def post(root, path, body):
    answer = httpx.post(f"{root}{path}", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def asked(both, path, body):
    ours, theirs = (post(root, path, body) for root in both)
    return ours, theirs


@pytest.mark.parametrize("value", [TEXTS, "one text", [101, 1037, 4937, 102]])
def test_vectors_and_counts_agree(both, value):
    ours, theirs = asked(both, "/v1/embeddings", {"input": value})
    assert ours["usage"] == theirs["usage"]
    assert len(ours["data"]) == len(theirs["data"])
    for one, other in zip(ours["data"], theirs["data"], strict=True):
        assert one.keys() == other.keys()
        assert np.dot(one["embedding"], other["embedding"]) > 1 - 1e-3


def test_a_marker_that_the_user_wrote_is_not_doubled_here(both):
    # llama-server puts its own [CLS] before the user's, and says so in its log.
    ours, theirs = asked(both, "/v1/embeddings", {"input": "[CLS] marked"})
    assert ours["usage"]["prompt_tokens"] + 1 == theirs["usage"]["prompt_tokens"]


def test_base64_agrees(both):
    body = {"input": "one text", "encoding_format": "base64"}
    found = []
    for answer in asked(both, "/v1/embeddings", body):
        data = base64.b64decode(answer["data"][0]["embedding"])
        found.append(np.frombuffer(data, "<f4"))
    assert found[0].shape == found[1].shape
    assert np.dot(*found) > 1 - 1e-3


@pytest.mark.parametrize("norm", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("path", ["/embedding", "/embeddings"])
def test_the_native_shape_and_every_scaling_agree(both, path, norm):
    body = {"content": TEXTS[:2], "embd_normalize": norm}
    ours, theirs = asked(both, path, body)
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        assert one["index"] == other["index"]
        a, b = np.array(one["embedding"]), np.array(other["embedding"])
        assert a.shape == b.shape == (1, 384)
        assert np.allclose(a, b, rtol=0.02, atol=0.002 * np.abs(b).max())


def by_index(answer):
    return {r["index"]: r["relevance_score"] for r in answer["results"]}


def test_scores_counts_and_order_agree(rankers):
    body = {"query": QUERY, "documents": DOCUMENTS}
    ours, theirs = asked(rankers, "/v1/rerank", body)
    assert ours["usage"] == theirs["usage"]
    assert ours.keys() == theirs.keys()
    one, other = by_index(ours), by_index(theirs)
    assert one.keys() == other.keys()
    assert all(abs(one[i] - other[i]) < 5e-3 for i in one)
    order = [r["index"] for r in ours["results"]]
    assert order == [r["index"] for r in theirs["results"]]


def test_the_tei_form_agrees(rankers):
    body = {"query": QUERY, "texts": DOCUMENTS[:3], "return_text": True, "top_n": 2}
    ours, theirs = asked(rankers, "/rerank", body)
    for one, other in zip(ours, theirs, strict=True):
        assert (one["index"], one["text"]) == (other["index"], other["text"])
        assert abs(one["score"] - other["score"]) < 5e-3
