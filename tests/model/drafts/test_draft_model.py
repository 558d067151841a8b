"""The draft model: whom it fits, and that it goes on with the text as it is now."""

from __future__ import annotations

import numpy as np
import pytest

from kinetic.errors import ModelError
from kinetic.model.drafts import draft_model
from kinetic.model.drafts.draft_model import (
    DraftModel,
    likeliest_of,
    load_draft_model,
    vocab_difference,
)
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.rows import Rows
from tests.support import tiny_models

SIZE = EngineOptions(n_ctx=256, n_parallel=2, n_batch=64, n_threads=1)


@pytest.fixture(scope="module")
def target():
    engine = LlamaEngine(tiny_models.qwen3(), SIZE)
    yield engine
    engine.close()


@pytest.fixture
def guesser(target):
    model = load_draft_model(tiny_models.qwen3_draft(), target)
    yield model
    model.close()


@pytest.fixture(scope="module")
def plain():
    """The draft model's own engine, used by hand."""
    options = EngineOptions(
        n_ctx=256, n_threads=1, flash_attention=True, extra_buffers=True
    )
    engine = LlamaEngine(tiny_models.qwen3_draft(), options)
    yield engine
    engine.close()


def continued(engine, text, count):
    """What a model likes best behind a text, token by token."""
    engine.cut(0, 0)
    found = []
    todo = list(text)
    while len(found) < count:
        first = len(text) + len(found) - len(todo)
        (rows,) = engine.decode([Rows(0, first, np.array(todo, np.int32), 1)])
        todo = [int(rows[0].argmax())]
        found += todo
    return tuple(found)


TEXT = tuple(range(300, 340))


def guess(model, first, tokens, *, slot_id=0, count=5, least=0.0):
    return model.guess(slot_id, first, tokens, count=count, least=least)


# --- Going on -----------------------------------------------------------------------


def test_a_text_goes_on_as_the_model_likes_best(guesser, plain):
    found = guess(guesser, 0, TEXT)
    assert found.tokens == continued(plain, TEXT, 5)
    assert len(found.chances) == found.n_steps == 5
    assert all(0 < chance <= 1 for chance in found.chances)
    assert found.step_s > 0


def test_what_was_guessed_wrong_is_forgotten(guesser, plain):
    first = guess(guesser, 0, TEXT)
    text = [*TEXT, first.tokens[0], 77]
    assert guess(guesser, len(TEXT), text[len(TEXT) :]).tokens == continued(
        plain, text, 5
    )
    # What was guessed right is not run again.
    runs = []
    run = guesser._run
    guesser._run = lambda *args, **named: runs.append(args[1]) or run(*args, **named)
    again = continued(plain, text, 3)
    found = guess(guesser, len(text), [again[0], again[1]], count=1)
    assert found.tokens == continued(plain, [*text, *again[:2]], 1)
    assert [len(piece) for piece in runs] == [1]


def test_another_text_takes_over_what_it_shares(guesser, plain):
    guess(guesser, 0, TEXT)
    other = [*TEXT[:20], *range(400, 410)]
    assert guess(guesser, 0, other).tokens == continued(plain, other, 5)
    # The same again, all of which stands in memory.
    assert guess(guesser, 0, other).tokens == continued(plain, other, 5)


def test_each_slot_has_its_own_text(guesser, plain):
    other = tuple(range(500, 520))
    guess(guesser, 0, TEXT)
    found = guess(guesser, 0, other, slot_id=1)
    assert found.tokens == continued(plain, other, 5)
    assert guess(guesser, len(TEXT), [7]).tokens == continued(plain, [*TEXT, 7], 5)


def test_a_long_text_is_read_in_pieces(guesser, plain, monkeypatch):
    monkeypatch.setattr(draft_model, "CATCH_UP", 16)
    text = list(TEXT)
    answers = [guess(guesser, 0, text)]
    while not answers[-1].tokens:
        text.append(900 + len(answers))
        answers.append(guess(guesser, len(text) - 1, text[-1:]))
        assert len(answers) < 9
    assert len(answers) == 3
    assert answers[-1].tokens == continued(plain, text, 5)


def test_it_stops_where_it_is_not_sure_enough(guesser):
    sure = guess(guesser, 0, TEXT)
    least = sorted(sure.chances)[2]
    found = guess(guesser, 0, TEXT, least=least)
    n = next((i for i, c in enumerate(sure.chances) if c < least), len(sure.chances))
    assert found.tokens == sure.tokens[:n]
    assert found.n_steps == min(n + 1, 5)
    assert guess(guesser, 0, TEXT, least=1.1).tokens == ()


def test_texts_that_do_not_fit_are_not_gone_on_with(guesser, target, plain):
    n_vocab = target.model.n_vocab
    assert guess(guesser, 0, [5] * 252).tokens == ()
    assert guess(guesser, 0, [5, n_vocab, 6]).tokens == ()
    assert guess(guesser, 0, TEXT).tokens == continued(plain, TEXT, 5)


def test_tokens_that_the_target_lacks_are_never_guessed(target):
    engine = LlamaEngine(tiny_models.qwen3_draft(), SIZE)
    model = DraftModel(engine, n_target=200)
    found = guess(model, 0, TEXT)
    model.close()
    assert max(found.tokens) < 200


def test_the_likeliest_token_and_how_likely_it_is():
    row = np.log(np.array([0.1, 0.6, 0.3], np.float32))
    token, chance = likeliest_of(row)
    assert token == 1
    assert chance == pytest.approx(0.6)


# --- Whom it fits -------------------------------------------------------------------


class _Vocab:
    """What is compared of a vocabulary."""

    def __init__(self, pieces, controls=(), ends=(), bos=None):
        self._pieces = pieces
        self.n_tokens = len(pieces)
        self.controls = frozenset(controls)
        self.ends = frozenset(ends)
        self.bos = bos

    def full_piece(self, token):
        return self._pieces[token]


PIECES = [b"a", b"b", b"<end>"]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (_Vocab(PIECES, [2], [2], 0), ""),
        (_Vocab([*PIECES, b"pad"], [2], [2], 0), ""),
        (_Vocab(PIECES * 50, [2], [2], 0), "3 tokens against 150"),
        (_Vocab([b"a", b"\xff", b"<end>"], [2], [2], 0), "token 1 is 'b' against"),
        (_Vocab(PIECES, [], [2], 0), "token 2, '<end>', is control token of the first"),
        (_Vocab(PIECES, [2], [2, 1], 0), "token 1, 'b', is end token of the second"),
        (_Vocab(PIECES, [2], [2], 1), "begins with token 0 against 1"),
    ],
)
def test_the_first_difference_of_two_vocabularies_is_named(other, said):
    found = vocab_difference(_Vocab(PIECES, [2], [2], 0), other)
    assert (found == "") == (said == "")
    assert said in found


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (tiny_models.llama3, "vocabularies differ"),
        (tiny_models.gemma3, "vocabularies differ"),
        (tiny_models.qwen35, "cannot step back"),
        (tiny_models.bert_encoder, "makes no text"),
    ],
)
def test_a_model_that_cannot_draft_is_refused_with_the_reason(target, make, said):
    with pytest.raises(ModelError, match=said):
        load_draft_model(make(), target)
