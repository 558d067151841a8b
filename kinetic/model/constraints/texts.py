"""Looks for patterns in whole texts, in time that grows with their length alone.

Python's own engine may take for ever over a client's pattern, with the lock of all
threads held.
"""

from __future__ import annotations

import functools
import json

import llguidance

from kinetic.model.constraints import guidance


def text_matches(pattern: str, text: str) -> bool:
    """Whether a pattern is found in a text, in time that grows with its length alone.

    Raises GrammarRefusedError where the pattern is too complex. Thread: any.
    """
    matcher = _text_matcher(pattern).deep_copy()
    raw = json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")
    n_read = matcher.try_consume_tokens(list(raw))
    if matcher.is_error():
        raise guidance.GrammarRefusedError(guidance.reason_of(matcher.get_error()))
    return n_read == len(raw) and matcher.is_accepting()


@functools.lru_cache(maxsize=64)
def _text_matcher(pattern: str) -> llguidance.LLMatcher:
    schema = json.dumps({"type": "string", "pattern": pattern})
    return guidance.one_matcher(
        _bytes(), f"start: %json {schema}\n", guidance.NativeLimits()
    )


@functools.cache
def _bytes() -> llguidance.LLTokenizer:
    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Bytes()))


class _Bytes:
    """A vocabulary of the 256 bytes, and an end."""

    tokens = (*(bytes([byte]) for byte in range(256)), b"<end>")
    special_token_ids = (256,)
    bos_token_id = None
    eos_token_id = 256

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)
