"""A small vocabulary for every pre-tokenizer that the engine knows.

`python -m tests.support.pre_tokenizers NAME...` tokenises hostile texts with each, so
that an end of the process is seen by whoever started it. Prints the names done.
"""

import re
import sys
from pathlib import Path

from gguf import GGMLQuantizationType

from kinetic.errors import RequestError
from kinetic.model.native.model import Model
from scripts import gguf_file
from scripts.file_cache import cached_file
from tests.support import sources, vocabularies

_NAMES = """
    a.x-4.0 afmoe bailingmoe bailingmoe2 bloom chameleon chatglm-bpe codeshell
    cohere2moe command-r dbrx deepseek-coder deepseek-llm deepseek-r1-qwen deepseek-v3
    default exaone exaone-moe exaone4 f2llmv2 falcon falcon-h1 falcon3 gemma4 gigachat
    glm4 glm5 gpt-2 gpt-4o gpt3-finnish granite-docling granite-embed-multi-311m
    granite-embed-multi-97m grok-2 hunyuan hunyuan-dense hy_v4 jais jais-2 jina-de
    jina-es jina-v1-en jina-v2-code jina-v2-de jina-v2-es jina-v5-nano joyai-llm
    kanana2 kimi-k2 kormo laguna lfm2 llada-moe llama-bpe llama-v3 llama3 llama4 megrez
    mellum mellum2 midm-2.0 minerva-7b minicpm5 minimax-m2 modern-bert mpt olmo phi-2
    pixtral poro-chat qwen2 qwen35 refact roberta-bpe sarvam-moe seed-coder smaug-bpe
    smollm solar-open spark2_5 stablelm2 starcoder superbpe talkie tekken tiny_aya
    trillion ufakzeka viking whitespace youtu
"""
NAMES = tuple(_NAMES.split())

NOT_BYTES = {"gemma4", "granite-embed-multi-311m", "sarvam-moe", "whitespace"}
"""These read other vocabularies than byte-level ones, and lose what is not in them."""

UNITS = ("Z", "漢", ".=", "1", " ", "\n", "'", "e\u0301", "🦊", "\0", "aZé漢", "a ")

_MARKERS = vocabularies.Markers(
    control=("<|end|>",), roles=(("bos", "<|end|>"), ("eos", "<|end|>")), add_bos=False
)


def names_in(source: Path) -> set[str]:
    """The names that the engine's source compares with."""
    return set(re.findall(r'tokenizer_pre == "([^"]+)"', source.read_text()))


def vocabulary(name: str) -> Path:
    """A file without weights whose pre-tokenizer is `name`."""
    key = [Path(module.__file__ or "").read_bytes() for module in (vocabularies,)]
    key.append(Path(__file__).read_bytes())
    stem = f"pre-{name}"

    def write(path: Path) -> None:
        made = vocabularies.byte_level_bpe(sources.smollm2(), name, _MARKERS)
        kind = "whitespace" if name == "whitespace" else "gpt2"
        metadata: gguf_file.Metadata = {
            "general.architecture": "llama",
            "llama.context_length": 4096,
            "llama.embedding_length": 64,
            "llama.block_count": 1,
            "llama.feed_forward_length": 64,
            "llama.attention.head_count": 1,
            "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "llama.vocab_size": made.n_tokens,
            **made.metadata,
            "tokenizer.ggml.model": kind,
        }
        gguf_file.write_gguf(path, metadata, [], GGMLQuantizationType.F32)

    return cached_file(sources.made_models(), stem, ".gguf", key, write)


def texts() -> list[str]:
    """Runs that end a thread of the usual stack, and one that needs far more."""
    runs = [(unit * 27_000)[:27_000] for unit in UNITS]
    return [*runs, " " * 27_000 + "1", "Z" * 100_000]


def main() -> None:
    """Tokenises everything with each vocabulary named on the command line."""
    for name in sys.argv[1:]:
        model = Model(vocabulary(name), vocab_only=True)
        pieces = [model.piece(i, special=True) for i in range(model.n_vocab)]
        for text in texts():
            try:
                ids = model.tokenize(
                    text.encode(), add_special=False, parse_special=True
                )
            except RequestError as error:
                if " in a row; " not in str(error):
                    raise
                continue
            found = b"".join(pieces[i] for i in ids).decode("utf-8", "replace")
            if found != text and name not in NOT_BYTES:
                sys.exit(f"{name}: {text[:8]!r} came back as {found[:8]!r}")
        model.close()
        print(name, flush=True)


if __name__ == "__main__":
    main()
