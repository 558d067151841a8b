"""The markers and vocabularies of the model families."""

from dataclasses import replace

from scripts.minilm import minilm_words
from tests.support import sources
from tests.support.vocabularies import (
    Markers,
    Vocabulary,
    byte_level_bpe,
    sentencepiece,
    wordpiece,
)

_QWEN = Markers(
    control=("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    visible=(
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<tool_response>",
        "</tool_response>",
    ),
    roles=(
        ("bos", "<|endoftext|>"),
        ("eos", "<|im_end|>"),
        ("padding", "<|endoftext|>"),
    ),
    add_bos=False,
)

_QWEN2VL = replace(
    _QWEN,
    control=(
        *_QWEN.control,
        "<|vision_start|>",
        "<|vision_end|>",
        "<|image_pad|>",
    ),
)

_SMOLVLM = Markers(
    control=(
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<end_of_utterance>",
        "<fake_token_around_image>",
        "<global-img>",
        *(f"<row_{row}_col_{column}>" for row in (1, 2) for column in (1, 2)),
    ),
    roles=(
        ("bos", "<|im_start|>"),
        ("eos", "<end_of_utterance>"),
        ("padding", "<|im_end|>"),
    ),
    add_bos=False,
)

_LLAMA3 = Markers(
    control=(
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|python_tag|>",
    ),
    roles=(("bos", "<|begin_of_text|>"), ("eos", "<|eot_id|>")),
    add_bos=True,
)

_LFM2 = Markers(
    control=(
        "<|pad|>",
        "<|startoftext|>",
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<|tool_list_start|>",
        "<|tool_list_end|>",
        "<|tool_call_start|>",
        "<|tool_call_end|>",
        "<|tool_response_start|>",
        "<|tool_response_end|>",
    ),
    roles=(("bos", "<|startoftext|>"), ("eos", "<|im_end|>"), ("padding", "<|pad|>")),
    add_bos=True,
)

_GEMMA = Markers(
    control=("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"),
    roles=(
        ("bos", "<bos>"),
        ("eos", "<eos>"),
        ("unknown", "<unk>"),
        ("padding", "<pad>"),
        ("eot", "<end_of_turn>"),
    ),
    add_bos=True,
)


def qwen3() -> Vocabulary:
    """ChatML markers with visible ones for reasoning and calls; no BOS is added."""
    return byte_level_bpe(sources.smollm2(), "qwen2", _QWEN)


def qwen35() -> Vocabulary:
    """As Qwen3's, under the later pre-tokenizer."""
    return byte_level_bpe(sources.smollm2(), "qwen35", _QWEN)


def qwen2vl() -> Vocabulary:
    """As Qwen3's, with markers around pictures."""
    return byte_level_bpe(sources.smollm2(), "qwen2", _QWEN2VL)


def smolvlm() -> Vocabulary:
    """Turns with names, and markers around pictures and their tiles."""
    return byte_level_bpe(sources.smollm2(), "smollm", _SMOLVLM)


def llama3() -> Vocabulary:
    """Header markers; a BOS is added to a prompt."""
    return byte_level_bpe(sources.smollm2(), "llama-bpe", _LLAMA3)


def lfm2() -> Vocabulary:
    """ChatML markers behind a BOS, and control tokens around tool calls."""
    return byte_level_bpe(sources.smollm2(), "lfm2", _LFM2)


def gemma() -> Vocabulary:
    """SentencePiece with byte tokens and turn markers; a BOS is added."""
    return sentencepiece(sources.smollm2(), _GEMMA)


def bert() -> Vocabulary:
    """WordPiece, lower case, a text between [CLS] and [SEP]."""
    return wordpiece(minilm_words())
