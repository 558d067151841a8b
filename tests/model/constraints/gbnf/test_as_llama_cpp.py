"""The same grammars and texts before llama.cpp's own engine and ours."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kinetic.errors import RequestError
from kinetic.model.constraints.matching import Constraint
from tests.support.bytewise import accepts, compiled, sample
from tests.support.grammars import TEXTS, random_grammar
from tests.support.llama_grammar import verdicts

pytestmark = pytest.mark.model

SYNTAX = (
    r'root ::= "\x41\u00e9\n\t\"\\\[\]\-"',
    r"root ::= [\x41-\x43\-\]\[^a-c-e]+",
    r'root ::= [^\n]+ "\n"',
    'root ::= .* "x"',
    "root ::= [a-]+ | [-a]",
    'root ::= "a"{2} "b"{1,} "c"{0,2} [d-f]{2,3}?',
    'root ::= (\n "a" |\n "b" # c\n)+ # d\n',
    'root ::= # c\n "a" |\n "b"\n',
    '# c\n\nroot ::= x-y 1z\nx-y ::= "a"\n1z ::= "b"\n',
    'root ::= "a"\nroot ::= "b"\n',
    'root ::= ("a" | ) "b" | ',
    'root ::= ""',
    'root::="a"|"b"',
    'root ::= "a"\r\nb ::= "c"\r\n',
    'root ::= x*\nx ::= "ab" | "a" "c"',
    'root ::= "a" "bc" | "ab" "d"',
    "root ::= [^a^]",
    'root ::= "#" | "a" # x',
    r"root ::= [a\-z]+",
    'root ::= "a" {2,3}',
    'root ::= "a"{ 2 , 3 }',
    'root ::= "é"+ | [à-ü]{2}',
    "root ::= [^a-c]",
)
REFUSED = (
    'root ::= "a',
    "root ::= [a",
    "root ::= (a",
    "root ::= a",
    'root ::= "a" )',
    "root ::= *",
    r'root ::= "\q"',
    r'root ::= "\x4"',
    'root = "a"',
    'root ::= "a"{',
    'root ::= "a"{x}',
    'root ::= "a"{2',
    'root ::= "a"\n| "b"',
    'x ::= "a"',
    'root_x ::= "a"',
    'root ::= ""*',
    'root ::= "a"{3001}',
    "root ::= <nope>",
    "root ::= $",
)
LETTERS = 'abcdefxz-[]^AB\n\t"\\#é1 {}:,.0='


def changed(rng: random.Random, text: str) -> str:
    """A text with up to two characters put in, left out or exchanged."""
    letters = list(text)
    for _ in range(rng.randint(0, 2)):
        at = rng.randint(0, len(letters))
        cut = rng.randint(0, min(1, len(letters) - at))
        letters[at : at + cut] = rng.choice(["", rng.choice(LETTERS)])
    return "".join(letters)


def texts_for(constraint: Constraint, rng: random.Random) -> list[str]:
    ascii_only = range(128)
    drawn = [sample(constraint, rng, most=40, hurry=ascii_only) for _ in range(10)]
    likely = [answer.text for answer in drawn]
    return ["", "a", *likely, *(changed(rng, rng.choice(likely)) for _ in range(20))]


def test_grammars_and_texts_get_the_same_answers(
    grammars_dir: Path, smollm2_path: Path
):
    rng = random.Random(5)
    grammars = [path.read_text() for path in sorted(grammars_dir.glob("*.gbnf"))]
    assert len(grammars) >= 8
    cases = []
    for grammar in (*grammars, *SYNTAX):
        constraint = compiled("gbnf", grammar)
        texts = [t for t in texts_for(constraint, rng) if "\0" not in t]
        cases.append((grammar, texts))
    for seed in range(60):
        grammar = random_grammar(random.Random(7000 + seed))
        cases.append((grammar, rng.sample(TEXTS, 20)))
    cases += [(grammar, []) for grammar in REFUSED]
    theirs = verdicts(smollm2_path, cases, limit_s=50)
    assert len(theirs) == len(cases)
    differences = []
    n_compared = 0
    for (grammar, texts), answer in zip(cases, theirs, strict=True):
        try:
            constraint = compiled("gbnf", grammar)
        except RequestError as error:
            # llama.cpp goes on for ever with what never ends.
            if answer is not None and "ever ends" not in str(error):
                differences.append((grammar, "refused by us"))
            continue
        if answer is None:
            # It refuses left recursion, which is read here.
            if grammar in REFUSED:
                differences.append((grammar, "refused by llama.cpp"))
            continue
        for text, verdict in zip(texts, answer, strict=True):
            if verdict is not None:
                n_compared += 1
                if accepts(constraint, text) != verdict:
                    differences.append((grammar, text))
    assert differences == []
    assert n_compared > 1000
