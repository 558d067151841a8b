"""The flags that say what a model is served for."""

import pytest

from kinetic import loading
from kinetic.cli.options import serve_options
from kinetic.cli.program import parser
from kinetic.errors import ModelError
from tests.support import tiny_models


def options(model, *flags):
    arguments = parser().parse_args(["serve", str(model), "-t", "1", *flags])
    return serve_options(arguments)


@pytest.mark.parametrize(
    ("flags", "pooling"),
    [
        ([], None),
        (["--pooling", "cls"], "cls"),
        (["--rerank"], "rank"),
        (["--reranking"], "rank"),
        (["--embeddings", "--pooling", "last"], "last"),
    ],
)
def test_pooling_is_the_files_unless_a_flag_says_so(flags, pooling, tmp_path):
    model = tmp_path / "m.gguf"
    model.touch()
    assert options(model, *flags).pooling == pooling


def test_vectors_of_a_file_that_does_not_say_how_need_a_pooling():
    with pytest.raises(ModelError, match="add --pooling mean, cls or last"):
        loading.load(options(tiny_models.qwen3(), "-c", "512", "--embeddings"))


@pytest.mark.parametrize("flags", [["--embedding"], ["--embeddings"]])
def test_an_embedding_model_is_served_with_the_flag_as_without(flags):
    loaded = loading.load(options(tiny_models.bert_encoder(), *flags))
    try:
        assert loaded.info.kind == "embedding"
        assert loaded.info.pooling == "mean"
        assert loaded.info.n_vector == 128
    finally:
        loaded.engine.close()


def test_a_generator_can_be_served_for_vectors():
    loaded = loading.load(
        options(tiny_models.qwen3(), "-c", "512", "--pooling", "last")
    )
    try:
        assert loaded.info.kind == "embedding"
        assert loaded.plan.name == "alone"
        assert "equal bits" in loaded.info.plan_reason
    finally:
        loaded.engine.close()
