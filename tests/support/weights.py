"""Random weights that make a tiny model behave enough like a trained one.

Three things matter to a test: logits that depend on the whole prompt, greedy text
that is not one token over and over, and answers that do not end by chance.
"""

import zlib
from dataclasses import dataclass

import numpy as np

from scripts.gguf_file import Tensor


@dataclass(frozen=True, slots=True)
class Weights:
    """Draws named tensors. The same seed and name always give the same values.

    Attributes:
        seed: Which of all random models it is.
        noise: How far from the model of this seed, 0 to 1. A model a little way off
            agrees on some of the tokens.
    """

    seed: int
    noise: float = 0.0

    def matrix(self, name: str, *shape: int, gain: float = 1.0) -> Tensor:
        """A projection [..., n_out, n_in] that keeps the size of what it is given.

        Unit-sized inputs come out with a standard deviation of `gain`.
        """
        return self._normal(name, shape) * np.float32(gain / shape[-1] ** 0.5)

    def table(self, name: str, *shape: int, size: float = 1.0) -> Tensor:
        """Vectors to look up [n_rows, n_embd], or a kernel, of standard size `size`."""
        return self._normal(name, shape) * np.float32(size)

    def norm(self, name: str, n: int, size: float = 1.0) -> Tensor:
        """The scale of a normalisation [n]: near `size`, each element different."""
        return np.float32(size) * (1 + np.float32(0.1) * self._normal(name, (n,)))

    def head(
        self, name: str, n_vocab: int, n_embd: int, marker_ids: tuple[int, ...]
    ) -> Tensor:
        """The output matrix [n_vocab, n_embd], kept apart from the embeddings.

        Sharing them would favour the token just read, so greedy text would repeat it.
        Logits come out with a standard deviation of 4, which makes the best token
        stand out as a trained model's does. Markers get logits near 0, far below
        the best ones, so that an answer runs to its limit.
        """
        rows = self.matrix(name, n_vocab, n_embd, gain=4.0)
        rows[list(marker_ids)] *= np.float32(0.05)
        return rows

    def _normal(self, name: str, shape: tuple[int, ...]) -> Tensor:
        stream = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        drawn = stream.standard_normal(shape, dtype=np.float32)
        if self.noise:
            other = stream.standard_normal(shape, dtype=np.float32)
            kept = np.float32((1 - self.noise**2) ** 0.5)
            drawn = kept * drawn + np.float32(self.noise) * other
        return drawn
