"""Small vocabularies cut out of real ones: byte-level BPE, SentencePiece, WordPiece.

A real vocabulary of 30 to 50 thousand tokens would be nearly all of a tiny model.
The ones made here hold about two thousand and tokenise every text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

from gguf import GGUFReader, TokenType

from scripts.gguf_file import Metadata, MetaValue
from scripts.minilm import BERT_CONTROLS, BERT_ROLES, BERT_TOKENIZER, bert_piece

_N_MERGES = 1_750
_N_WORDS = 2_300
# The words of BERT's uncased vocabulary start here, most frequent first.
_FIRST_WORD = 1_996


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A tokenizer as a model file describes it.

    Attributes:
        metadata: All `tokenizer.ggml.*` keys.
        n_tokens: Rows of the embedding table.
        marker_ids: Tokens that are units outside ordinary text, visible or not.
    """

    metadata: Metadata
    n_tokens: int
    marker_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """The tokens of a model family that stand outside ordinary text.

    Attributes:
        control: Tokens that never show as text.
        visible: Tokens that show as text although they are one unit.
        roles: Role name (`bos`, `eos`, `padding`, ...) to the token's text.
        add_bos: Whether a prompt starts with the `bos` token.
    """

    control: tuple[str, ...]
    visible: tuple[str, ...] = ()
    roles: tuple[tuple[str, str], ...]
    add_bos: bool


def byte_level_bpe(source: Path, pre: str, markers: Markers) -> Vocabulary:
    """All 256 bytes, the first merges of `source` in rank order, then the markers.

    Args:
        source: A GGUF file with a `gpt2` tokenizer, whose merges are taken.
        pre: llama.cpp's name of the pre-tokenizer to declare.
        markers: Tokens outside ordinary text.
    """
    merges = _merges(source)
    plain = [*_byte_letters(), *(merge.replace(" ", "") for merge in merges)]
    tokens = list(dict.fromkeys(plain))  # two merges can give the same token
    types = [TokenType.NORMAL] * len(tokens)
    return _vocabulary(
        "gpt2",
        [*tokens, *markers.control, *markers.visible],
        [
            *types,
            *[TokenType.CONTROL] * len(markers.control),
            *[TokenType.USER_DEFINED] * len(markers.visible),
        ],
        markers,
        {"tokenizer.ggml.pre": pre, "tokenizer.ggml.merges": merges},
    )


def sentencepiece(source: Path, markers: Markers) -> Vocabulary:
    """Markers, 256 byte tokens, and the pieces that the merges of `source` make.

    SentencePiece joins the neighbours whose joined piece scores best, so scores that
    fall with the rank of the merge give the same joins as the BPE vocabulary.
    """
    byte_of = {letter: byte for byte, letter in enumerate(_byte_letters())}
    pieces: dict[str, float] = {}
    letters = (letter for letter in _byte_letters() if byte_of[letter] < 128)
    joined = (merge.replace(" ", "") for merge in _merges(source))
    for rank, token in enumerate(chain(joined, letters)):
        try:
            text = bytes(byte_of[letter] for letter in token).decode()
        except UnicodeDecodeError:
            continue  # a merge inside a character: the byte tokens cover it
        pieces.setdefault(text.replace(" ", "\u2581"), -float(rank))
    marks = [*markers.control, *markers.visible]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    types = [
        *[TokenType.CONTROL] * len(markers.control),
        *[TokenType.USER_DEFINED] * len(markers.visible),
        *[TokenType.BYTE] * len(byte_tokens),
        *[TokenType.NORMAL] * len(pieces),
    ]
    types[marks.index("<unk>")] = TokenType.UNKNOWN
    scores = [*[0.0] * (len(marks) + len(byte_tokens)), *pieces.values()]
    return _vocabulary(
        "llama",
        [*marks, *byte_tokens, *pieces],
        types,
        markers,
        {
            "tokenizer.ggml.pre": "default",
            "tokenizer.ggml.scores": scores,
            "tokenizer.ggml.add_space_prefix": False,
        },
    )


BERT_MARKERS = Markers(control=BERT_CONTROLS, roles=BERT_ROLES, add_bos=True)


def wordpiece(words: Sequence[str]) -> Vocabulary:
    """The frequent part of BERT's vocabulary, the lines of its `vocab.txt`.

    The markers come first, then single ASCII characters alone and inside words, then
    frequent words.
    """
    letters = [word for word in words if len(word) == 1 and word.isascii()]
    inner = [word for word in words if word.startswith("##") and len(word) == 3]
    frequent = words[_FIRST_WORD : _FIRST_WORD + _N_WORDS]
    kept = chain(BERT_MARKERS.control, letters, inner, frequent)
    tokens = list(dict.fromkeys(kept))
    marks = set(BERT_MARKERS.control)
    types = [
        TokenType.CONTROL if token in marks else TokenType.NORMAL for token in tokens
    ]
    return _vocabulary(
        "bert",
        [bert_piece(token) for token in tokens],
        types,
        BERT_MARKERS,
        BERT_TOKENIZER,
    )


def _vocabulary(
    model: str,
    tokens: list[str],
    types: list[TokenType],
    markers: Markers,
    extra: Metadata,
) -> Vocabulary:
    metadata: dict[str, MetaValue] = {
        "tokenizer.ggml.model": model,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [int(kind) for kind in types],
        "tokenizer.ggml.add_bos_token": markers.add_bos,
        **extra,
    }
    for role, token in markers.roles:
        metadata[f"tokenizer.ggml.{role}_token_id"] = tokens.index(token)
    text = (TokenType.NORMAL, TokenType.BYTE)
    marker_ids = tuple(i for i, kind in enumerate(types) if kind not in text)
    return Vocabulary(metadata, len(tokens), marker_ids)


@cache
def _merges(source: Path) -> tuple[str, ...]:
    field = GGUFReader(source).get_field("tokenizer.ggml.merges")
    if field is None:
        message = f"{source} has no BPE merges"
        raise ValueError(message)
    return tuple(field.contents(slice(0, _N_MERGES)))


@cache
def _byte_letters() -> tuple[str, ...]:
    """The printable character that stands for each byte in byte-level BPE."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in letters)
    letters.update({byte: chr(0x100 + i) for i, byte in enumerate(others)})
    return tuple(letters[byte] for byte in range(256))
