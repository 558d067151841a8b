"""The made models do what tests need of them, seen through llama.cpp's own API."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader

from scripts.gguf_file import Int32
from tests.support import sources, tiny_models
from tests.support.native import NativeModel, Row
from tests.support.tiny_models import ENCODERS, GENERATORS, Precision

pytestmark = [
    pytest.mark.model,
    pytest.mark.usefixtures("smollm2_path", "minilm_dir"),
]

PROMPTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Once upon a time",
    "def add(a, b):\n    return a + b\n",
    "x",
]
VECTOR_SIZES = {
    "bert_encoder": 128,
    "bert_encoder_cls": 128,
    "bert_cross_encoder": 1,
    "qwen3_reranker": 2,
}
TEXTS = [
    "plain words, and 12,345 figures!",
    "  two spaces\n\n\ttab\r\n",
    "naïve café — 東京 🦊 \u200d",
    "",
]

every_generator = pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)


def marker_ids(path: Path) -> set[int]:
    types = GGUFReader(path).fields["tokenizer.ggml.token_type"].contents()
    return {i for i, kind in enumerate(types) if kind not in (1, 6)}


@every_generator
def test_a_generator_answers_different_prompts_differently(
    make: Callable[[], Path],
) -> None:
    with NativeModel(make()) as model:
        rows = []
        for prompt in PROMPTS:
            model.clear()
            rows.append(model.prompt(model.tokens(prompt)))

    assert all(np.isfinite(row).all() for row in rows)
    assert all(2 < row.std() < 8 for row in rows)
    for one, other in itertools.combinations(rows, 2):
        assert np.corrcoef(one, other)[0, 1] < 0.9


@every_generator
def test_a_generator_remembers_the_start_of_a_long_prompt(
    make: Callable[[], Path],
) -> None:
    with NativeModel(make()) as model:
        rest = "the cat sat on the mat. " * 20
        first = model.prompt(model.tokens(f"One {rest}"))
        model.clear()
        second = model.prompt(model.tokens(f"Two {rest}"))

    assert np.abs(first - second).max() > 0.05


@every_generator
def test_greedy_text_neither_repeats_nor_ends_by_itself(
    make: Callable[[], Path],
) -> None:
    path = make()
    with NativeModel(path) as model:
        answer = model.greedy(model.tokens(PROMPTS[0]), 100)
        again = model.greedy(model.tokens(PROMPTS[0]), 100)

    assert answer == again
    assert len(set(answer)) > 50
    assert not set(answer) & marker_ids(path)


@every_generator
@pytest.mark.parametrize("text", TEXTS)
def test_any_text_comes_back_from_its_tokens(
    make: Callable[[], Path], text: str
) -> None:
    with NativeModel(make()) as model:
        assert model.text(model.tokens(text, add_special=False)) == text.encode()


def test_markers_are_single_tokens() -> None:
    for path, marker in (
        (tiny_models.qwen3(), "<tool_call>"),
        (tiny_models.llama3(), "<|start_header_id|>"),
        (tiny_models.lfm2(), "<|tool_call_start|>"),
        (tiny_models.gemma3(), "<start_of_turn>"),
    ):
        with NativeModel(path) as model:
            ids = model.tokens(marker, add_special=False)
        assert len(ids) == 1
        assert ids[0] in marker_ids(path)


@pytest.mark.parametrize("precision", Precision)
def test_every_precision_loads(precision: Precision) -> None:
    with NativeModel(tiny_models.qwen3(precision)) as model:
        logits = model.prompt(model.tokens(PROMPTS[0]))

    assert np.isfinite(logits).all()
    assert logits.std() > 2


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_tells_texts_apart(name: str) -> None:
    with NativeModel(ENCODERS[name](), n_ctx=256, embeddings=True) as model:
        vectors = [
            model.pooled(model.tokens(prompt), VECTOR_SIZES[name]) for prompt in PROMPTS
        ]
        again = model.pooled(model.tokens(PROMPTS[0]), VECTOR_SIZES[name])

    assert np.isfinite(vectors).all()
    assert np.array_equal(vectors[0], again)
    for one, other in itertools.combinations(vectors, 2):
        assert np.abs(one - other).max() > 1e-3


def test_a_cross_encoder_scores_pairs_by_both_parts() -> None:
    with NativeModel(
        tiny_models.bert_cross_encoder(), n_ctx=256, embeddings=True
    ) as model:
        separator = model.tokens("")[-1]

        def score(query: str, document: str) -> float:
            ids = [*model.tokens(query), *model.tokens(document)[1:]]
            assert ids.count(separator) == 2
            return float(model.pooled(ids, 1)[0])

        scores = {
            score(query, document)
            for query in ("red fox", "blue whale")
            for document in ("an animal of the forest", "a fish")
        }

    assert len(scores) == 4


def test_a_reranker_gives_probabilities_and_carries_its_prompt() -> None:
    path = tiny_models.qwen3_reranker()
    with NativeModel(path, embeddings=True) as model:
        template = model.meta("tokenizer.chat_template.rerank") or ""
        prompt = template.replace("{query}", "q").replace("{document}", "d")
        yes_no = model.pooled(model.tokens(prompt), 2)

    assert "{query}" in template
    assert yes_no.sum() == pytest.approx(1, abs=1e-5)
    labels = GGUFReader(path).fields["qwen3.classifier.output_labels"].contents()
    assert labels == ["yes", "no"]


def test_a_draft_model_agrees_with_its_target_sometimes() -> None:
    with NativeModel(tiny_models.qwen3()) as target:
        prompt = target.tokens(PROMPTS[0])
        answer = target.greedy(prompt, 150)
    with NativeModel(tiny_models.qwen3_draft()) as draft:
        rows = [Row(token, i, wanted=True) for i, token in enumerate(prompt + answer)]
        logits = draft.decode(rows[:-1])[len(prompt) - 1 :]

    agreed = [
        int(row.argmax()) == token for row, token in zip(logits, answer, strict=True)
    ]
    assert 0.25 < np.mean(agreed) < 0.9


def test_sampling_defaults_stand_in_the_file() -> None:
    path = tiny_models.with_sampling_defaults({"temp": 0.5, "top_k": Int32(3)})
    with NativeModel(path) as model:
        assert float(model.meta("general.sampling.temp") or "nan") == 0.5
        assert model.meta("general.sampling.top_k") == "3"
        assert model.meta("general.sampling.top_p") is None


def test_a_template_replaces_or_joins_the_files_own() -> None:
    own = "tokenizer.chat_template"
    with NativeModel(tiny_models.with_template("{{ 1 }}")) as model:
        assert model.meta(own) == "{{ 1 }}"
    with NativeModel(tiny_models.with_template("{{ 2 }}", "tool_use")) as model:
        assert model.meta(f"{own}.tool_use") == "{{ 2 }}"
        assert "<|im_start|>" in (model.meta(own) or "")
    with NativeModel(tiny_models.with_template(None)) as model:
        assert model.meta(own) is None


def test_every_file_is_small() -> None:
    for make in (*GENERATORS.values(), *ENCODERS.values()):
        assert make().stat().st_size < 10_000_000


def test_a_file_is_the_same_wherever_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tiny_models.qwen35()
    monkeypatch.setattr(sources, "made_models", lambda: tmp_path)
    made = tiny_models.qwen35()

    assert made.name == kept.name
    assert made.parent == tmp_path
    assert made.read_bytes() == kept.read_bytes()
