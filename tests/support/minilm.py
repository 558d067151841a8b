"""all-MiniLM-L6-v2, a real sentence encoder, as a GGUF file.

It was published with safetensors weights. `python -m tests.support.minilm` writes
both precisions and prints their paths.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal

from gguf import GGMLQuantizationType, LlamaFileType, PoolingType
from safetensors.numpy import load

from tests.support import encoders, gguf_file, sources, vocabularies
from tests.support.file_cache import cached_file
from tests.support.gguf_file import Metadata, Tensor

_WRITERS = (encoders, gguf_file, vocabularies)
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

    Vectors come out of llama.cpp as the mean over tokens: the model's last step, scaling
    to unit length, is the caller's.
    """
    key = [
        _part("config.json"),
        Path(__file__).read_bytes(),
        *(Path(str(writer.__file__)).read_bytes() for writer in _WRITERS),
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

    return cached_file(sources.made_models(), stem, ".gguf", key, write)


def _metadata(precision: Literal["F16", "F32"]) -> Metadata:
    config: dict[str, Any] = json.loads(_part("config.json"))
    kinds = {"F16": LlamaFileType.MOSTLY_F16, "F32": LlamaFileType.ALL_F32}
    keys = encoders.bert_keys(
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
        **vocabularies.wordpiece(minilm_words(), whole=True).metadata,
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
    return (sources.minilm() / name).read_bytes()


if __name__ == "__main__":
    for made in (all_minilm_l6_v2("F16"), all_minilm_l6_v2("F32")):
        print(f"{made.stat().st_size / 1e6:6.2f} MB  {made}")
