"""Vectors and scores of the real engine: right, and the same bits every time."""

import numpy as np
import pytest

from kinetic.errors import ModelError
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.engine.vector_exactness import probe_vectors, run_input
from tests.support import tiny_models
from tests.support.native import NativeModel

ENCODERS = {
    "mean": tiny_models.bert_encoder,
    "cls": lambda: tiny_models.bert_encoder("cls"),
    "rank": tiny_models.bert_cross_encoder,
    "qwen3 rank": tiny_models.qwen3_reranker,
}
POOLED_GENERATORS = {
    "qwen3": tiny_models.qwen3,
    "qwen3-moe": tiny_models.qwen3_moe,
    "lfm2": tiny_models.lfm2,
    "qwen35": tiny_models.qwen35,
    "gemma3": tiny_models.gemma3,
}

PAIRS = [
    ("A man is eating food.", "A man is eating a piece of bread."),
    ("The girl is carrying a baby.", "A woman holds a small child."),
    ("How do I reset my password?", "I forgot my login, what now?"),
    ("The stock market fell sharply.", "Shares dropped on Monday."),
    ("It is raining in London.", "A man is eating food."),
    ("Quantum computers factor integers.", "The cat sleeps on the sofa."),
]


def opened(path, **named):
    return LlamaEngine(path, EngineOptions(n_threads=1, **named))


def random_inputs(engine, lengths):
    rng = np.random.default_rng(5)
    most = engine.model.n_vocab
    return [rng.integers(0, most, n).astype(np.int32) for n in lengths]


def equal_in_any_order(engine, inputs):
    first = [run_input(engine, tokens).tobytes() for tokens in inputs]
    for i in np.random.default_rng(6).permutation(len(inputs)):
        assert run_input(engine, inputs[i]).tobytes() == first[i]


@pytest.mark.parametrize("name", ENCODERS)
def test_an_input_has_the_same_bits_in_any_order(name):
    engine = opened(ENCODERS[name](), n_ctx=256)
    try:
        inputs = random_inputs(engine, [1, 2, 9, 64, 127, 128, 129, 255, 256])
        equal_in_any_order(engine, inputs)
        assert probe_vectors(engine).is_row_invariant
    finally:
        engine.close()


@pytest.mark.parametrize("pooling", ["last", "mean"])
@pytest.mark.parametrize("name", POOLED_GENERATORS)
def test_a_generator_that_pools_has_the_same_bits_in_any_order(name, pooling):
    engine = opened(POOLED_GENERATORS[name](), n_ctx=512, pooling=pooling)
    try:
        assert engine.kind == "embedding"
        assert engine.serving.splits is (pooling == "last")
        equal_in_any_order(engine, random_inputs(engine, [1, 129, 300]))
    finally:
        engine.close()


@pytest.mark.parametrize("name", ENCODERS)
def test_vectors_are_those_of_the_engines_plain_path(name):
    path = ENCODERS[name]()
    engine = opened(path, n_ctx=256)
    try:
        inputs = random_inputs(engine, [5, 100, 200])
        found = [run_input(engine, tokens) for tokens in inputs]
        n_vector = engine.n_vector
    finally:
        engine.close()
    with NativeModel(path, n_ctx=256, embeddings=True) as native:
        for tokens, vector in zip(inputs, found, strict=True):
            expected = native.pooled(list(tokens), n_vector)
            assert np.allclose(vector, expected, atol=2e-3)


def test_an_input_in_several_passes_is_read_as_one():
    found = []
    for n_batch in (128, 32):
        engine = opened(tiny_models.qwen3(), n_ctx=512, pooling="last", n_batch=n_batch)
        try:
            (tokens,) = random_inputs(engine, [120])
            found.append((len(engine.parts(120)), run_input(engine, tokens)))
        finally:
            engine.close()
    (whole, one), (several, other) = found
    assert (whole, several) == (1, 4)
    assert one @ other / np.linalg.norm(one) / np.linalg.norm(other) > 1 - 1e-3


def test_qwen3_scores_are_probabilities_of_yes_and_no():
    engine = opened(tiny_models.qwen3_reranker(), n_ctx=256)
    try:
        scores = run_input(engine, random_inputs(engine, [30])[0])
        assert engine.model.class_labels() == ("yes", "no")
        assert engine.serving.gives_probabilities
    finally:
        engine.close()
    assert scores.shape == (2,)
    assert 0 < scores[0] < 1
    assert abs(float(scores.sum()) - 1) < 1e-6


def test_without_pooling_every_token_has_its_vector():
    engine = opened(tiny_models.bert_encoder(), pooling="none")
    try:
        (tokens,) = random_inputs(engine, [17])
        found = run_input(engine, tokens)
    finally:
        engine.close()
    assert found.shape == (17, 128)
    mean = opened(tiny_models.bert_encoder())
    try:
        assert np.allclose(run_input(mean, tokens), found.mean(axis=0), atol=1e-5)
    finally:
        mean.close()


def test_a_context_behind_the_trained_one_is_cut_to_it():
    # Position 257 of this file has no vector: reading it would end the process.
    engine = opened(tiny_models.bert_encoder(), n_ctx=4096)
    try:
        assert engine.n_ctx == 256
        assert np.isfinite(run_input(engine, random_inputs(engine, [256])[0])).all()
    finally:
        engine.close()


def test_an_odd_context_is_used_whole():
    engine = opened(tiny_models.bert_encoder(), n_ctx=100)
    try:
        assert engine.n_ctx == 100
        assert run_input(engine, random_inputs(engine, [100])[0]).shape == (128,)
    finally:
        engine.close()


def test_scores_of_a_model_without_a_head_are_refused():
    with pytest.raises(ModelError, match="no head that gives them"):
        opened(tiny_models.qwen3(), pooling="rank")


@pytest.fixture(scope="module")
def minilm(minilm_dir):
    from scripts.minilm import all_minilm_l6_v2

    engine = opened(all_minilm_l6_v2())
    yield engine
    engine.close()


def unit(engine, text):
    tokens = np.array(engine.vocab.tokenize(text, add_special=True), np.int32)
    vector = run_input(engine, tokens)
    return tokens, vector / np.linalg.norm(vector)


def test_minilm_agrees_with_an_independent_reckoning_of_its_weights(minilm):
    from tests.support.bert_numpy import mean_vector

    found, expected = [], []
    for one, other in PAIRS:
        vectors = [unit(minilm, text) for text in (one, other)]
        reckoned = [mean_vector(list(tokens)) for tokens, _ in vectors]
        for (_, vector), right in zip(vectors, reckoned, strict=True):
            assert float(vector @ right) > 1 - 1e-3
        found.append(float(vectors[0][1] @ vectors[1][1]))
        expected.append(float(reckoned[0] @ reckoned[1]))
    assert np.argsort(found).tolist() == np.argsort(expected).tolist()


def test_minilm_has_the_same_bits_in_any_order(minilm):
    equal_in_any_order(minilm, random_inputs(minilm, [3, 60, 100, 256, 512]))


@pytest.mark.parametrize("name", ["mean", "qwen3 rank"])
def test_a_context_is_cut_to_what_half_the_free_memory_holds(name, caplog):
    path = ENCODERS[name]()
    free = path.stat().st_size + 100_000
    options = EngineOptions(n_threads=1)
    engine = LlamaEngine(path, options, free_bytes=free)
    try:
        assert 16 <= engine.n_ctx < engine.model.n_ctx_train
        assert "memory allows no more" in caplog.text
        tokens = random_inputs(engine, [engine.n_ctx])[0]
        assert np.isfinite(run_input(engine, tokens)).all()
    finally:
        engine.close()
