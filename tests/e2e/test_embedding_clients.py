"""Real clients against a real server of a real sentence encoder."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import ollama
import openai
import pytest

from tests.support.server import running_server

pytestmark = pytest.mark.model

MODEL = "minilm"
SENTENCES = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "A woman holds a small child in her arms.",
    "Shares fell sharply on Monday.",
    "The stock market dropped at the start of the week.",
]
LONG = "many words follow each other here " * 20


@pytest.fixture(scope="module")
def served(minilm_dir):
    from scripts.minilm import all_minilm_l6_v2

    with running_server(all_minilm_l6_v2(), "-t", "1", "--alias", MODEL) as process:
        yield process


@pytest.fixture(scope="module")
def client(served):
    with openai.OpenAI(base_url=served.base_url, api_key="none") as made:
        yield made


@pytest.fixture(scope="module")
def olla(served):
    made = ollama.Client(host=served.root)
    yield made
    made._client.close()


def post(served, path, body):
    return httpx.post(f"{served.root}{path}", json=body, timeout=60)


def floats(served, body):
    """The vectors of a raw request, as float32."""
    answer = post(served, "/v1/embeddings", {**body, "encoding_format": "float"})
    assert answer.status_code == 200, answer.text
    found = [d["embedding"] for d in answer.json()["data"]]
    return np.array(found, np.float32)


def bits(vectors):
    return [vector.tobytes() for vector in vectors]


def test_the_openai_client_gets_the_same_bits_by_base64(served, client):
    # The client asks for base64 unless told otherwise, and decodes it itself.
    answer = client.embeddings.create(model=MODEL, input=SENTENCES)
    found = np.array([d.embedding for d in answer.data], np.float32)
    assert bits(found) == bits(floats(served, {"input": SENTENCES}))
    assert [d.index for d in answer.data] == list(range(6))
    assert answer.model == MODEL
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 30
    raw = post(served, "/v1/embeddings", {"input": "a", "encoding_format": "base64"})
    packed = base64.b64decode(raw.json()["data"][0]["embedding"])
    assert [packed] == bits(floats(served, {"input": "a"}))


def test_vectors_have_unit_length_and_know_what_is_alike(served):
    vectors = floats(served, {"input": SENTENCES}).astype(np.float64)
    alike = vectors @ vectors.T
    assert np.allclose(alike.diagonal(), 1, atol=1e-6)
    np.fill_diagonal(alike, -1)
    assert alike.argmax(axis=1).tolist() == [1, 0, 3, 2, 5, 4]


def test_a_vector_has_the_same_bits_alone_in_a_batch_and_beside_others(served):
    texts = [*SENTENCES, LONG, "a", " ", "ünïcode 漢字 🦊"]
    alone = [bits(floats(served, {"input": text}))[0] for text in texts]
    assert bits(floats(served, {"input": texts})) == alone
    assert bits(floats(served, {"input": texts[::-1]})) == alone[::-1]
    with ThreadPoolExecutor(8) as pool:
        singles = pool.map(lambda text: floats(served, {"input": text}), texts)
        batches = pool.map(lambda n: floats(served, {"input": texts[n:]}), range(4))
        assert [bits(found)[0] for found in singles] == alone
        assert [bits(found) for found in batches] == [alone[n:] for n in range(4)]


def test_token_ids_give_the_bits_of_their_text(served):
    asked = {"content": SENTENCES[0], "add_special": True}
    ids = post(served, "/tokenize", asked).json()["tokens"]
    expected = bits(floats(served, {"input": SENTENCES[0]}))
    assert bits(floats(served, {"input": ids})) == expected
    assert bits(floats(served, {"input": [ids, ids]})) == expected * 2


def test_the_whole_context_is_used_and_one_token_more_is_told(served, client):
    answer = client.embeddings.create(model=MODEL, input="man " * 510)
    assert answer.usage.prompt_tokens == 512
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model=MODEL, input=["a", "man " * 511])
    error: Any = caught.value.body
    assert error["message"].startswith("input[1] is too long: 513 tokens")
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (513, 512)
    assert error["code"] == "context_length_exceeded"


def test_dimensions_cut_and_scale_again(served, client):
    whole = floats(served, {"input": "a cat"})[0].astype(np.float64)
    answer = client.embeddings.create(model=MODEL, input="a cat", dimensions=64)
    found = np.array(answer.data[0].embedding)
    assert found.shape == (64,)
    assert np.allclose(found, whole[:64] / np.linalg.norm(whole[:64]), atol=1e-6)


def test_2048_inputs_are_answered_in_order(served):
    texts = ["" if n == 9 else f"number {n}" for n in range(2048)]
    found = bits(floats(served, {"input": texts}))
    assert found[17] == bits(floats(served, {"input": "number 17"}))[0]
    assert found[2047] == bits(floats(served, {"input": "number 2047"}))[0]
    assert found[9] == bits(floats(served, {"input": ""}))[0]


def test_the_ollama_client_embeds(served, olla):
    answer = olla.embed(MODEL, SENTENCES)
    found = np.array(answer.embeddings, np.float32)
    assert bits(found) == bits(floats(served, {"input": SENTENCES}))
    assert answer.model == MODEL
    assert answer.prompt_eval_count > 30
    assert answer.total_duration > 0
    assert olla.embed(MODEL, "").embeddings == []
    assert len(olla.embed(MODEL, "a cat", dimensions=16).embeddings[0]) == 16


def test_ollamas_older_route_gives_raw_vectors(served, olla):
    raw = np.array(olla.embeddings(MODEL, "a cat").embedding)
    unit = floats(served, {"input": "a cat"})[0]
    assert np.linalg.norm(raw) > 1.5
    assert np.allclose(raw / np.linalg.norm(raw), unit, atol=1e-6)


def test_ollama_cuts_long_texts_unless_told_otherwise(served, olla):
    cut = olla.embed(MODEL, "man " * 2000)
    whole = olla.embed(MODEL, "man " * 510)
    assert cut.prompt_eval_count == 512
    assert cut.embeddings == whole.embeddings
    with pytest.raises(ollama.ResponseError, match="input length exceeds") as caught:
        olla.embed(MODEL, "man " * 2000, truncate=False)
    assert caught.value.status_code == 400


def test_llama_servers_route_scales_as_told(served):
    def answer(**more):
        found = post(served, "/embedding", {"content": "a cat", **more}).json()
        assert len(found) == 1
        return np.array(found[0]["embedding"][0])

    raw = answer(embd_normalize=-1)
    assert np.allclose(answer(), raw / np.linalg.norm(raw), atol=1e-6)
    assert np.abs(answer(embd_normalize=0)).max() == pytest.approx(32760)
    assert np.abs(answer(embd_normalize=1)).sum() == pytest.approx(1)


def test_text_is_refused_with_the_right_route_by_all_three_apis(served, client, olla):
    with pytest.raises(openai.BadRequestError, match="/v1/embeddings"):
        client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "hi"}]
        )
    with pytest.raises(openai.BadRequestError, match="/v1/embeddings"):
        client.completions.create(model=MODEL, prompt="hi")
    with pytest.raises(ollama.ResponseError, match="/api/embed"):
        olla.chat(MODEL, [{"role": "user", "content": "hi"}])
    with pytest.raises(ollama.ResponseError, match="/api/embed"):
        olla.generate(MODEL, "hi")
    for path, body in (
        ("/completion", {"prompt": "hi"}),
        ("/v1/rerank", {"query": "q", "documents": ["a"]}),
    ):
        answer = post(served, path, body)
        assert answer.status_code == 400
        assert "/v1/embeddings" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "a"}),
        ("/v1/rerank", {"query": "q", "documents": ["a"]}),
        ("/embedding", {"content": "a"}),
    ],
)
def test_a_text_model_names_its_own_routes(server, path, body):
    answer = post(server, path, body)
    assert answer.status_code == 400
    assert "/v1/chat/completions" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "value", [[], ["a", "", None], [[]], [-1], [30_522], [[5], [2**40]]]
)
def test_bad_inputs_are_a_400_and_nothing_breaks(served, value):
    answer = post(served, "/v1/embeddings", {"input": value})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith("input")
    assert served.health()["status"] == "ok"


def test_a_client_that_leaves_frees_the_server_within_an_input(served):
    before = counters(served)
    body = json.dumps({"input": [LONG * 4] * 256}).encode()
    head = (
        f"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(head.encode() + body)
        wait_for(lambda: served.health()["slots_processing"] == 1)
    served.wait_until_idle()
    after = counters(served)
    n_inputs = after["llamacpp:n_decode_total"] - before["llamacpp:n_decode_total"]
    assert n_inputs < 100
    assert post(served, "/v1/embeddings", {"input": "a"}).status_code == 200


def test_short_requests_and_health_are_answered_beside_a_long_one(served):
    ended = threading.Event()

    def run_long():
        floats(served, {"input": [LONG * 3] * 10})
        ended.set()

    thread = threading.Thread(target=run_long)
    thread.start()
    wait_for(lambda: served.health()["slots_processing"] == 1)
    began = time.monotonic()
    floats(served, {"input": ["a short one"]})
    took = time.monotonic() - began
    was_first = not ended.is_set()
    thread.join(60)
    assert was_first
    assert took < 10


def test_metrics_count_what_was_run(served):
    before = counters(served)
    floats(served, {"input": [[101, 1037, 102], [101, 102]]})
    after = counters(served)

    def grown(name):
        return after[f"llamacpp:{name}"] - before[f"llamacpp:{name}"]

    assert grown("requests_total") == 1
    assert grown("prompt_tokens_total") == 5
    assert grown("n_decode_total") == 2
    assert grown("prompt_seconds_total") > 0


def counters(served):
    page = httpx.get(f"{served.root}/metrics", timeout=10).text
    lines = [line.rsplit(" ", 1) for line in page.splitlines() if line[:1] != "#"]
    return {name: float(value) for name, value in lines}


def wait_for(condition, limit_s=20.0):
    pause = threading.Event()
    for _ in range(int(limit_s / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not come to pass")
