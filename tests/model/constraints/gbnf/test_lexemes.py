from __future__ import annotations

import random

import pytest

from kinetic.errors import RequestError
from kinetic.model.constraints.gbnf.lexemes import lexed
from kinetic.model.constraints.gbnf.parser import GbnfError, parse
from kinetic.model.constraints.gbnf.rewriting import simplified
from kinetic.model.constraints.gbnf.writer import written
from kinetic.model.constraints.matching import Constraint
from tests.support.bytewise import accepts, compiled, sample
from tests.support.grammars import TEXTS, matches, random_grammar


def no_tokens(which: str | int, negated: bool) -> tuple[tuple[int, int], ...]:
    raise GbnfError(f"{which} {negated}")


def lark(text: str) -> str:
    return written(lexed(simplified(parse(text, no_tokens))), "answer")


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        # A lexer that takes the longest piece reads "ab" here and is stuck.
        ('root ::= "a" "bc" | "ab" "d"', ["abc", "abd"], ["ab", "abcd"]),
        ('root ::= "(" root ")" | x "bc" | "ab" "d"\nx ::= "a" | x "x"', ["abc", "axbc", "(abd)"], ["abx"]),
        ('root ::= "(" root ")" | y "5"\ny ::= [0-9] | y y', ["125", "(15)"], ["5", "12"]),
        ('root ::= s "b" | "c"\ns ::= "a" s? [ab]*', ["ab", "aab", "abab"], ["b", "aba"]),
        ('root ::= root "a" | "b"', ["b", "baa"], ["", "a", "ab"]),
        ('root ::= "a" root | "b" | root root', ["ab", "bb", "aabab"], ["a", ""]),
        ('root ::= ("a"*)* "b"', ["b", "aab"], ["a"]),
        ('root ::= (("a")?)* root? "b"', ["b", "abb", "aabbb"], ["a", "ba"]),
        ("root ::= [^x] root | [^y]", ["a", "\nb", "ay\n"], ["y", "xx", ""]),
        ('root ::= "é" root | [à-ü] "漢"', ["à漢", "éü漢"], ["é", "漢"]),
        ('root ::= ws "{" root? "}" ws\nws ::= ([ \\n] ws)?', ["{}", " { {}\n}"], ["{", "} "]),
        ('root ::= r "."\nr ::= ("a" | "ab" | "abc" | "bcd") r | ""', ["abcd.", "aabc.", "."], ["b."]),
    ],
)  # fmt: skip
def test_texts_are_matched_character_by_character(text, matching, others):
    constraint = compiled("gbnf", text)
    assert [s for s in matching if not accepts(constraint, s)] == []
    assert [s for s in others if accepts(constraint, s)] == []


def if_it_ends(text: str) -> Constraint | None:
    try:
        return compiled("gbnf", text)
    except RequestError as error:
        if "matches no text that ever ends" not in str(error):
            raise
        return None


@pytest.mark.parametrize("seed", range(150))
def test_made_up_grammars_match_what_the_plainest_reading_matches(seed):
    rng = random.Random(seed)
    text = random_grammar(rng)
    grammar = parse(text, no_tokens)
    texts = rng.sample(TEXTS, 40)
    expected = [s for s in texts if matches(grammar, s)]
    constraint = if_it_ends(text)
    if constraint is None:
        assert expected == []
        return
    assert [s for s in texts if accepts(constraint, s)] == expected, text


@pytest.mark.parametrize("seed", range(40))
def test_what_is_drawn_from_made_up_grammars_matches_them(seed):
    rng = random.Random(1000 + seed)
    text = random_grammar(rng)
    constraint = if_it_ends(text)
    if constraint is None:
        return
    drawn = [sample(constraint, rng, most=12, hurry=()) for _ in range(8)]
    grammar = parse(text, no_tokens)
    finished = [answer.text for answer in drawn if answer.is_finished]
    assert [s for s in finished if not matches(grammar, s)] == [], text


def test_a_grammar_without_recursion_is_one_lexeme():
    text = lark('root ::= x+ "." | y{2,3}\nx ::= [a-z]+ " "?\ny ::= x "," | "-" x')
    rules = [line for line in text.splitlines() if line[0].islower()]
    assert len(rules) == 1


def test_recursion_that_only_repeats_is_a_loop():
    assert lark('root ::= "a" root | "b"').count("answer") == 1
    assert "*" in lark('root ::= "a" root | "b"')
    assert "*" in lark('root ::= root "a" | "b"')
    assert "*" in lark('root ::= (" " root)?')


def test_long_lists_of_words_stay_few_parts():
    words = " | ".join(f'"word{i}"' for i in range(2000))
    text = lark(f'root ::= "(" root ")" | {words}')
    assert len(text.splitlines()) < 700


def test_a_grammar_that_never_ends_is_refused():
    with pytest.raises(GbnfError, match="matches no text that ever ends"):
        lark('root ::= "a" root')


def test_what_never_ends_is_left_out_of_choices():
    constraint = compiled("gbnf", 'root ::= "a" | "b" x\nx ::= "c" x')
    assert accepts(constraint, "a")
    assert sample(constraint, random.Random(0), most=3).text == "a"
