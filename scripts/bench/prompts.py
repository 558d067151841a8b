"""Made-up texts of a wanted number of tokens, none of which starts like another."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from kinetic.model.native.model import Model

_COMMON = (
    "river mountain window garden letter market kitchen engine summer winter morning"
    " evening bridge harbour teacher doctor farmer painter music history science"
    " silver golden wooden narrow broad quiet heavy simple early late green yellow"
    " carry gather follow measure answer wonder travel build repair listen remember"
    " between under beside without during against toward behind above around"
    " paper stone water cloud forest island village castle station theatre library"
    " number circle corner family captain soldier brother sister neighbour stranger"
    " apple bread butter cheese coffee salt sugar honey orange lemon"
)


class Prompts:
    """Draws texts. The same seed gives the same texts, so that servers get equal ones.

    Args:
        count: Tells how many tokens a text is.
        seed: Anything that differs from load to load and from round to round.
    """

    def __init__(self, count: Callable[[str], int], seed: str) -> None:
        self._count = count
        self._random = random.Random(seed)
        self._common = _COMMON.split()

    def words(self, n: int) -> str:
        """Draws some words."""
        return " ".join(self._random.choices(self._common, k=n))

    def text(self, n_tokens: int) -> str:
        """Draws a text of that many tokens, or just below."""
        drawn = self._random.choices(self._common, k=n_tokens)
        low, high = 1, len(drawn)
        while low < high:
            middle = (low + high + 1) // 2
            if self._count(" ".join(drawn[:middle])) <= n_tokens:
                low = middle
            else:
                high = middle - 1
        return " ".join(drawn[:low])


def token_counter(model: Path) -> Callable[[str], int]:
    """Counts tokens with a model's own vocabulary; no weights are loaded."""
    vocabulary = Model(model, vocab_only=True)

    def count(text: str) -> int:
        return len(
            vocabulary.tokenize(text.encode(), add_special=False, parse_special=False)
        )

    return count
