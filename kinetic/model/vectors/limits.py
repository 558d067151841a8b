"""How much one request for vectors or scores may ask for. Pure.

Lists are bounded by what they hold and not by their length alone: 2,048 texts of a
sentence are little, and 256 that fill a long context are much.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Final

from kinetic.errors import RequestError

TOKENS_MAX: Final = 1 << 20
"""Of all inputs together: 2,048 of 512 each, some 40 MiB of ids."""

INPUT_TOKENS_MIN: Final = 16
"""What an input counts at least, as it takes its own room: so there are 65,536."""

NUMBERS_MAX: Final = 1 << 24
"""Of all vectors together: 2,048 of 8,192 each, 64 MiB, and 350 MB as text."""


def add_tokens(n_tokens: int, tokens: Sized, param: str) -> int:
    """Count one input more; raise RequestError where there are too many in all."""
    n_tokens += max(len(tokens), INPUT_TOKENS_MIN)
    if n_tokens > TOKENS_MAX:
        message = (
            f"{param} holds more than {TOKENS_MAX} tokens in all: send it in several"
            " requests"
        )
        raise RequestError(message, param=param)
    return n_tokens


def check_numbers(n_numbers: int, param: str) -> None:
    """Raise RequestError for inputs whose vectors have too many numbers in all."""
    if n_numbers > NUMBERS_MAX:
        message = (
            f"the vectors of {param} have {n_numbers} numbers in all; at most"
            f" {NUMBERS_MAX} are answered at once"
        )
        raise RequestError(message, param=param)
