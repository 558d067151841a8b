"""Token ids of texts that become vectors: markers once, limits named, ends cut."""

import pytest

from kinetic.errors import InputTooLong, RequestError
from kinetic.model.native.model import Model
from kinetic.model.vectors import limits as vector_limits
from kinetic.model.vectors.inputs import VectorInputs, without_repeats
from kinetic.model.vocab import Vocab
from kinetic.types import VectorRequest
from tests.support import tiny_models

CLS, SEP = 101, 102


def vocab_of(path):
    model = Model(path, vocab_only=True)
    return model, Vocab(model)


@pytest.fixture(scope="module")
def minilm(minilm_dir):
    from scripts.minilm import all_minilm_l6_v2

    model, vocab = vocab_of(all_minilm_l6_v2())
    yield VectorInputs(vocab, 16, n_vector=384)
    model.close()


@pytest.fixture(scope="module")
def llama3():
    model, vocab = vocab_of(tiny_models.llama3())
    yield VectorInputs(vocab, 16, n_vector=64), vocab
    model.close()


def built(builder, *inputs, **named):
    request = VectorRequest(request_id="r", inputs=inputs, **named)
    return builder.build(request).inputs


def test_a_text_stands_between_its_markers(minilm):
    (ids,) = built(minilm, "A man is eating food.")
    assert ids == (CLS, 1037, 2158, 2003, 5983, 2833, 1012, SEP)


@pytest.mark.parametrize("text", ["[CLS] a man", "a man [SEP]", "[CLS] a man [SEP]"])
def test_markers_that_the_user_wrote_are_not_doubled(minilm, text):
    assert built(minilm, text) == built(minilm, "a man")


def test_bos_stands_once_where_the_model_wants_one(llama3):
    builder, vocab = llama3
    (plain,) = built(builder, "hello")
    assert plain.count(vocab.bos) == 1
    assert plain[0] == vocab.bos
    (typed,) = built(builder, vocab.text(vocab.bos) + "hello")
    assert typed == plain


def test_ids_are_taken_as_they_are(minilm):
    assert built(minilm, (5, 6), (7,)) == ((5, 6), (7,))


@pytest.mark.parametrize("token", [-1, 30_522, 2**40])
def test_ids_that_the_model_has_not_are_refused_by_their_item(minilm, token):
    with pytest.raises(RequestError, match=r"input\[1\] holds token id") as caught:
        built(minilm, (5,), (5, token))
    assert caught.value.param == "input[1]"


def test_an_empty_text_is_what_stands_around_it(minilm, llama3):
    assert built(minilm, "a", "")[1] == (CLS, SEP)
    builder, vocab = llama3
    assert built(builder, "", is_list=False) == ((vocab.bos,),)


@pytest.mark.parametrize(
    ("inputs", "is_list", "says"),
    [
        (
            ("a", ""),
            True,
            r"^input\[1\] is an empty string, for which this model has no",
        ),
        (("",), False, r"^input is an empty string"),
        ((" ",), False, r"^input is blank"),
    ],
)
def test_a_text_without_tokens_is_refused_by_its_item(llama3, inputs, is_list, says):
    _, vocab = llama3
    bare = VectorInputs(vocab, 16, n_vector=64)
    bare._vocab = _NoTokens()  # type: ignore[assignment]
    with pytest.raises(RequestError, match=says):
        built(bare, *inputs, is_list=is_list)


def test_a_request_is_bounded_by_the_tokens_of_all_its_inputs(minilm, monkeypatch):
    monkeypatch.setattr(vector_limits, "TOKENS_MAX", 9)
    monkeypatch.setattr(vector_limits, "INPUT_TOKENS_MIN", 1)
    assert len(built(minilm, "", (1, 2, 3), "man man")) == 3
    with pytest.raises(RequestError, match="input holds more than 9 tokens") as caught:
        built(minilm, "", (1, 2, 3), "man man man")
    assert caught.value.param == "input"


def test_a_short_input_counts_for_the_room_that_it_takes(minilm, monkeypatch):
    monkeypatch.setattr(vector_limits, "TOKENS_MAX", 32)
    assert len(built(minilm, "", "man")) == 2
    with pytest.raises(RequestError, match="more than 32 tokens"):
        built(minilm, "", "man", "")


def test_a_request_is_bounded_by_the_numbers_of_all_its_vectors(llama3, monkeypatch):
    monkeypatch.setattr(vector_limits, "NUMBERS_MAX", 128)
    builder, vocab = llama3
    assert len(built(builder, (1, 2), (3, 4))) == 2
    with pytest.raises(RequestError, match="have 192 numbers in all; at most 128"):
        built(builder, (1,), (2,), (3,))
    bare = VectorInputs(vocab, 16, n_vector=64, is_pooled=False)
    with pytest.raises(RequestError, match="have 192 numbers"):
        built(bare, (1, 2, 3))
    request = VectorRequest(request_id="r", inputs=((1, 2), (3,)))
    monkeypatch.undo()
    assert builder.build(request).n_numbers == 128
    assert bare.build(request).n_numbers == 192


class _NoTokens:
    def tokenize(self, text, *, add_special):
        return [5] if text == "a" else []


def test_blank_text_is_its_markers(minilm):
    assert built(minilm, " ") == ((CLS, SEP),)


def test_the_whole_context_is_used_and_one_more_token_is_too_long(minilm):
    fits = "man " * 14
    (ids,) = built(minilm, fits)
    assert len(ids) == 16
    with pytest.raises(InputTooLong) as caught:
        built(minilm, "a", fits + "man")
    error = caught.value
    assert (error.n_prompt, error.n_ctx, error.param) == (17, 16, "input[1]")
    assert str(error).startswith("input[1] is too long: 17 tokens")
    assert str(error).endswith("maximum context length is 16 tokens")


def test_cutting_leaves_the_markers_in_place(minilm):
    (whole,) = built(minilm, "man " * 14)
    (cut,) = built(minilm, "man " * 40, truncate=True)
    assert cut == whole


def test_ids_are_cut_at_their_end(minilm):
    assert built(minilm, tuple(range(40)), truncate=True) == (tuple(range(16)),)


@pytest.mark.parametrize(
    ("tokens", "kept"),
    [
        ([1, 1, 5, 2], [1, 5, 2]),
        ([1, 5, 2, 2], [1, 5, 2]),
        ([1, 1, 5, 2, 2], [1, 5, 2]),
        ([1, 2], [1, 2]),
        ([1, 2, 2], [1, 2]),
        ([1, 5, 5, 2], [1, 5, 5, 2]),
        ([], []),
    ],
)
def test_only_the_outer_markers_are_undoubled(tokens, kept):
    assert without_repeats(tokens, [1], [2]) == kept


def test_without_markers_nothing_is_left_away():
    assert without_repeats([7, 7], [], []) == [7, 7]
