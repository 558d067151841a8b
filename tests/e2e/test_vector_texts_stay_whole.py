"""Any text to embed or to score is read whole, or refused by its place."""

import json

import httpx
import pytest
from hypothesis import example, given, settings, strategies as st

from kinetic.model.native.model import Model
from kinetic.model.vocab import Vocab
from tests.support import tiny_models
from tests.support.server import running_server
from tests.support.texts import FAR_TOO_LONG, HALVES, WHOLE

FLAGS = ("-c", "2048", "-t", "1", "--alias", "tiny")
N_RANDOM = 15
"""Random texts for each route, beside those that are listed."""

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
nasty = pytest.mark.parametrize("text", WHOLE.values(), ids=list(WHOLE))
too_long = pytest.mark.parametrize(
    "text", FAR_TOO_LONG.values(), ids=list(FAR_TOO_LONG)
)
halves = pytest.mark.parametrize("text", HALVES.values(), ids=list(HALVES))


@pytest.fixture(scope="module")
def embedder():
    with (
        running_server(tiny_models.qwen3(), *FLAGS, "--pooling", "mean") as server,
        httpx.Client(base_url=server.root, timeout=50) as opened,
    ):
        yield opened


@pytest.fixture(scope="module")
def ranker():
    with (
        running_server(tiny_models.qwen3_reranker(), *FLAGS) as server,
        httpx.Client(base_url=server.root, timeout=50) as opened,
    ):
        yield opened


@pytest.fixture(scope="module")
def vocab():
    model = Model(tiny_models.qwen3(), vocab_only=True)
    yield Vocab(model)
    model.close()


def send(client, route, body):
    # Written by hand: httpx refuses halves of surrogate pairs itself.
    return client.post(
        route,
        content=json.dumps(body),
        headers={"Content-Type": "application/json"},
    )


def openai(client, text):
    answer = send(client, "/v1/embeddings", {"input": ["a", text]})
    return answer, lambda body: body["data"][1]["embedding"]


def native(client, text):
    answer = send(client, "/embedding", {"input": ["a", text]})
    return answer, lambda body: body[1]["embedding"][0]


def ollama(client, text):
    body = {"model": "tiny", "input": ["a", text], "truncate": False}
    return send(client, "/api/embed", body), lambda body: body["embeddings"][1]


EMBEDDERS = {"/v1/embeddings": openai, "/embedding": native, "/api/embed": ollama}
every_route = pytest.mark.parametrize("embed", EMBEDDERS.values(), ids=list(EMBEDDERS))


def is_embedded_whole(client, vocab, embed, text):
    answer, vector_in = embed(client, text)
    assert answer.status_code == 200, answer.text
    ids = vocab.tokenize(text, add_special=True)
    by_ids = send(client, "/v1/embeddings", {"input": ids}).json()["data"]
    assert vector_in(answer.json()) == by_ids[0]["embedding"]


@every_route
@nasty
def test_a_nasty_text_is_embedded_whole(embedder, vocab, embed, text):
    is_embedded_whole(embedder, vocab, embed, text)


@every_route
def test_any_text_is_embedded_whole(embedder, vocab, embed):
    @settings(max_examples=N_RANDOM)
    @example(" a ")
    @given(texts)
    def holds(text):
        is_embedded_whole(embedder, vocab, embed, text)

    holds()


@every_route
@too_long
def test_a_text_that_is_far_too_long_is_embedded_whole_or_refused(
    embedder, vocab, embed, text
):
    answer, _ = embed(embedder, text)
    if answer.status_code == 200:
        is_embedded_whole(embedder, vocab, embed, text)
    else:
        assert answer.status_code == 400
        assert "input[1] is too long" in answer.text


@every_route
@halves
def test_half_of_a_surrogate_pair_is_not_embedded(embedder, embed, text):
    answer, _ = embed(embedder, text)
    assert answer.status_code == 400
    assert "input[1] holds half of a surrogate pair" in answer.text


def ranked(client, query, document):
    body = {"query": query, "documents": ["a", document], "return_documents": True}
    return send(client, "/v1/rerank", body)


def n_tokens(client, query, document):
    answer = ranked(client, query, document)
    assert answer.status_code == 200, answer.text
    by_index = {r["index"]: r["document"] for r in answer.json()["results"]}
    assert by_index == {0: {"text": "a"}, 1: {"text": document}}
    return answer.json()["usage"]["prompt_tokens"]


@nasty
@pytest.mark.parametrize("place", ["query", "document"])
def test_a_nasty_text_is_scored_whole(ranker, place, text):
    least = n_tokens(ranker, "q", "")
    query, document = (text, "a") if place == "query" else ("q", text)
    assert n_tokens(ranker, query, document) > least


@too_long
def test_a_document_that_is_far_too_long_is_refused(ranker, text):
    answer = ranked(ranker, "q", text)
    if answer.status_code == 200:
        assert answer.json()["results"][0]["document"]["text"] in {"a", text}
    else:
        assert answer.status_code == 400
        assert "documents[1] with query is too long" in answer.text


@halves
def test_half_of_a_surrogate_pair_is_not_scored(ranker, text):
    for query, document, where in (("q", text, "documents[1]"), (text, "a", "query")):
        answer = ranked(ranker, query, document)
        assert answer.status_code == 400
        assert f"{where} holds half of a surrogate pair" in answer.text
