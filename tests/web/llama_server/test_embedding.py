"""/embedding: llama-server's forms of input and its nested answer."""

import json

import numpy as np
import pytest

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.web.llama_server.embedding import embedding_json, read_embedding
from tests.support.served import model_info
from tests.support.vector_app import VectorScript, vector_of
from tests.support.web_app import talk

MODEL = model_info(kind="embedding", pooling="mean", n_vector=4)
BARE = model_info(kind="embedding", pooling="none", n_vector=4)


def read(body, info=MODEL):
    return read_embedding(body, info, request_id="e", arrived_s=0.0)


@pytest.mark.parametrize(
    ("value", "items"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        ([5, 6], ((5, 6),)),
        ([[5], "b"], ((5,), "b")),
        ({"prompt_string": "a"}, ("a",)),
        (["a", {"prompt_string": "b"}], ("a", "b")),
        ({"prompt_string": "a", "multimodal_data": []}, ("a",)),
        (
            [
                {
                    "content": [
                        {"type": "text", "text": "a"},
                        {"type": "text", "text": "b"},
                    ]
                }
            ],
            ("ab",),
        ),
        ([{"content": "a"}], ("a",)),
        (["x"] * 300, ("x",) * 300),
    ],
)
@pytest.mark.parametrize("param", ["input", "content"])
def test_every_form_of_input_is_read(param, value, items):
    request = read({param: value}).request
    assert request.inputs == items
    assert request.param == param


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"content": []}, "content"),
        ({"content": [""], "embd_normalize": -2}, "embd_normalize"),
        ({"input": {"prompt_string": 5}}, "input.prompt_string"),
        ({"input": {"text": "a"}}, "input"),
        ({"input": [{"content": [5]}]}, "input[0].content[0]"),
        ({"input": [{"content": [{"type": "text"}]}]}, "input[0].content[0].text"),
        ({"input": ["a", 5]}, "input[1]"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a", "dimensions": 5}, "dimensions"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
    ],
)
def test_a_wrong_body_is_named_by_its_field(body, param):
    with pytest.raises(RequestError) as caught:
        read(body)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "item",
    [
        {"prompt_string": "a", "multimodal_data": ["aGk="]},
        {"content": [{"type": "image_url", "image_url": {"url": "x"}}]},
    ],
)
def test_other_than_texts_are_refused(item):
    with pytest.raises(UnsupportedFeature):
        read({"input": [item]})


def test_vectors_are_nested_and_of_unit_length():
    wanted = read({"content": ["a", "b"]})
    answer = embedding_json(wanted, [vector_of((3, 4)), vector_of((0, 0))])
    assert [a["index"] for a in answer] == [0, 1]
    for entry in answer:
        (vector,) = entry["embedding"]
        assert np.linalg.norm(vector) == pytest.approx(1)


@pytest.mark.parametrize(
    ("norm", "expected"),
    [(-1, [3.0, 4.0, 2.0, 1.0]), (0, [24570.0, 32760.0, 16380.0, 8190.0])],
)
def test_scaling_can_be_chosen(norm, expected):
    wanted = read({"content": "a", "embd_normalize": norm})
    (entry,) = embedding_json(wanted, [vector_of((3, 4))])
    assert entry["embedding"] == [expected]


def test_without_pooling_every_token_has_its_vector_as_it_is():
    wanted = read({"content": "a", "embd_normalize": 2}, BARE)
    rows = np.array([[3, 4], [5, 6]], np.float32)
    (entry,) = embedding_json(wanted, [rows])
    assert entry == {"index": 0, "embedding": [[3.0, 4.0], [5.0, 6.0]]}


@pytest.mark.parametrize("path", ["/embedding", "/embeddings"])
def test_both_paths_answer_whatever_the_body_is_called(path):
    async def story(client):
        body = json.dumps({"content": "ab", "embd_normalize": -1})
        answer = await client.send("POST", path, body, {"Content-Type": "text/plain"})
        assert answer.status == 200
        found = json.loads(answer.body)
        assert found == [{"index": 0, "embedding": [[97.0, 98.0, 2.0, 1.0]]}]

    talk(story, VectorScript(), kind="embedding", pooling="mean", n_vector=4)


def test_a_long_text_is_told_as_llama_server_does():
    async def story(client):
        body = json.dumps({"content": "much too long"})
        answer = await client.send("POST", "/embedding", body)
        assert answer.status == 400
        assert json.loads(answer.body)["error"] == {
            "code": 400,
            "message": "content is too long: 13 tokens, which exceeds the available"
            " context size; this model's maximum context length is 8 tokens",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 13,
            "n_ctx": 8,
        }

    talk(story, VectorScript(), kind="embedding", pooling="mean", n_vector=4)
