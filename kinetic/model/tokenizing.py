"""What a text costs the engine's tokenizers, and how much of one is read.

Most pre-tokenizers of byte-level vocabularies are a `std::regex`, which calls itself
for every character of a match: 320 bytes of stack each (measured with all of them). A
match goes over blanks and letters alike in some, so all that can be said of its end is
that a line break before an ASCII character that is no blank is always one.

A few look at the rest of a run again at each of its characters, SentencePiece at all of
its output for each character that it spells in bytes, and all at every marker found so
far for each one more. These take seconds for a thousandth of the largest body, and
native code cannot be interrupted.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

from kinetic.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Collection

SHORT: Final = 1_000
"""Texts of at most as many bytes are safe on any thread, and quick."""

MOST_CHARS: Final = 8_000_000
"""Of one text: 7 s and 2 GB of memory, measured with a token for each byte."""

MOST_UNBROKEN: Final = 1_000_000
"""Characters without a line break: 320 MB of stack."""

STACK_PER_CHAR: Final = 800
STACK_BASE: Final = 1 << 20

MOST_BYTEWISE: Final = 50_000_000_000
"""Characters spelt in bytes, times the bytes of the text: about 5 s."""

MOST_MARKS: Final = 50_000
"""Their square is what they take: 7 s."""

_LINE = re.compile(r"\n(?=[!-~])")

_RUNS: Final = {
    "superbpe": (re.compile(r"[0-9]+"), "digits", 1_000),
    "deepseek-llm": (re.compile(r"[^\S\r\n]+"), "blanks", 1_000),
    "jais-2": (re.compile(r"\s+"), "blanks", 100_000),
}
"""By pre-tokenizer: runs whose square is what they take, at most 20 us a character."""


def check_length(text: str) -> None:
    """Raise RequestError for more text than is read at once."""
    if len(text) > MOST_CHARS:
        raise RequestError(
            f"has {len(text)} characters; at most {MOST_CHARS} are read at once"
        )


def pre_tokenizer_stack(text: str, pre: str) -> int:
    """Bytes of stack that the pre-tokenizer `pre` may need for a text.

    Raises RequestError for lines and runs that are too long.
    """
    longest = max(map(len, _LINE.split(text)))
    if longest > MOST_UNBROKEN:
        raise RequestError(
            f"has {longest} characters without a line break; at most"
            f" {MOST_UNBROKEN} are read"
        )
    if pre in _RUNS:
        pattern, what, most = _RUNS[pre]
        run = max(map(len, pattern.findall(text)), default=0)
        if run > most:
            raise RequestError(
                f"has {run} {what} in a row; this model's tokenizer reads at most"
                f" {most}"
            )
    return STACK_BASE + STACK_PER_CHAR * longest


def check_marks(text: str, mark: re.Pattern[str]) -> None:
    """Raise RequestError for more tokens that text is cut at than are soon found."""
    found = sum(1 for _ in islice(mark.finditer(text), MOST_MARKS + 1))
    if found > MOST_MARKS:
        raise RequestError(
            f"has more than {MOST_MARKS} markers and other tokens that text is cut at"
        )


def check_bytewise(text: str, n_bytes: int, known: Collection[str]) -> None:
    """Raise RequestError for too many characters that are not among the `known`.

    Those are the vocabulary's; all others are spelt in bytes.
    """
    most = MOST_BYTEWISE // n_bytes
    if len(text) <= most:
        return
    found = sum(n for char, n in Counter(text).items() if char not in known)
    if found > most:
        raise RequestError(
            f"has {found} characters that the model's vocabulary does not know; at most"
            f" {most} are read in a text of {n_bytes} bytes"
        )
