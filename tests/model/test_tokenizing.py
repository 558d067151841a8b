"""Texts that would take the engine's tokenizers too long, or too deep."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from kinetic.errors import Overloaded, RequestError
from kinetic.model import tokenizing, vocab as vocab_module
from kinetic.model.chat.template.template import ChatTemplate
from kinetic.model.constraints.guidance import ModelTokens
from kinetic.model.native import deep_stack
from kinetic.model.native.model import Model
from kinetic.model.prompt import PromptBuilder
from kinetic.model.tokenizing import STACK_BASE, STACK_PER_CHAR
from kinetic.model.vectors.inputs import VectorInputs
from kinetic.model.vectors.ranking import PairInputs, PairMarkers
from kinetic.model.vocab import Vocab
from kinetic.types import (
    ChatInput,
    GenerationRequest,
    RankRequest,
    SamplingParams,
    TextInput,
    VectorRequest,
)
from kinetic.web.fields.sampling import ModelFacts, bias_by_id
from tests.support import pre_tokenizers

ROOT = Path(__file__).parents[2]
N_PARTS = 6


def test_every_pre_tokenizer_of_the_engine_is_tried(vocab_dir):
    source = vocab_dir.parent / "src" / "llama-vocab.cpp"
    assert set(pre_tokenizers.NAMES) == pre_tokenizers.names_in(source)


@pytest.mark.parametrize("part", range(N_PARTS))
def test_long_runs_end_no_process_and_keep_their_text(part):
    names = pre_tokenizers.NAMES[part::N_PARTS]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.pre_tokenizers", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.split() == list(names), done.stderr[-2000:]
    assert done.returncode == 0


@pytest.mark.parametrize("line", ["Z", "漢", " ", "\n", "\r", "a ", "\n\u3000", "\n漢"])
def test_the_stack_fits_the_longest_text_without_a_break(line):
    text = line * 1000
    around = f"x\n{'y' * 50}\n{text}\nz"
    stack = tokenizing.pre_tokenizer_stack(around, "llama-bpe")
    assert stack >= STACK_BASE + STACK_PER_CHAR * len(text)
    assert stack <= STACK_BASE + STACK_PER_CHAR * (len(text) + 60)


def test_lines_cost_no_more_stack_than_one_of_them():
    line = "def f(x): return x * 2\n"
    stack = tokenizing.pre_tokenizer_stack(line * 1_000_000, "tekken")
    assert stack < STACK_BASE + STACK_PER_CHAR * 2 * len(line)


@pytest.mark.parametrize(
    ("text", "pre", "reason"),
    [
        ("Z" * 1_000_001, "tekken", "1000001 characters without a line break"),
        ("1" * 1_001, "superbpe", "1001 digits in a row"),
        ("a" + " \t" * 501 + "1", "deepseek-llm", "1002 blanks in a row"),
        ("\n" * 100_001, "jais-2", "100001 blanks in a row"),
    ],
)
def test_what_takes_too_long_is_refused_with_its_limit(text, pre, reason):
    with pytest.raises(RequestError, match=f"^has {reason}.* at most [0-9]+"):
        tokenizing.pre_tokenizer_stack(text, pre)


def test_a_text_of_millions_of_characters_is_refused():
    tokenizing.check_length("Z" * tokenizing.MOST_CHARS)
    with pytest.raises(RequestError, match="at most 8000000 are read at once"):
        tokenizing.check_length("Z" * (tokenizing.MOST_CHARS + 1))


def test_characters_spelt_in_bytes_are_counted():
    text = "🦊" * 200_000
    tokenizing.check_bytewise(text, len(text) * 4, {"🦊"})
    with pytest.raises(RequestError, match="has 200000 characters that the model's"):
        tokenizing.check_bytewise(text, len(text) * 4, {"a"})


def test_the_slowest_texts_that_are_read_take_seconds(vocab_dir):
    model = Model(vocab_dir / "ggml-vocab-deepseek-llm.gguf", vocab_only=True)
    try:
        start = time.process_time()
        text = (" " * 1_000 + "1") * 100
        assert model.tokenize(text.encode(), add_special=False, parse_special=False)
        assert time.process_time() - start < 10
    finally:
        model.close()


def test_a_sentencepiece_text_of_unknown_characters_is_refused(vocab_dir):
    model = Model(vocab_dir / "ggml-vocab-llama-spm.gguf", vocab_only=True)
    try:
        vocab = Vocab(model)
        assert len(vocab.tokenize("🦊" * 20_000)) > 80_000
        with pytest.raises(RequestError, match="vocabulary does not know"):
            vocab.tokenize("🦊" * 200_000)
    finally:
        model.close()


def test_markers_that_take_too_long_are_refused(vocab_dir):
    model = Model(vocab_dir / "ggml-vocab-qwen2.gguf", vocab_only=True)
    try:
        vocab = Vocab(model)
        assert len(vocab.tokenize("<|im_end|>" * 5_000)) == 5_000
        for text in ("<|im_end|>" * 50_001, "<|im_start|>x<|im_end|>" * 30_000):
            with pytest.raises(RequestError, match="more than 50000 markers"):
                vocab.tokenize(text)
            assert len(vocab.tokenize_plain(text)) > 200_000
    finally:
        model.close()


def test_markers_after_a_broken_one_are_counted_too(vocab_dir):
    model = Model(vocab_dir / "ggml-vocab-llama-spm.gguf", vocab_only=True)
    try:
        vocab = Vocab(model)
        assert (
            len(vocab.tokenize_guarded("<\ue000s>" + "<unk>" * 5_000, "\ue000")) > 5_000
        )
        with pytest.raises(RequestError, match="more than 50000 markers"):
            vocab.tokenize_guarded("<\ue000s>" + "<unk>" * 50_001, "\ue000")
    finally:
        model.close()


def test_thousands_of_markers_are_looked_for_quickly():
    markers = [f"<unused{i}>" for i in range(6_000)]
    pattern = vocab_module._alternation([*markers, "<unused", "<", "a\n"])
    start = time.process_time()
    text = "<unused" * 100_000 + "<unused5999><unused6000>a\na"
    found = pattern.findall(text)
    assert time.process_time() - start < 2
    assert found[99_998:] == ["<unused"] * 2 + ["<unused5999>", "<unused", "a\n"]
    assert vocab_module._alternation([]).search(text) is None


def test_a_grammars_text_may_be_what_no_prompt_may(superbpe):
    model = Model(pre_tokenizers.vocabulary("superbpe"), vocab_only=True)
    try:
        tokens = ModelTokens(model, superbpe)
        ids = tokens.canonical(DIGITS.encode())
        assert b"".join(tokens.pieces[i] for i in ids) == DIGITS.encode()
    finally:
        model.close()


def test_work_on_a_deep_stack_gives_its_result_or_its_error():
    assert deep_stack.run(lambda: 7, 1 << 26, "deep") == 7
    with pytest.raises(ZeroDivisionError):
        deep_stack.run(lambda: 1 / 0, 100_001, "deep")


def test_a_stack_for_which_there_is_no_memory_is_told(monkeypatch):
    def start(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", start)
    with pytest.raises(Overloaded, match="64 MiB of stack"):
        deep_stack.run(lambda: 7, 1 << 26, "deep")


DIGITS = "1" * 2_000


@pytest.fixture(scope="module")
def superbpe():
    """A vocabulary that refuses many digits in a row."""
    model = Model(pre_tokenizers.vocabulary("superbpe"), vocab_only=True)
    yield Vocab(model)
    model.close()


def reads(vocab):
    """Ways of texts to the tokenizer, by the field that a refusal must name."""
    builder = PromptBuilder(vocab, ChatTemplate(None), None, 4096)  # type: ignore[arg-type]
    chat = ChatInput(messages=({"role": "user", "content": DIGITS},))
    text = TextInput(prompt=DIGITS)
    request = GenerationRequest(
        request_id="r", inputs=(text,), sampling=SamplingParams()
    )
    both = {"add_special": False, "parse_special": True}
    facts = ModelFacts(
        n_tokens=vocab.n_tokens,
        tokenize=vocab.tokenize_plain,
        detokenize=vocab.detokenize,
        piece=vocab.full_piece,
        sampling=SamplingParams(),
    )
    vectors = VectorRequest(request_id="r", inputs=("a", DIGITS), is_list=True)
    pairs = PairInputs(vocab, PairMarkers(), None, 4096)
    return {
        "messages": lambda: builder.prompt(chat, request),
        "prompt": lambda: builder.prompt(text, request),
        "content": lambda: builder.tokenize(DIGITS, **both),
        "content[1]": lambda: builder.tokenize((5, DIGITS), **both),
        "logit_bias": lambda: bias_by_id(((DIGITS, 1.0),), facts),
        "input[1]": lambda: VectorInputs(vocab, 16, n_vector=8).build(vectors),
        "query": lambda: pairs.build(
            RankRequest(request_id="r", query=DIGITS, documents=("b",))
        ),
        "documents[1]": lambda: pairs.build(
            RankRequest(request_id="r", query="a", documents=("b", DIGITS))
        ),
    }


def test_a_refusal_names_the_field(superbpe):
    for param, read in reads(superbpe).items():
        with pytest.raises(RequestError, match="has 2000 digits in a row") as refused:
            read()
        assert refused.value.param == param
        assert str(refused.value).startswith(f"{param} has ")
