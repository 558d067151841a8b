"""BERT in numpy, from the weights as they were published: an independent reckoning.

Written after the paper and the model's own configuration; shares nothing with llama.cpp
or the GGUF writer but the weights.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from scripts.gguf_file import Tensor
from scripts.minilm import minilm_tensors

Floats = npt.NDArray[np.float64]

_N_LAYER = 6
_N_HEAD = 12
_EPSILON = 1e-12
_ERF = np.vectorize(math.erf)


def mean_vector(tokens: Sequence[int]) -> Floats:
    """The unit vector [384] of one text's token ids."""
    hidden = _embedded(tokens)
    for layer in range(_N_LAYER):
        hidden = _block(hidden, f"encoder.layer.{layer}")
    mean = hidden.mean(axis=0)
    vector: Floats = mean / np.linalg.norm(mean)
    return vector


@cache
def _weights() -> Mapping[str, Tensor]:
    return minilm_tensors()


def _weight(name: str) -> Floats:
    return np.asarray(_weights()[name], np.float64)


def _linear(x: Floats, name: str) -> Floats:
    return x @ _weight(f"{name}.weight").T + _weight(f"{name}.bias")


def _layer_norm(x: Floats, name: str) -> Floats:
    centred = x - x.mean(axis=-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + _EPSILON)
    normed: Floats = centred / spread * _weight(f"{name}.weight")
    return normed + _weight(f"{name}.bias")


def _embedded(tokens: Sequence[int]) -> Floats:
    n = len(tokens)
    words = _weight("embeddings.word_embeddings.weight")[list(tokens)]
    places = _weight("embeddings.position_embeddings.weight")[:n]
    kind = _weight("embeddings.token_type_embeddings.weight")[0]
    return _layer_norm(words + places + kind, "embeddings.LayerNorm")


def _heads(x: Floats) -> Floats:
    return x.reshape(len(x), _N_HEAD, -1).transpose(1, 0, 2)


def _block(x: Floats, name: str) -> Floats:
    query, key, value = (
        _heads(_linear(x, f"{name}.attention.self.{part}"))
        for part in ("query", "key", "value")
    )
    scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    mixed = (shares @ value).transpose(1, 0, 2).reshape(len(x), -1)
    seen = _linear(mixed, f"{name}.attention.output.dense")
    x = _layer_norm(x + seen, f"{name}.attention.output.LayerNorm")
    inner = _linear(x, f"{name}.intermediate.dense")
    inner = inner * 0.5 * (1 + _ERF(inner / math.sqrt(2)))
    return _layer_norm(
        x + _linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm"
    )
