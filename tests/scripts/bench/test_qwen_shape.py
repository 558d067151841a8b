"""The random model, in a tiny size: the engine loads it and it behaves."""

from __future__ import annotations

import numpy as np
import pytest

from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.rows import Rows
from scripts.bench import qwen_shape
from scripts.bench.qwen_shape import Shape
from scripts.engine_source import llama_cpp_tree

TINY = Shape(n_layer=2, n_embd=256, n_ff=512, n_head=4, n_head_kv=2, head_dim=64)
N_ANSWER = 24

pytestmark = pytest.mark.skipif(
    not llama_cpp_tree().exists(), reason="make install fetches the vocabulary"
)


@pytest.fixture(scope="module", params=sorted(qwen_shape.TYPES))
def engine(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("qwen")
    path = qwen_shape.file_of(request.param, TINY, folder)
    assert {file.name for file in folder.iterdir()} == {".lock", path.name}
    assert qwen_shape.file_of(request.param, TINY, folder) == path
    made = LlamaEngine(path, EngineOptions(n_ctx=256, n_parallel=1))
    yield made
    made.close()


@pytest.mark.slow
def test_the_vocabulary_is_qwens(engine):
    assert engine.model.n_vocab == 151_936
    assert engine.model.n_ctx_train == 40_960
    assert engine.vocab.piece(9707) == b"Hello"
    assert 151_645 in engine.vocab.ends


@pytest.mark.slow
def test_answers_are_plain_text_that_neither_ends_nor_repeats(engine):
    prompt = engine.vocab.tokenize("Hello world, once upon a time")
    (rows,) = engine.decode([Rows(0, 0, np.array(prompt, np.int32), 1)])
    drawn = []
    for step in range(N_ANSWER):
        assert np.isfinite(rows[-1]).all()
        drawn.append(int(rows[-1].argmax()))
        token = np.array(drawn[-1:], np.int32)
        (rows,) = engine.decode([Rows(0, len(prompt) + step, token, 1)])
    assert not set(drawn) & set(engine.vocab.ends)
    assert all(engine.vocab.piece(token).isascii() for token in drawn)
    assert len(set(drawn)) > N_ANSWER // 2


def test_the_default_shape_has_as_many_weights_as_qwen3():
    shapes = list(qwen_shape.tensor_shapes(Shape(), 151_936))
    assert sum(int(np.prod(size)) for _, size in shapes) == 596_049_920
    assert len(shapes) == 2 + 28 * 11


def test_a_tensor_is_drawn_the_same_each_time():
    one, same = (qwen_shape.draw("token_embd.weight", (9, 4), (3,)) for _ in range(2))
    assert (one == same).all()
    assert np.abs(one[3]).max() < np.abs(one).max() / 5
