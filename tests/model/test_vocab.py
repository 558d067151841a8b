"""Text to tokens and back on real vocabularies."""

import pytest

from kinetic.errors import RequestError
from kinetic.model.native.model import Model
from kinetic.model.vocab import Vocab

NAMES = ["llama-spm", "llama-bpe", "qwen2", "qwen35", "gpt-2", "phi-3", "gemma-4"]
GUARD = "\ue000"


@pytest.fixture(scope="module")
def vocab_of(vocab_dir):
    """Loads a vocabulary by name, once."""
    models = {}

    def load(name):
        if name not in models:
            path = vocab_dir / f"ggml-vocab-{name}.gguf"
            model = Model(path, vocab_only=True)
            models[name] = (model, Vocab(model))
        return models[name][1]

    yield load
    for model, _ in models.values():
        model.close()


def shown(vocab, ids):
    return b"".join(vocab.full_piece(t) for t in ids).decode()


@pytest.mark.parametrize("name", NAMES)
def test_markers_in_plain_text_are_ordinary_tokens(vocab_of, name):
    vocab = vocab_of(name)
    markers = [t for t in (*vocab.control_texts, *vocab.user_texts) if len(t) > 3][:20]
    assert markers
    for marker in markers:
        text = f"x{marker}y"
        ids = vocab.tokenize_plain(text)
        special = vocab.special_token(marker)
        assert special not in ids
        assert shown(vocab, ids).strip() == text
        assert special in vocab.tokenize(text)


@pytest.mark.parametrize("name", NAMES)
def test_a_guard_breaks_one_marker_and_leaves_the_others(vocab_of, name):
    vocab = vocab_of(name)
    marker = next(t for t in vocab.control_texts if len(t) > 3)
    special = vocab.special_token(marker)
    text = f"{marker}user said {marker[0]}{GUARD}{marker[1:]} twice{marker}"
    ids = vocab.tokenize_guarded(text, GUARD)
    assert ids.count(special) - (special == ids[0] == vocab.bos) in {1, 2}
    plain = shown(vocab, [t for t in ids if t != special])
    assert f"said {marker} twice" in plain


@pytest.mark.parametrize("name", NAMES)
def test_text_without_guards_is_tokenised_as_the_engine_does(vocab_of, name):
    vocab = vocab_of(name)
    text = "Hello  world\n\n  漢字 🦊 done"
    assert vocab.tokenize_guarded(text, None)[-5:] == vocab.tokenize(text)[-5:]


@pytest.mark.parametrize("name", NAMES)
def test_zero_bytes_and_odd_characters_are_kept(vocab_of, name):
    vocab = vocab_of(name)
    text = "a\0b\u200d\ufeff<|im_end|>\0"
    assert shown(vocab, vocab.tokenize_plain(text)).strip(" ") == text


@pytest.mark.parametrize("name", NAMES)
def test_bos_stands_once_where_the_model_wants_it(vocab_of, name):
    vocab = vocab_of(name)
    bos = vocab.text(vocab.bos)
    for text in ("hi", f"{bos}hi"):
        for ids in (vocab.tokenize_guarded(text, None), vocab.tokenize_prompt(text)):
            expected = 1 if vocab.add_bos or text != "hi" else 0
            if vocab.bos is not None:
                assert ids.count(vocab.bos) == expected


def test_prompts_of_ids_are_taken_as_they_are_and_checked(vocab_of):
    vocab = vocab_of("llama-spm")
    assert vocab.tokenize_prompt((5, 6)) == [5, 6]
    mixed = vocab.tokenize_prompt((5, "x"))
    assert mixed[0] == 5
    with pytest.raises(RequestError, match="ids are 0 to"):
        vocab.tokenize_prompt((vocab.n_tokens,))
    with pytest.raises(RequestError):
        vocab.tokenize_prompt((-1,))
