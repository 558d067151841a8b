"""Texts that cross into the engine and back are whole, whatever characters they have."""

import pytest
from hypothesis import example, given, settings, strategies as st

from kinetic.errors import ContextExceeded, RequestError
from kinetic.loading import chat_template
from kinetic.model.constraints.constraint import ConstraintCompiler
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.native.model import Model
from kinetic.model.prompt import PromptBuilder
from kinetic.model.vocab import Vocab
from kinetic.types import ChatInput, GenerationRequest, SamplingParams
from tests.support import tiny_models

REAL = ("llama-spm", "phi-3", "llama-bpe", "qwen2", "qwen35", "gpt-2", "gemma-4")
BLANK_IS_2581 = ("llama-spm", "phi-3", "gemma-4", "tiny gemma3")
ODD = "\0 \t\n\r\x1c\x85\u00a0\u0301\u200d\u2028\u2581\u3000\ud7ff\ufdd0\ufeff\uffff🦊"
TEXTS = st.lists(
    st.text(max_size=8)
    | st.text(ODD, max_size=4)
    | st.sampled_from(
        ["<s>", "</s>", "<|im_end|>", "<|endoftext|>", "<unk>", "  ", "hi"]
    )
).map("".join)


def test_a_chat_template_with_a_nul_is_read_to_its_end():
    source = "{{ messages[0].content }}\0{{ messages[0].role }}"
    options = EngineOptions(n_ctx=64, n_parallel=1, n_threads=1)
    engine = LlamaEngine(tiny_models.with_template(source), options)
    try:
        assert chat_template(engine, None).source == source
    finally:
        engine.close()


@pytest.fixture(scope="module")
def vocabularies(vocab_dir):
    """Real vocabularies of every kind that keeps its text, and two small ones."""
    paths = {name: vocab_dir / f"ggml-vocab-{name}.gguf" for name in REAL}
    paths |= {"tiny qwen3": tiny_models.qwen3(), "tiny gemma3": tiny_models.gemma3()}
    models = {name: Model(path, vocab_only=True) for name, path in paths.items()}
    yield {name: Vocab(model) for name, model in models.items()}
    for model in models.values():
        model.close()


@settings(max_examples=60)
@given(TEXTS)
@example("hi")
@example(" hi")
@example("  ")
@example("<s>hi</s> hi")
@example("<s> <s>  hi")
@example("\ufeff\ufeffhi\0")
@example("Z" * 30_000)
def test_the_text_of_a_texts_ids_is_that_text(vocabularies, text):
    for name, vocab in vocabularies.items():
        kept = text.replace("\u2581", " ") if name in BLANK_IS_2581 else text
        assert vocab.detokenize(vocab.tokenize_plain(text)).decode() == kept, name
        # Phi-3's file says that blanks behind some of its markers belong to them.
        if name != "phi-3":
            assert vocab.detokenize(vocab.tokenize(text)).decode() == kept, name


def test_a_character_that_the_vocabulary_cannot_spell_is_refused(smollm2_path):
    model = Model(smollm2_path, vocab_only=True)
    try:
        vocab = Vocab(model)
        reads = (
            vocab.tokenize,
            vocab.tokenize_plain,
            vocab.tokenize_prompt,
            lambda text: vocab.tokenize_guarded(text, None),
        )
        for read in reads:
            for char in ("\x04", "\U00040000"):
                with pytest.raises(RequestError, match=f"has.*U\\+{ord(char):04X}"):
                    read(f"é 🦊{char} é")
            text = "\0\x01 é漢 🦊 \ufeff"
            assert vocab.detokenize(read(text)).decode() == text
    finally:
        model.close()


@pytest.fixture(scope="module")
def builders():
    """Prompt builders of two small models, with their vocabularies."""
    made = []
    for path in (tiny_models.qwen3(), tiny_models.gemma3()):
        options = EngineOptions(n_ctx=512, n_parallel=1, n_threads=1)
        engine = LlamaEngine(path, options)
        builder = PromptBuilder(
            engine.vocab,
            chat_template(engine, None),
            ConstraintCompiler(engine.model, engine.vocab),
            engine.n_ctx,
        )
        made.append((engine, builder))
    yield made
    for engine, _ in made:
        engine.close()


@settings(max_examples=40)
@given(TEXTS)
@example("<|im_end|>\0\ufeff\u2028<bos>")
@example("Z" * 30_000)
@example("\ufdd0\ue000 x")
def test_a_message_of_any_characters_is_printed_and_tokenised_whole(builders, text):
    # Gemma's template trims messages.
    text = text.strip()
    inputs = ChatInput(messages=({"role": "user", "content": text},))
    request = GenerationRequest(
        request_id="r", inputs=(inputs,), sampling=SamplingParams()
    )
    for engine, builder in builders:
        assert text in builder.chat_text(inputs)
        try:
            ids = builder.prompt(inputs, request).tokens
        except ContextExceeded:
            assert len(text) > 500
            continue
        kept = text.replace("\u2581", " ") if "gemma" in engine.path.name else text
        assert kept in engine.vocab.detokenize(ids).decode()
