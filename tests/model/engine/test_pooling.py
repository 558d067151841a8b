"""What a file is served for, and the passes of an input, decided by its header alone."""

import pytest
from hypothesis import given, strategies as st

from kinetic.errors import ModelError
from kinetic.files.gguf import Header, Tensor
from kinetic.model.engine.pooling import TEXT, longest_input, parts, serving


def header(architecture="bert", tensors=(), **values):
    named = {f"{architecture}.{k.replace('__', '.')}": v for k, v in values.items()}
    return Header(
        values={"general.architecture": architecture, **named},
        tensors=tuple(Tensor(name, "F32", (1,)) for name in tensors),
    )


@pytest.mark.parametrize(
    ("number", "name"), [(0, "none"), (1, "mean"), (2, "cls"), (3, "last")]
)
def test_the_file_says_how_an_encoder_pools(number, name):
    found = serving(header(pooling_type=number), None)
    assert (found.kind, found.pooling) == ("embedding", name)
    assert not found.splits


def test_an_encoder_that_says_nothing_gives_one_vector_for_each_token():
    assert serving(header(), None).pooling == "none"
    assert serving(header(pooling_type=-1), None).pooling == "none"
    assert serving(header(), None).kind == "embedding"


def test_a_generator_without_pooling_serves_text():
    assert serving(header("llama"), None) == TEXT
    assert serving(header("llama"), "none") == TEXT
    assert serving(header("qwen3", pooling_type=3), "none") == TEXT


def test_a_generator_that_pools_its_last_token_may_be_split():
    found = serving(header("qwen3", pooling_type=3), None)
    assert (found.kind, found.pooling, found.splits) == ("embedding", "last", True)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_what_looks_at_more_than_the_last_token_is_run_whole(pooling):
    assert not serving(header("qwen3"), pooling).splits


def test_a_model_that_reads_both_ways_is_run_whole():
    both_ways = header("llama", pooling_type=3, attention__causal=False)
    assert not serving(both_ways, None).splits
    assert not serving(header("gemma-embedding"), "last").splits


def test_the_pooling_asked_for_wins_over_the_files():
    assert serving(header(pooling_type=1), "cls").pooling == "cls"


@pytest.mark.parametrize(
    ("architecture", "splits", "probabilities"),
    [("bert", False, False), ("qwen3", True, True), ("llama", True, False)],
)
def test_a_head_that_scores_makes_a_ranking_model(architecture, splits, probabilities):
    found = serving(header(architecture, ["cls.output.weight"], pooling_type=4), None)
    assert (found.kind, found.pooling) == ("rerank", "rank")
    assert found.splits is splits
    assert found.gives_probabilities is probabilities


def test_a_head_behind_a_mean_needs_all_tokens_at_once():
    found = serving(
        header("qwen3", ["cls.weight"], pooling_type=4, classifier__pooling_type=1),
        None,
    )
    assert not found.splits


def test_scores_without_a_head_are_refused():
    with pytest.raises(ModelError, match="--pooling rank asks for scores"):
        serving(header("llama", ["output.weight"]), "rank")
    with pytest.raises(ModelError, match="the file asks for scores"):
        serving(header(pooling_type=4), None)


def test_the_head_may_lie_in_another_part_of_a_split_file():
    split = header(pooling_type=4)
    split.values["split.count"] = 3
    assert serving(split, None).kind == "rerank"


def test_a_pooling_that_the_engine_would_end_the_process_for_is_refused():
    with pytest.raises(ModelError, match="pooling 9"):
        serving(header(pooling_type=9), None)


@given(st.integers(1, 3000), st.integers(1, 600))
def test_passes_cover_an_input_once_and_in_order(n_tokens, n_batch):
    found = parts(n_tokens, n_batch=n_batch, splits=True)
    assert [t for first, end in found for t in range(first, end)] == list(
        range(n_tokens)
    )
    assert all(0 < end - first <= n_batch for first, end in found)
    assert parts(n_tokens, n_batch=n_batch, splits=False) == ((0, n_tokens),)


@given(st.integers(1, 500), st.integers(1, 500))
def test_a_longer_input_begins_with_the_same_passes(n_tokens, n_more):
    short = parts(n_tokens, n_batch=64, splits=True)
    long = parts(n_tokens + n_more, n_batch=64, splits=True)
    assert long[: len(short) - 1] == short[:-1]


def test_a_context_of_which_half_the_memory_cannot_hold_the_outputs_is_cut():
    small = longest_input(n_ctx=512, n_vocab=30_000, n_embd=384, free_bytes=8 << 30)
    assert small == 512
    many_words = longest_input(
        n_ctx=8192, n_vocab=250_000, n_embd=1024, free_bytes=8 << 30
    )
    assert 1024 < many_words < 4096
    assert longest_input(n_ctx=512, n_vocab=30_000, n_embd=384, free_bytes=0) == 1
