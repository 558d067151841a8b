"""The real encoder, written out as GGUF, knows which sentences are related."""

import numpy as np
import pytest

from scripts.minilm import all_minilm_l6_v2
from tests.support.native import Floats, NativeModel

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("minilm_dir")]

SENTENCES = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "Quantum computers factor integers.",
]


@pytest.fixture(scope="module")
def vectors() -> dict[str, list[Floats]]:
    made = {}
    for path in (all_minilm_l6_v2("F16"), all_minilm_l6_v2("F32")):
        with NativeModel(path, n_ctx=512, embeddings=True) as model:
            raw = [model.pooled(model.tokens(text), 384) for text in SENTENCES]
        made[path.name] = [vector / np.linalg.norm(vector) for vector in raw]
    return made


def test_related_sentences_are_closer_than_unrelated_ones(
    vectors: dict[str, list[Floats]],
) -> None:
    for of_file in vectors.values():
        first, related, *others = of_file
        assert first @ related > 0.7
        assert all(abs(first @ other) < 0.2 for other in others)


def test_both_precisions_give_nearly_the_same_vectors(
    vectors: dict[str, list[Floats]],
) -> None:
    half, whole = vectors.values()
    for one, other in zip(half, whole, strict=True):
        assert one @ other > 0.9999


def test_tokens_are_those_of_the_published_tokenizer() -> None:
    with NativeModel(all_minilm_l6_v2(), n_ctx=512, embeddings=True) as model:
        assert model.tokens("A man is eating food.") == [
            101,  # [CLS]
            1037,
            2158,
            2003,
            5983,
            2833,
            1012,
            102,  # [SEP]
        ]
        assert model.n_vocab == 30_522
