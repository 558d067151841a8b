"""all-MiniLM-L6-v2, a real sentence encoder, as a GGUF file.

It was published with safetensors weights. `python -m scripts.minilm` writes
both precisions and prints their paths.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from gguf import GGMLQuantizationType, LlamaFileType, PoolingType, TokenType
from safetensors.numpy import load

from kinetic.files.paths import cache_dir
from scripts import gguf_file
from scripts.file_cache import cached_file
from scripts.gguf_file import Metadata, MetaValue, Tensor

BERT_CONTROLS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""The tokens of BERT's vocabulary that stand outside ordinary text."""
BERT_ROLES = (
    ("padding", "[PAD]"),
    ("unknown", "[UNK]"),
    ("bos", "[CLS]"),
    ("cls", "[CLS]"),
    ("eos", "[SEP]"),
    ("seperator", "[SEP]"),  # the key is spelled like this in the format
    ("mask", "[MASK]"),
)
BERT_TOKENIZER: Mapping[str, MetaValue] = {
    "tokenizer.ggml.model": "bert",
    "tokenizer.ggml.pre": "default",
    "tokenizer.ggml.token_type_count": 2,
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.ggml.add_eos_token": True,
    "tokenizer.ggml.add_sep_token": False,
}
"""What llama.cpp is told about BERT's tokenizer beside the tokens."""
_NAMES = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}


@cache
def minilm_words() -> tuple[str, ...]:
    """BERT's uncased vocabulary, in the order of its ids."""
    return tuple(_part("vocab.txt").decode().splitlines())


def minilm_tensors() -> dict[str, Tensor]:
    """The weights under the names they were published with, all float32."""
    return load(_part("model.safetensors"))


def all_minilm_l6_v2(precision: Literal["F16", "F32"] = "F16") -> Path:
    """The model as a GGUF file [384], mean pooling, made on its first use.

    Vectors come out of llama.cpp as the mean over tokens: the model's last step,
    scaling to unit length, is the caller's.
    """
    key = [
        _part("config.json"),
        Path(__file__).read_bytes(),
        Path(str(gguf_file.__file__)).read_bytes(),
    ]
    stem = f"all-MiniLM-L6-v2-{precision}"

    def write(path: Path) -> None:
        tensors = (
            (name, tensor)
            for published, tensor in minilm_tensors().items()
            if (name := _gguf_name(published)) is not None
        )
        stored = GGMLQuantizationType[precision]
        gguf_file.write_gguf(path, _metadata(precision), tensors, stored)

    return cached_file(cache_dir("test-models"), stem, ".gguf", key, write)


def bert_keys(
    *,
    n_layer: int,
    n_embd: int,
    n_ff: int,
    n_head: int,
    n_ctx: int,
    pooling: PoolingType,
) -> Mapping[str, MetaValue]:
    """The hyperparameters of a BERT encoder."""
    return {
        "block_count": n_layer,
        "context_length": n_ctx,
        "embedding_length": n_embd,
        "feed_forward_length": n_ff,
        "attention.head_count": n_head,
        "attention.layer_norm_epsilon": 1e-12,
        "attention.causal": False,
        "pooling_type": int(pooling),
    }


def bert_piece(word: str) -> str:
    """A word of BERT's vocabulary as llama.cpp keeps it.

    It marks the start of a word where BERT marks its continuation.
    """
    if word in BERT_CONTROLS:
        return word
    return word[2:] if word.startswith("##") else "\u2581" + word


def _tokenizer(words: Sequence[str]) -> Metadata:
    kinds = {True: TokenType.CONTROL, False: TokenType.NORMAL}
    return {
        **BERT_TOKENIZER,
        "tokenizer.ggml.tokens": [bert_piece(word) for word in words],
        "tokenizer.ggml.token_type": [
            int(kinds[word in BERT_CONTROLS]) for word in words
        ],
        **{
            f"tokenizer.ggml.{role}_token_id": words.index(token)
            for role, token in BERT_ROLES
        },
    }


def _metadata(precision: Literal["F16", "F32"]) -> Metadata:
    config: dict[str, Any] = json.loads(_part("config.json"))
    kinds = {"F16": LlamaFileType.MOSTLY_F16, "F32": LlamaFileType.ALL_F32}
    keys = bert_keys(
        n_layer=config["num_hidden_layers"],
        n_embd=config["hidden_size"],
        n_ff=config["intermediate_size"],
        n_head=config["num_attention_heads"],
        n_ctx=config["max_position_embeddings"],
        pooling=PoolingType.MEAN,
    )
    return {
        "general.architecture": "bert",
        "general.name": "all-MiniLM-L6-v2",
        "general.license": "apache-2.0",
        "general.file_type": int(kinds[precision]),
        **{f"bert.{key}": value for key, value in keys.items()},
        **_tokenizer(minilm_words()),
    }


def _gguf_name(published: str) -> str | None:
    """GGUF's name of a published tensor, None for those that vectors do not need."""
    path, _, kind = published.rpartition(".")
    if path.startswith("encoder.layer."):
        number, _, part = path.removeprefix("encoder.layer.").partition(".")
        return f"blk.{number}.{_NAMES[part]}.{kind}"
    name = _NAMES.get(path)
    return f"{name}.{kind}" if name else None


def _part(name: str) -> bytes:
    file = cache_dir("models") / "all-MiniLM-L6-v2" / name
    if not file.exists():
        raise FileNotFoundError(f"{file} is missing: make install puts it there")
    return file.read_bytes()


if __name__ == "__main__":
    for made in (all_minilm_l6_v2("F16"), all_minilm_l6_v2("F32")):
        print(f"{made.stat().st_size / 1e6:6.2f} MB  {made}")
