"""Measure what a constraint costs per step: mask, its use on the logits, and accept.

    python -m scripts.bench.constraint [MODEL] [--vocab FILE] [--rounds N]

Typical answers are walked token by token, once over the model's own vocabulary and once
over one of 150,000 entries made from it. No model is run.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from kinetic.files import paths
from kinetic.model.constraints.constraint import ConstraintCompiler
from kinetic.model.native.model import Model
from kinetic.model.vocab import Vocab
from kinetic.types import ConstraintSpec

N_LARGE = 150_000
LIMIT_MS = 0.3

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "bio": {"type": "string", "maxLength": 400},
        "born": {"type": "string", "format": "date"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
        "score": {"type": "number", "minimum": 0, "maximum": 100},
    },
    "required": ["name", "bio", "born", "tags", "score"],
}
ANSWER = json.dumps(
    {
        "name": "Grace Hopper",
        "bio": 'She found the first bug, taped it into the log and wrote: "first actual'
        ' case of bug being found". Later came compilers, and a nanosecond of wire.',
        "born": "1906-12-09",
        "tags": ["navy", "computing", "languages that people read"],
        "score": 99.5,
    },
    indent=2,
)
ARITHMETIC = """\
root ::= (expr "=" ws term "\\n")+
expr ::= term ([-+*/] term)*
term ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num ::= [0-9]+ ws
ws ::= [ \\t\\n]*
"""
PROSE = 'root ::= sentence+\nsentence ::= [A-Z] [^.!?\\n]{1,300} [.!?] " "?'


@dataclass(frozen=True)
class Load:
    """A constraint and an answer that keeps to it."""

    name: str
    spec: ConstraintSpec
    answer: str


LOADS = (
    Load(
        "schema", ConstraintSpec(kind="json_schema", source=json.dumps(PERSON)), ANSWER
    ),
    Load("any JSON", ConstraintSpec(kind="json_object"), ANSWER),
    Load(
        "schema behind reasoning",
        ConstraintSpec(
            kind="json_schema",
            source=json.dumps(PERSON),
            prefix_think=("<think>", "</think>"),
            think_open=True,
        ),
        f"Who was she? A rear admiral, as I recall.\n</think>\n\n{ANSWER}",
    ),
    Load(
        "arithmetic",
        ConstraintSpec(kind="gbnf", source=ARITHMETIC),
        "a = 1\n(total +12) *3 = x\nb1 /(c -4) = 77\n",
    ),
    Load(
        "prose",
        ConstraintSpec(kind="gbnf", source=PROSE),
        "The lamp must not go out. She climbed the stairs once more! Why not twice?",
    ),
)


class LargeModel:
    """A made-up vocabulary: the real one, and joins of its own words."""

    def __init__(self, model: Model, vocab: Vocab, n_vocab: int) -> None:
        rng = random.Random(0)
        self.n_vocab = n_vocab
        self.ends = vocab.ends
        self.controls = vocab.controls
        self._model = model
        self._vocab = vocab
        pieces = [vocab.piece(token) for token in range(model.n_vocab)]
        words = [piece for piece in pieces if piece.strip().isalpha()]
        seen = set(pieces)
        while len(pieces) < n_vocab:
            joined = rng.choice(words) + rng.choice(words).lstrip()
            if joined not in seen:
                seen.add(joined)
                pieces.append(joined)
        self._pieces = pieces

    def piece(self, token: int) -> bytes:
        """Bytes of a token's text."""
        return self._pieces[token]

    def full_piece(self, token: int) -> bytes:
        """Bytes of a token, control tokens included."""
        n_real = self._model.n_vocab
        return self._vocab.full_piece(token) if token < n_real else self._pieces[token]

    def special_token(self, text: str) -> int | None:
        """The control token that is a text."""
        return self._vocab.special_token(text)

    def tokenize(
        self, text: bytes, *, add_special: bool, parse_special: bool
    ) -> list[int]:
        """Token ids of a text, among the real ones."""
        return self._model.tokenize(
            text, add_special=add_special, parse_special=parse_special
        )


@dataclass(frozen=True)
class Figures:
    """Milliseconds of one load's steps."""

    compile_ms: float
    first_ms: float
    """Of a step, on average, in the first answer: later ones find things known."""
    mask_ms: list[float]
    accept_ms: list[float]

    def line(self, name: str) -> str:
        """One row of the table."""
        masks, accepts = self.mask_ms, self.accept_ms
        whole = sorted(a + b for a, b in zip(masks, accepts, strict=True))
        return (
            f"{name:26} {self.compile_ms:8.1f} {len(whole):6} {self.first_ms:8.3f}"
            f" {statistics.mean(masks):8.3f} {statistics.mean(accepts):8.3f}"
            f" {statistics.mean(whole):8.3f} {whole[len(whole) // 2]:8.3f}"
            f" {whole[len(whole) * 95 // 100]:8.3f} {whole[-1]:8.3f}"
        )

    def mean_ms(self) -> float:
        """Mask, its use and accept, per step."""
        return statistics.mean(self.mask_ms) + statistics.mean(self.accept_ms)


def measured(
    compiler: ConstraintCompiler,
    load: Load,
    tokens: Sequence[int],
    n_vocab: int,
    rounds: int,
) -> Figures:
    """Walk an answer several times; each step's best time counts."""
    row = np.random.default_rng(0).standard_normal(n_vocab).astype(np.float32)
    start = time.perf_counter()
    constraint = compiler.compile(load.spec)
    compile_ms = 1e3 * (time.perf_counter() - start)
    masks = np.full((rounds, len(tokens)), np.inf)
    accepts = np.full((rounds, len(tokens)), np.inf)
    for i in range(rounds):
        matcher = constraint.matcher()
        for k, token in enumerate(tokens):
            start = time.perf_counter()
            masked = matcher.mask(row)
            between = time.perf_counter()
            if not np.isfinite(masked[token]):
                raise SystemExit(f"{load.name}: token {token} is not allowed at {k}")
            again = time.perf_counter()
            matcher.accept(token)
            masks[i, k] = between - start
            accepts[i, k] = time.perf_counter() - again
    return Figures(
        compile_ms,
        1e3 * float((masks[0] + accepts[0]).mean()),
        (1e3 * masks.min(0)).tolist(),
        (1e3 * accepts.min(0)).tolist(),
    )


def report(
    title: str, compiler: ConstraintCompiler, vocab: Any, n_vocab: int, rounds: int
) -> Iterator[str]:
    """The table for one vocabulary."""
    start = time.perf_counter()
    compiler.prepare()
    yield f"{title}: {n_vocab} entries, read in {time.perf_counter() - start:.2f} s"
    yield (
        f"{'milliseconds':26} {'compile':>8} {'steps':>6} {'first':>8} {'mask':>8}"
        f" {'accept':>8} {'both':>8} {'median':>8} {'95 %':>8} {'most':>8}"
    )
    means = []
    for load in LOADS:
        tokens = vocab.tokenize(
            load.answer.encode(), add_special=False, parse_special=False
        )
        figures = measured(compiler, load, tokens, n_vocab, rounds)
        means.append(figures.mean_ms())
        yield figures.line(load.name)
    verdict = "within" if max(means) < LIMIT_MS else "above"
    yield f"the dearest takes {max(means):.3f} ms a step, {verdict} {LIMIT_MS} ms\n"


def main() -> None:
    """Parse the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "model", nargs="?", type=Path, default=paths.default_model_path()
    )
    parser.add_argument(
        "--vocab",
        type=Path,
        action="append",
        default=[],
        help="one more file to take the vocabulary of",
    )
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    for i, path in enumerate([args.model, *args.vocab]):
        model = Model(path, vocab_only=True)
        vocab = Vocab(model)
        compiler = ConstraintCompiler(model, vocab)
        for line in report(path.name, compiler, model, model.n_vocab, args.rounds):
            print(line, flush=True)
        if i == 0:
            large = cast("Any", LargeModel(model, vocab, N_LARGE))
            compiler = ConstraintCompiler(large, large)
            for line in report("made up", compiler, large, N_LARGE, args.rounds):
                print(line, flush=True)
        model.close()


if __name__ == "__main__":
    main()
