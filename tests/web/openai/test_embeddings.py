"""Bodies of /v1/embeddings and /v1/rerank, read and answered: pure."""

import numpy as np
import pytest

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.types import VectorJob
from kinetic.web.openai.embeddings import (
    EMBEDDINGS,
    REFUSED_EMBEDDINGS,
    embeddings_json,
    read_embeddings,
)
from kinetic.web.openai.rerank import (
    REFUSED_RERANK,
    RERANK,
    read_rerank,
    rerank_json,
)
from tests.support.served import model_info

EMBEDDING_MODEL = model_info(kind="embedding", pooling="mean", n_vector=384)
RANKING_MODEL = model_info(kind="rerank", pooling="rank", n_vector=1)
PROBABILITIES = model_info(
    kind="rerank", pooling="rank", n_vector=2, gives_probabilities=True
)


def embeddings(body, info=EMBEDDING_MODEL):
    return read_embeddings(body, info, request_id="e", arrived_s=1.0)


def rerank(body, info=RANKING_MODEL):
    return read_rerank(body, info, request_id="r", arrived_s=1.0)


def refused(read, body, **named):
    with pytest.raises(RequestError) as caught:
        read(body, **named)
    return caught.value.param, str(caught.value)


@pytest.mark.parametrize(
    ("value", "items", "is_list"),
    [
        ("a", ("a",), False),
        (["a"], ("a",), True),
        (["a", "b"], ("a", "b"), True),
        ([5, 6], ((5, 6),), False),
        ([[5], [6, 7]], ((5,), (6, 7)), True),
        (["a", [6, 7]], ("a", (6, 7)), True),
        (["x"] * 2048, ("x",) * 2048, True),
    ],
)
def test_every_form_of_input_is_read(value, items, is_list):
    request = embeddings({"input": value}).request
    assert (request.inputs, request.is_list) == (items, is_list)
    assert request.param == "input"
    assert not request.truncate


@pytest.mark.parametrize(
    ("value", "param", "says"),
    [
        (5, "input", "must be a string, a list"),
        (True, "input", "not true"),
        ({"text": "a"}, "input", "not an object"),
        ([], "input", "must not be an empty list"),
        ([[]], "input[0]", "at least one"),
        (["a", None], "input[1]", "not null"),
        (["a", 5], "input[1]", "not 5"),
        ([5, "a"], "input[1]", "must be a token id"),
        ([5, True], "input[1]", "not true"),
        ([5, 1.5], "input[1]", "not 1.5"),
        ([[5], [6, "a"]], "input[1][1]", "must be a token id"),
        (["x"] * 2049, "input", "holds 2049 inputs; at most 2048"),
    ],
)
def test_a_wrong_input_is_named_by_its_item(value, param, says):
    found, message = refused(embeddings, {"input": value})
    assert found == param
    assert says in message


@pytest.mark.parametrize("body", [{}, {"input": None}])
def test_a_missing_input_is_said_to_be_missing(body):
    assert refused(embeddings, body) == ("input", "input is missing")


@pytest.mark.parametrize("form", ["hex", "", 5, "Float"])
def test_an_unknown_encoding_is_refused(form):
    param, message = refused(embeddings, {"input": "a", "encoding_format": form})
    assert param == "encoding_format"
    assert '"float" or "base64"' in message


def test_fields_that_are_null_are_not_given():
    wanted = embeddings(
        {"input": "a", "encoding_format": None, "dimensions": None, "user": None}
    )
    assert not wanted.as_base64
    assert wanted.dimensions is None
    assert wanted.norm == 2


@pytest.mark.parametrize("count", [1, 64, 384])
def test_dimensions_up_to_the_vectors_length_are_taken(count):
    assert embeddings({"input": "a", "dimensions": count}).dimensions == count


@pytest.mark.parametrize("count", [0, -1, 385, 1.5, "64", True])
def test_other_dimensions_are_refused(count):
    param, _ = refused(embeddings, {"input": "a", "dimensions": count})
    assert param == "dimensions"


def test_too_many_dimensions_are_told_with_both_numbers():
    _, message = refused(embeddings, {"input": "a", "dimensions": 385})
    assert message == "dimensions is 385 and the model's vectors have 384"


@pytest.mark.parametrize("norm", [-2, 1001, "2", 1.5])
def test_an_unknown_scaling_is_refused(norm):
    param, _ = refused(embeddings, {"input": "a", "embd_normalize": norm})
    assert param == "embd_normalize"


def test_other_servers_fields_are_refused_unless_they_ask_for_nothing():
    for name, field in REFUSED_EMBEDDINGS.items():
        with pytest.raises(UnsupportedFeature, match=name):
            embeddings({"input": "a", name: "something"})
        for neutral in (None, False, "", [], {}, *field.neutral):
            embeddings({"input": "a", name: neutral})
    for name in REFUSED_RERANK:
        with pytest.raises(UnsupportedFeature, match=name):
            rerank({"query": "q", "documents": ["a"], name: "something"})


def test_a_slip_in_a_name_is_noticed_and_extras_are_let_pass():
    _, message = refused(embeddings, {"input": "a", "encoding_fromat": "base64"})
    assert "did you mean encoding_format" in message
    _, message = refused(rerank, {"query": "q", "documents": ["a"], "topN": 1})
    assert "did you mean top_n" in message
    embeddings({"input": "a", "model": 5, "user": "u", "x_trace": 1})


def test_a_model_without_pooling_has_no_vector_for_a_text():
    bare = model_info(kind="embedding", pooling="none", n_vector=384)
    with pytest.raises(UnsupportedFeature, match="--pooling"):
        embeddings({"input": "a"}, info=bare)


def test_the_answer_holds_the_vectors_in_order():
    wanted = embeddings({"input": ["a", "b"]})
    job = VectorJob(request_id="e", inputs=((1, 2), (3,)))
    vectors = [np.array([3, 4], np.float32), np.array([0, 2], np.float32)]
    assert embeddings_json(wanted, job, vectors, model="m") == {
        "object": "list",
        "model": "m",
        "data": [
            {
                "object": "embedding",
                "index": 0,
                "embedding": np.array([0.6, 0.8], np.float32).tolist(),
            },
            {"object": "embedding", "index": 1, "embedding": [0.0, 1.0]},
        ],
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }


# --- Rerank -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "documents",
    [["a", "b"], [{"text": "a"}, {"text": "b"}], ["a", {"text": "b", "id": 7}]],
)
def test_documents_are_strings_or_objects_with_text(documents):
    ranking = rerank({"query": "q", "documents": documents})
    assert ranking.request.documents == ("a", "b")
    assert ranking.request.query == "q"
    assert not ranking.is_tei


@pytest.mark.parametrize(
    ("body", "param", "says"),
    [
        ({"documents": ["a"]}, "query", "query is missing"),
        ({"query": 5, "documents": ["a"]}, "query", "must be a string, not 5"),
        ({"query": {"q": 1}, "documents": ["a"]}, "query.text", "is missing"),
        ({"query": "q"}, "documents", "documents is missing"),
        ({"query": "q", "documents": []}, "documents", "must not be an empty list"),
        ({"query": "q", "documents": "a"}, "documents", "must be a list"),
        ({"query": "q", "documents": ["a", 5]}, "documents[1]", "must be a string"),
        ({"query": "q", "documents": ["a", None]}, "documents[1]", "not null"),
        ({"query": "q", "documents": [{"t": 1}]}, "documents[0].text", "missing"),
        ({"query": "q", "documents": [{"text": 1}]}, "documents[0].text", "not 1"),
        ({"query": "q", "documents": ["a"], "texts": ["a"]}, "documents", "beside"),
        ({"query": "q", "texts": ["a", []]}, "texts[1]", "not a list"),
    ],
)
def test_a_wrong_ranking_is_named_by_its_field(body, param, says):
    found, message = refused(rerank, body)
    assert found == param
    assert says in message


@pytest.mark.parametrize("top_n", [0, -1, "2", 1.5, True])
def test_a_top_n_that_cuts_all_or_nothing_is_refused(top_n):
    param, _ = refused(rerank, {"query": "q", "documents": ["a"], "top_n": top_n})
    assert param == "top_n"


def scored(body, *scores, info=RANKING_MODEL):
    ranking = rerank({"query": "q", **body}, info=info)
    texts = ranking.request.documents
    job = VectorJob(request_id="r", inputs=tuple((1, 2) for _ in texts))
    vectors = [np.array([score, 9.0], np.float32) for score in scores]
    return rerank_json(ranking, job, vectors, model="m")


def test_the_most_relevant_comes_first_and_equals_keep_their_order():
    answer = scored({"documents": ["a", "b", "c", "d"]}, 0.25, 2, 0.25, -1)
    assert [r["index"] for r in answer["results"]] == [1, 0, 2, 3]
    assert answer == {
        "object": "list",
        "model": "m",
        "results": [
            {"index": 1, "relevance_score": 2.0},
            {"index": 0, "relevance_score": 0.25},
            {"index": 2, "relevance_score": 0.25},
            {"index": 3, "relevance_score": -1.0},
        ],
        "usage": {"prompt_tokens": 8, "total_tokens": 8},
    }


@pytest.mark.parametrize(("top_n", "n"), [(1, 1), (2, 2), (99, 3), (None, 3)])
def test_top_n_cuts_the_list(top_n, n):
    answer = scored({"documents": ["a", "b", "c"], "top_n": top_n}, 1, 2, 3)
    assert len(answer["results"]) == n


def test_documents_are_repeated_only_when_asked_for():
    body = {"documents": ["a", {"text": "b"}], "return_documents": True}
    answer = scored(body, 1, 2)
    assert [r["document"] for r in answer["results"]] == [{"text": "b"}, {"text": "a"}]
    assert "document" not in scored({"documents": ["a"]}, 1)["results"][0]


def test_a_body_with_texts_is_answered_as_tei_does():
    assert scored({"texts": ["a", "b"]}, 1, 2) == [
        {"index": 1, "score": 2.0},
        {"index": 0, "score": 1.0},
    ]
    assert scored({"texts": ["a"], "return_text": True}, 1) == [
        {"index": 0, "score": 1.0, "text": "a"}
    ]


def test_scores_are_brought_between_0_and_1_when_asked_for():
    body = {"documents": ["a", "b"], "raw_scores": False}
    scores = [r["relevance_score"] for r in scored(body, -50, 0)["results"]]
    assert scores[0] == 0.5
    assert 0 < scores[1] < 1e-6
    raw = {"documents": ["a"], "raw_scores": True}
    assert scored(raw, -3)["results"][0]["relevance_score"] == -3.0


def test_probabilities_stay_what_they_are():
    body = {"documents": ["a"], "raw_scores": False}
    answer = scored(body, 0.25, info=PROBABILITIES)
    assert answer["results"][0]["relevance_score"] == 0.25
    with pytest.raises(UnsupportedFeature, match="probabilities alone"):
        rerank({"query": "q", "documents": ["a"], "raw_scores": True}, PROBABILITIES)


def test_every_field_tells_what_it_is():
    for field in (*EMBEDDINGS, *RERANK):
        assert field.meaning.endswith(".")
        assert field.range
