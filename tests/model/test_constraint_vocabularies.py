"""Masks over vocabularies of other makes, held against every token's own bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kinetic.model.constraints.constraint import ConstraintCompiler
from kinetic.model.native.model import Model
from kinetic.model.vocab import Vocab
from kinetic.types import ConstraintSpec
from tests.support.bytewise import allowed

# Byte-level BPE, SentencePiece with and without unused tokens.
NAMES = ("gpt-2", "llama-spm", "phi-3")
LOWER = frozenset(b"abcdefghijklmnopqrstuvwxyz")


class Held:
    """A vocabulary, its compiler, and which of its tokens are text."""

    def __init__(self, model: Model) -> None:
        self.vocab = Vocab(model)
        self.compiler = ConstraintCompiler(model, self.vocab)
        self.row = np.zeros(model.n_vocab, np.float32)
        self.texts = {
            token: piece
            for token in range(model.n_vocab)
            if token not in self.vocab.controls and token not in self.vocab.ends
            if (piece := self.vocab.piece(token))
        }

    def spec(self, kind: str, source: str) -> ConstraintSpec:
        return ConstraintSpec(kind=kind, source=source)


@pytest.fixture(scope="module", params=NAMES)
def held(request: pytest.FixtureRequest, vocab_dir: Path) -> Iterator[Held]:
    path = vocab_dir / f"ggml-vocab-{request.param}.gguf"
    model = Model(path, vocab_only=True)
    yield Held(model)
    model.close()


def begins_text(piece: bytes) -> bool:
    """Whether bytes are UTF-8 so far."""
    try:
        piece.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return b"\0" not in piece


def test_exactly_the_tokens_of_a_class_are_allowed(held: Held):
    matcher = held.compiler.compile(held.spec("gbnf", "root ::= [a-z]+")).matcher()
    expected = [token for token, text in held.texts.items() if LOWER.issuperset(text)]
    assert allowed(matcher.mask(held.row)) == expected
    assert len(expected) > 5000


def test_exactly_the_tokens_of_any_text_and_the_ends_are_allowed(held: Held):
    matcher = held.compiler.compile(held.spec("gbnf", "root ::= .*")).matcher()
    expected = {token for token, text in held.texts.items() if begins_text(text)}
    assert set(allowed(matcher.mask(held.row))) == expected | held.vocab.ends


def test_every_token_of_one_text_is_allowed(held: Held):
    # SentencePiece has most characters twice: as a piece and as a byte.
    matcher = held.compiler.compile(held.spec("gbnf", r'root ::= "\n" "x"')).matcher()
    expected = [token for token, text in held.texts.items() if text in {b"\n", b"\nx"}]
    assert allowed(matcher.mask(held.row)) == expected


def test_text_goes_through_as_the_model_cuts_it(held: Held):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    matcher = held.compiler.compile(
        held.spec("json_schema", json.dumps({**schema, "required": ["a"]}))
    ).matcher()
    text = '{\n  "a": "Grüße an 漢字 🦊, \\"so\\""\n}'
    out = b""
    for token in held.compiler._tokens().canonical(text.encode()):
        assert token in allowed(matcher.mask(held.row)), out
        matcher.accept(token)
        out += held.vocab.piece(token)
    assert out.decode() == text
    assert set(allowed(matcher.mask(held.row))) == held.vocab.ends


def test_proposals_are_the_models_own_way_of_cutting(held: Held):
    grammar = held.spec("gbnf", 'root ::= "hello world, and more" [.!]+')
    tokens = held.compiler.compile(grammar).matcher().forced()
    assert b"".join(held.vocab.piece(token) for token in tokens) == b"hello world, and"
    assert len(tokens) == 4
