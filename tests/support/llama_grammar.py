"""llama.cpp's own grammar engine, as a program: it may abort, so it runs by itself.

Reads `[[grammar, [text, ...]], ...]` as JSON and prints one line for each grammar: null
if it is refused, else for each text whether it matches, or null if the vocabulary has
no token for one of its characters.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

Cases = list[tuple[str, list[str]]]
Verdicts = list[list[bool | None] | None]


def verdicts(model_path: Path, cases: Cases, limit_s: float) -> Verdicts:
    """What llama.cpp says of grammars and texts."""
    command = [sys.executable, "-m", "tests.support.llama_grammar", str(model_path)]
    done = subprocess.run(
        command,
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
        timeout=limit_s,
        cwd=Path(__file__).parents[2],
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    import llama_cpp.llama_cpp as lib

    from kinetic.model.native.model import Model

    model = Model(Path(sys.argv[1]), vocab_only=True)
    tokens: dict[str, int] = {}
    for token in range(model.n_vocab):
        text = model.piece(token, special=False).decode("utf-8", "replace")
        if len(text) == 1 and text != "\ufffd":
            tokens.setdefault(text, token)

    def new(grammar: str) -> object:
        return lib.llama_sampler_init_grammar(model._vocab, grammar.encode(), b"root")

    def allows(sampler: object, token: int) -> bool:
        entries = (lib.llama_token_data * 1)()
        entries[0].id = ctypes.c_int32(token)
        entries[0].logit = 1.0
        array = lib.llama_token_data_array()
        array.data, array.size, array.selected = entries, 1, -1
        lib.llama_sampler_apply(sampler, ctypes.byref(array))
        return bool(entries[0].logit == 1.0)

    def verdict(grammar: str, text: str) -> bool | None:
        if any(character not in tokens for character in text):
            return None
        sampler = new(grammar)
        try:
            for character in text:
                if not allows(sampler, tokens[character]):
                    return False
                lib.llama_sampler_accept(sampler, tokens[character])
            return allows(sampler, model.eos)
        finally:
            lib.llama_sampler_free(sampler)

    for grammar, texts in json.load(sys.stdin):
        sampler = new(grammar)
        if sampler:
            lib.llama_sampler_free(sampler)
        answer = [verdict(grammar, text) for text in texts] if sampler else None
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
