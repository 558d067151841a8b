"""Ranking models of both kinds behind a real server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx
import pytest

from tests.support import tiny_models
from tests.support.server import running_server

pytestmark = pytest.mark.slow

MODELS = {
    "qwen3": tiny_models.qwen3_reranker,
    "bert": tiny_models.bert_cross_encoder,
}
QUERY = "What is the capital of China?"
DOCUMENTS = [
    "The capital of China is Beijing.",
    "Gravity pulls bodies together.",
    "Beijing",
    "A text of some more words than the others have, so that lengths differ.",
    "Gravity pulls bodies together.",
]


@dataclass(frozen=True)
class Served:
    name: str
    root: str


@pytest.fixture(scope="module", params=MODELS)
def served(request):
    model = MODELS[request.param]()
    with running_server(model, "-t", "1", "--alias", request.param) as process:
        yield Served(request.param, process.root)


def post(served, body, path="/v1/rerank"):
    return httpx.post(f"{served.root}{path}", json=body, timeout=60)


def scores(served, documents, **more):
    """Scores by the documents' own order."""
    answer = post(served, {"query": QUERY, "documents": documents, **more})
    assert answer.status_code == 200, answer.text
    found = {r["index"]: r["relevance_score"] for r in answer.json()["results"]}
    return [found[i] for i in sorted(found)]


def test_the_most_relevant_comes_first_and_equals_keep_their_order(served):
    answer = post(served, {"query": QUERY, "documents": DOCUMENTS}).json()
    order = [(-r["relevance_score"], r["index"]) for r in answer["results"]]
    assert order == sorted(order)
    indexes = [r["index"] for r in answer["results"]]
    assert sorted(indexes) == [0, 1, 2, 3, 4]
    assert indexes.index(4) == indexes.index(1) + 1
    assert answer["object"] == "list"
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 20


def test_a_score_has_the_same_bits_alone_in_a_batch_and_beside_others(served):
    alone = [scores(served, [document])[0] for document in DOCUMENTS]
    assert scores(served, DOCUMENTS) == alone
    assert scores(served, DOCUMENTS[::-1]) == alone[::-1]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda n: scores(served, DOCUMENTS[n:]), range(5)))
    assert found == [alone[n:] for n in range(5)]


def test_scores_of_the_two_kinds_have_their_own_scale(served):
    found = scores(served, DOCUMENTS)
    squeezed = scores(served, DOCUMENTS, raw_scores=False)
    assert all(0 < score < 1 for score in squeezed)
    if served.name == "qwen3":
        assert squeezed == found
    else:
        pairs = zip(found, squeezed, strict=True)
        assert all((raw > 0) == (score > 0.5) for raw, score in pairs)


def test_other_clients_forms_are_read(served):
    body = {"query": QUERY, "documents": [{"text": d} for d in DOCUMENTS], "top_n": 2}
    answer = post(served, {**body, "return_documents": True}).json()["results"]
    assert len(answer) == 2
    assert answer[0]["document"] == {"text": DOCUMENTS[answer[0]["index"]]}
    tei = post(served, {"query": QUERY, "texts": DOCUMENTS}, "/rerank").json()
    assert [r["index"] for r in tei][:2] == [r["index"] for r in answer]
    assert [r["score"] for r in tei][:2] == [r["relevance_score"] for r in answer]


def test_a_document_that_does_not_fit_is_named_or_cut(served):
    body = {"query": QUERY, "documents": ["a", "many words " * 5000]}
    answer = post(served, body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "documents[1]"
    assert error["n_prompt_tokens"] > error["n_ctx"]
    cut = post(served, {**body, "truncate": True})
    assert cut.status_code == 200
    assert cut.json()["usage"]["prompt_tokens"] > error["n_ctx"]


def test_empty_texts_have_a_score(served):
    assert len(scores(served, ["", "a"])) == 2


def test_1000_documents_are_scored(served):
    found = scores(served, [f"document {n}" for n in range(1000)])
    assert len(found) == 1000
    assert found[31] == scores(served, ["document 31"])[0]


def test_other_routes_name_this_one(served):
    for path, body in (
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/embeddings", {"input": "hi"}),
        ("/embedding", {"content": "hi"}),
        ("/completion", {"prompt": "hi"}),
    ):
        answer = post(served, body, path)
        assert answer.status_code == 400
        assert "/v1/rerank" in answer.json()["error"]["message"]
    for path in ("/api/chat", "/api/embed", "/api/generate"):
        body = {
            "model": served.name,
            "input": "hi",
            "prompt": "hi",
            "messages": [{"role": "user", "content": "hi"}],
        }
        answer = post(served, body, path)
        assert answer.status_code == 400
        assert "/v1/rerank" in answer.json()["error"]
