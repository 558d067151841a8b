"""Log-probabilities in OpenAI's two shapes: that of chat and the older one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinetic.types import TokenLogprob

Json = dict[str, Any]


def token_text(piece: bytes) -> str:
    """A token as text; bytes that are no whole characters in OpenAI's notation.

    Two different pieces never read the same, as they would with U+FFFD for all of them.
    """
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)


def chat_entry(entry: TokenLogprob) -> Json:
    """One token in the chat shape."""
    return {
        **_token(entry.piece, entry.logprob),
        "top_logprobs": [_token(piece, logprob) for _, piece, logprob in entry.top],
    }


def _token(piece: bytes, logprob: float) -> Json:
    return {"token": token_text(piece), "logprob": logprob, "bytes": list(piece)}


def text_entries(
    entries: Sequence[TokenLogprob], *, start: int, is_prompt: bool = False
) -> Json:
    """Tokens in the older shape.

    The likeliest tokens are told with the drawn one among them: one more than asked for
    where it is none of them. The first token of a prompt follows nothing, so it has no
    log-probability.

    Args:
        entries: The tokens, in order.
        start: Offset of the first one in the choice's text, in characters.
        is_prompt: Whether they are a whole prompt.
    """
    follows = [not (is_prompt and i == 0) for i in range(len(entries))]
    told = list(zip(entries, follows, strict=True))
    return {
        "tokens": [token_text(entry.piece) for entry in entries],
        "token_logprobs": [entry.logprob if has else None for entry, has in told],
        "top_logprobs": [_top(entry) if has else None for entry, has in told],
        "text_offset": [max(at, 0) for at in _offsets(entries, start)],
    }


def prompt_entries(entries: Sequence[TokenLogprob], text: str) -> Json:
    """A whole prompt's tokens in the older shape, with its text as it is echoed."""
    pieces = b"".join(entry.piece for entry in entries)
    # A BOS, or a blank, that the tokenizer put before the text has no place in it.
    start = len(text) - len(pieces.decode("utf-8", "replace"))
    return text_entries(entries, start=start, is_prompt=True)


def _top(entry: TokenLogprob) -> dict[str, float]:
    top: dict[str, float] = {}
    for _, piece, logprob in entry.top:
        # Of two tokens with one text the likelier stands.
        top.setdefault(token_text(piece), logprob)
    top.setdefault(token_text(entry.piece), entry.logprob)
    return top


def _offsets(entries: Sequence[TokenLogprob], start: int) -> list[int]:
    """Where each token's text starts; all tokens of one character start at it."""
    offsets = []
    open_bytes = b""
    for entry in entries:
        offsets.append(start)
        text, open_bytes = _whole_characters(open_bytes + entry.piece)
        start += len(text)
    return offsets


_LONGEST_CHARACTER = 4


def _whole_characters(piece: bytes) -> tuple[str, bytes]:
    """Split bytes into the text they hold and an unfinished last character."""
    for n_open in range(min(_LONGEST_CHARACTER, len(piece) + 1)):
        cut = len(piece) - n_open
        try:
            return piece[:cut].decode(), piece[cut:]
        except UnicodeDecodeError:
            continue
    return piece.decode("utf-8", "replace"), b""
