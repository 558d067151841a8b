"""/api/embed and /api/embeddings: Ollama's bodies and answers."""

import json

import numpy as np
import pytest

from kinetic.errors import InternalError, RequestError
from kinetic.web.ollama.embed import read_embed, read_embeddings
from tests.support.served import model_info
from tests.support.vector_app import VectorScript
from tests.support.web_app import talk

MODEL = model_info(kind="embedding", pooling="mean", n_vector=4)


def read(body, reader=read_embed, info=MODEL):
    return reader(body, info, request_id="e", arrived_s=0.0)


def ask(path, body, script=None):
    found = []

    async def story(client):
        answer = await client.send("POST", path, json.dumps(body))
        found.append((answer.status, json.loads(answer.body)))

    talk(story, script or VectorScript(), kind="embedding", pooling="mean", n_vector=4)
    return found[0]


@pytest.mark.parametrize(
    ("value", "items"), [("a", ("a",)), (["a"], ("a",)), (["a", "b"], ("a", "b"))]
)
def test_texts_are_read_and_cut_unless_told_otherwise(value, items):
    request = read({"input": value}).request
    assert request.inputs == items
    assert request.truncate
    assert not read({"input": value, "truncate": False}).request.truncate


@pytest.mark.parametrize("body", [{}, {"input": ""}, {"input": []}, {"input": None}])
def test_no_text_asks_for_the_model_to_be_loaded(body):
    assert read(body).request is None


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": 5}, "input"),
        ({"input": [1, 2]}, "input[0]"),
        ({"input": ["a", None]}, "input[1]"),
        ({"input": [["a"]]}, "input[0]"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a", "truncate": "yes"}, "truncate"),
        ({"input": "a", "dimensions": 5}, "dimensions"),
        ({"input": "a", "dimensions": -1}, "dimensions"),
        ({"input": "a", "keep_alive": "soon"}, "keep_alive"),
        ({"input": "a", "options": {"temperature": "hot"}}, "options.temperature"),
    ],
)
def test_a_wrong_body_is_named_by_its_field(body, param):
    with pytest.raises(RequestError) as caught:
        read(body)
    assert caught.value.param == param


def test_zero_dimensions_are_all_of_them():
    assert read({"input": "a", "dimensions": 0}).dimensions is None
    assert read({"input": "a", "dimensions": 2}).dimensions == 2


def test_the_older_route_reads_one_prompt_and_never_cuts():
    request = read({"prompt": "a"}, read_embeddings).request
    assert request.inputs == ("a",)
    assert not request.truncate
    assert read({"prompt": ""}, read_embeddings).request is None
    with pytest.raises(RequestError):
        read({"prompt": ["a"]}, read_embeddings)


def test_embed_answers_with_vectors_of_unit_length():
    status, answer = ask("/api/embed", {"model": "tiny", "input": ["ab", "c"]})
    assert status == 200
    assert answer["model"] == "tiny"
    assert [round(float(np.linalg.norm(v)), 6) for v in answer["embeddings"]] == [1, 1]
    assert answer["prompt_eval_count"] == 3
    assert answer["total_duration"] > 0
    assert answer["load_duration"] == 0


def test_embed_cuts_vectors_and_scales_them_again():
    body = {"model": "tiny", "input": "ab", "dimensions": 2}
    _, answer = ask("/api/embed", body)
    expected = np.array([97, 98]) / np.hypot(97, 98)
    assert np.allclose(answer["embeddings"], [expected])


def test_the_older_route_gives_the_vector_as_it_is():
    status, answer = ask("/api/embeddings", {"model": "tiny", "prompt": "ab"})
    assert status == 200
    assert answer == {"embedding": [97.0, 98.0, 2.0, 1.0]}


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/api/embed", {"model": "tiny", "embeddings": []}),
        ("/api/embeddings", {"embedding": []}),
    ],
)
def test_nothing_to_embed_is_answered_with_nothing(path, answer):
    script = VectorScript()
    assert ask(path, {"model": "tiny"}, script) == (200, answer)
    assert script.submitted == []


def test_long_texts_are_cut_or_refused_in_ollamas_words():
    long = {"model": "tiny", "input": ["ab", "much too long"]}
    status, answer = ask("/api/embed", long)
    assert status == 200
    assert answer["prompt_eval_count"] == 2 + 8
    status, answer = ask("/api/embed", {**long, "truncate": False})
    assert status == 400
    assert answer == {
        "error": "the input length exceeds the context length: input[1] is too"
        " long: 13 tokens, which exceeds the available context size; this model's"
        " maximum context length is 8 tokens"
    }
    status, _ = ask("/api/embeddings", {"model": "tiny", "prompt": "much too long"})
    assert status == 400


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/api/embed", {"model": "other", "input": "a"}, 404, "try pulling it first"),
        ("/api/embed", {"input": "a"}, 404, 'model "" not found'),
        ("/api/embeddings", {"prompt": "a"}, 400, "model is required"),
    ],
)
def test_other_models_are_not_served(path, body, status, says):
    found, answer = ask(path, body)
    assert found == status
    assert says in answer["error"]


def test_a_failure_is_one_text():
    script = VectorScript(failure=InternalError("the engine failed"))
    status, answer = ask("/api/embed", {"model": "tiny", "input": ["a", "b"]}, script)
    assert (status, answer) == (500, {"error": "the engine failed"})
