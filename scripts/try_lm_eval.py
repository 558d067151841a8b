"""Run lm-evaluation-harness's `local-completions` against a running server, offline.

Needs lm_eval with its `api` extra, transformers and gguf in the Python that runs this;
they are heavy, so no test does. A small task of each kind is written to a temporary
folder: multiple choice, which is scored by echoed log-probabilities of token ids, and
generation. The tokenizer is made of the model file, for lm_eval wants one of its own.

    kinetic serve MODEL --port 8080 &
    python -m scripts.try_lm_eval MODEL --base-url http://127.0.0.1:8080/v1
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

# Nothing may be fetched: set before the libraries that would are imported.
for _name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
    os.environ[_name] = "1"

CHOICES = [
    ("The capital of France is", ["Paris", "pizza"]),
    ("The opposite of hot is", ["cold", "green"]),
    ("Two plus two is", ["four", "a river"]),
    ("The sun rises in the", ["east", "soup"]),
]
SENTENCES = [
    ("One, two, three,", "four"),
    ("1 2 3 4 5", "6 7 8 9"),
]

CHOICE_TASK = """\
task: tiny_choice
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{file}"}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{text}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: 0
target_delimiter: " "
metric_list: [{{metric: acc}}]
"""
SENTENCE_TASK = """\
task: tiny_sentence
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{file}"}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{text}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n", ","], max_gen_toks: 8, do_sample: false}}
filter_list:
  - name: stripped
    filter: [{{function: remove_whitespace}}, {{function: take_first}}]
metric_list: [{{metric: exact_match}}]
"""


def write_tasks(folder: Path) -> None:
    """Write both tasks and their data."""
    choices = [{"text": text, "choices": both} for text, both in CHOICES]
    sentences = [{"text": text, "answer": answer} for text, answer in SENTENCES]
    for name, rows, task in (
        ("choice", choices, CHOICE_TASK),
        ("sentence", sentences, SENTENCE_TASK),
    ):
        data = folder / f"{name}.jsonl"
        data.write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
        (folder / f"{name}.yaml").write_text(task.format(file=data), "utf-8")


def write_tokenizer(model: Path, folder: Path) -> None:
    """Make a fast tokenizer of a GGUF's byte-level BPE vocabulary."""
    gguf: Any = import_module("gguf")
    parts: Any = import_module("tokenizers")

    fields = gguf.GGUFReader(model).fields
    if fields["tokenizer.ggml.model"].contents() != "gpt2":
        sys.exit("this script makes tokenizers of byte-level BPE models only")
    tokens: list[str] = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    made: Any = parts.Tokenizer(parts.models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer = parts.pre_tokenizers.Sequence(
        [
            parts.pre_tokenizers.Digits(individual_digits=True),
            parts.pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    made.decoder = parts.decoders.ByteLevel()
    made.save(str(folder / "tokenizer.json"))
    end = tokens[fields["tokenizer.ggml.eos_token_id"].contents()]
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")


def main() -> int:
    """Run both tasks and print what they scored; 1 if it was no more than chance."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("model", type=Path, help="the GGUF file that is served")
    parser.add_argument("--base-url", default="http://127.0.0.1:8080/v1")
    arguments = parser.parse_args()
    try:
        lm_eval: Any = import_module("lm_eval")
        tasks: Any = import_module("lm_eval.tasks")
    except ImportError:
        sys.exit('lm_eval is not installed: pip install "lm_eval[api]" transformers')
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tasks(folder)
        write_tokenizer(arguments.model, folder)
        found = lm_eval.simple_evaluate(
            model="local-completions",
            model_args={
                "model": "any",
                "base_url": f"{arguments.base_url}/completions",
                "tokenizer": str(folder),
                "num_concurrent": 2,
            },
            tasks=["tiny_choice", "tiny_sentence"],
            task_manager=tasks.TaskManager(
                include_path=str(folder), include_defaults=False
            ),
            batch_size=2,
            bootstrap_iters=0,
        )
    results: dict[str, dict[str, Any]] = found["results"]
    print(json.dumps(results, indent=2, default=str))
    accuracy = results["tiny_choice"]["acc,none"]
    exact = results["tiny_sentence"]["exact_match,stripped"]
    print(f"multiple choice {accuracy:.2f} (chance 0.50), generation {exact:.2f}")
    return 0 if accuracy > 1 / 2 and exact > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
