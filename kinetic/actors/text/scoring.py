"""Log-probabilities as they are reported. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinetic.model.sampler_chain import likeliest, log_softmax
from kinetic.types import TokenLogprob

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from kinetic.model.vocab import Vocab


def score(
    vocab: Vocab, row: npt.NDArray[np.float32], token: int, piece: bytes, count: int
) -> TokenLogprob:
    """A token under the model's raw logits, before any sampler.

    `row` is [n_vocab] float32, `piece` the token's bytes as they stand in the answer,
    `count` how many of the likeliest tokens to tell too.
    """
    logprobs = log_softmax(row)
    top = tuple(
        (other, vocab.full_piece(other), float(logprobs[other]))
        for other in likeliest(logprobs, count)
    )
    return TokenLogprob(
        token_id=token, piece=piece, logprob=float(logprobs[token]), top=top
    )


def score_drawn(
    vocab: Vocab,
    left: Sequence[tuple[int, float]],
    token: int,
    piece: bytes,
    count: int,
) -> TokenLogprob:
    """A token among what the samplers left; `logprob` then holds its probability.

    Source: llama-server's `post_sampling_probs`.
    """
    # Where nothing was left to chance, the drawn token is all there is.
    shares = dict(left) or {token: 1.0}
    top = tuple(
        (other, vocab.full_piece(other), p)
        for other, p in list(shares.items())[:count]
        if p > 0
    )
    return TokenLogprob(
        token_id=token, piece=piece, logprob=shares.get(token, 1.0), top=top
    )


class PromptScores:
    """Scores a prompt's tokens from the rows before them; the first has none."""

    def __init__(self, vocab: Vocab, prompt: Sequence[int], count: int) -> None:
        self._vocab = vocab
        self._prompt = prompt
        self._count = count
        first = prompt[0]
        self.entries = [
            TokenLogprob(token_id=first, piece=vocab.full_piece(first), logprob=0.0)
        ]

    def feed(self, rows: npt.NDArray[np.float32]) -> None:
        """Take the next rows [n, n_vocab]; the prompt's last row scores nothing."""
        for row in rows:
            at = len(self.entries)
            if at >= len(self._prompt):
                return
            token = self._prompt[at]
            piece = self._vocab.full_piece(token)
            self.entries.append(score(self._vocab, row, token, piece, self._count))
