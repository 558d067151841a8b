from __future__ import annotations

import pytest

from kinetic.model.constraints.gbnf.nodes import Alt, Chars, Ref, Repeat, Seq, Tokens
from kinetic.model.constraints.gbnf.parser import Gbnf, GbnfError, TokenIds, parse


def find_tokens(which: str | int, negated: bool) -> TokenIds:
    known = {"<think>": 7}
    token = which if isinstance(which, int) else known.get(which)
    if token is None:
        raise GbnfError(f"{which} is not one token")
    return ((0, token - 1), (token + 1, 99)) if negated else ((token, token),)


def read(text: str) -> Gbnf:
    return parse(text, find_tokens)


def shown(grammar: Gbnf, number: int) -> str:
    """An expression written out; ranges as numbers."""
    match grammar.nodes[number]:
        case Chars(members):
            return "[" + " ".join(f"{a}-{b}" for a, b in members) + "]"
        case Tokens(ids):
            return "<" + " ".join(f"{a}-{b}" for a, b in ids) + ">"
        case Ref(rule):
            return rule
        case Seq(items):
            return "(" + " ".join(shown(grammar, item) for item in items) + ")"
        case Alt(options):
            return "(" + " | ".join(shown(grammar, o) for o in options) + ")"
        case Repeat(item, least, most):
            return f"{shown(grammar, item)}{{{least},{'' if most is None else most}}}"
        case node:
            raise AssertionError(node)


def root(text: str) -> str:
    grammar = read(text)
    return shown(grammar, grammar.rules["root"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('root ::= "a"', "[97-97]"),
        ('root ::= "ab"', "([97-97] [98-98])"),
        (r'root ::= "\x41\u00e9\U0001F98A"', "([65-65] [233-233] [129418-129418])"),
        (r'root ::= "\n\t"', "([10-10] [9-9])"),
        (r'root ::= "\"\\\[\]\-"', "([34-34] [92-92] [91-91] [93-93] [45-45])"),
        ("root ::= [a-c]", "[97-99]"),
        ("root ::= [a-]", "[45-45 97-97]"),
        ("root ::= [-a]", "[45-45 97-97]"),
        (r"root ::= [a\-c]", "[45-45 97-97 99-99]"),
        ("root ::= [a-b-c]", "[45-45 97-99]"),
        ("root ::= [^\\n]", "[1-9 11-55295 57344-1114111]"),
        ("root ::= .", "[1-55295 57344-1114111]"),
        ("root ::= [a^]", "[94-94 97-97]"),
        ('root ::= "a"*', "[97-97]{0,}"),
        ('root ::= "ab"+', "([97-97] [98-98]){1,}"),
        ('root ::= "a" "b"?', "([97-97] [98-98]{0,1})"),
        ('root ::= "a"{3}', "[97-97]{3,3}"),
        ('root ::= "a" { 2 , }', "[97-97]{2,}"),
        ('root ::= "a"{0,5}', "[97-97]{0,5}"),
        ('root ::= "a"{0}', "()"),
        ('root ::= ("a"*)*', "[97-97]{0,}"),
        ('root ::= ("a"+)?', "[97-97]{0,}"),
        ('root ::= ("a"{2})*', "[97-97]{2,2}{0,}"),
        ('root ::= "a" | "b"', "[97-98]"),
        ('root ::= "ab" | ', "(([97-97] [98-98]) | ())"),
        ('root ::= ""', "()"),
        ('root ::= (\n  "a" # one\n  x\n)\nx ::= "b"', "([97-97] x)"),
        ('# first\nroot ::=\n "a" |\n "b"\n', "[97-98]"),
        ('root ::= a-b 1z\na-b ::= "a"\n1z ::= "b"', "(a-b 1z)"),
        ('root ::= "a"\nroot ::= "b"', "[98-98]"),
        ('root ::= "a"\r\nx ::= "b"\r\n', "[97-97]"),
        ("root ::= <think> <[9]>", "(<7-7> <9-9>)"),
        ("root ::= !<think>*", "<0-6 8-99>{0,}"),
    ],
)
def test_a_grammar_is_read_as_llama_cpp_reads_it(text, expected):
    assert root(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('root ::= "yes', 'the closing " of a text is missing'),
        ('answer ::= "y"', 'there is no rule "root"'),
        ('Root ::= "a"', 'there is no rule "root"'),
        ("root ::= a", '"a", which is not defined'),
        ("root ::= [a", "the closing ] of a class is missing"),
        ("root ::= []", "a class of no characters"),
        ("root ::= [z-a]", "a class that no character is in"),
        ("root ::= (a", '")" was expected'),
        ('root ::= "a" )', "a new line or the end was expected"),
        ("root ::= *", "there is nothing to repeat"),
        ('root ::= ""*', "there is nothing to repeat"),
        (r'root ::= "\q"', r"unknown escape \q"),
        (r'root ::= "\x4"', "2 hexadecimal digits"),
        (r'root ::= "\ud800"', "U+D800 is no character"),
        (r'root ::= "\U00110000"', "U+110000 is no character"),
        ('root = "a"', '"::=" was expected'),
        ('root ::= "a"{', "was expected"),
        ('root ::= "a"{x}', "was expected"),
        ('root ::= "a"{3,2}', "at least 3 but at most 2 repetitions"),
        ('root ::= "a"{2001}', "the limit is 2000"),
        ('root ::= "a"{1000000,2000000000}', "the limit is 2000"),
        ('root ::= "a"{1,2000000000}', "the limit is 1000000"),
        ('root ::= "a"\n| "b"', "a rule's name was expected"),
        ("root ::= <nope>", "<nope> is not one token"),
        ("root ::= <[", "<[id]> or <text of a token> was expected"),
        ("root ::= $", "a new line or the end was expected"),
        ("", 'there is no rule "root"'),
        ('root ::= "a\0b"', "NUL"),
        (r'root ::= "\x00"', "NUL"),
        ("root ::= " + "(" * 70_000 + '"a"' + ")" * 70_000, "deeper than 256"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(text, reason):
    with pytest.raises(GbnfError) as caught:
        read(text)
    assert reason in str(caught.value)


def test_the_place_of_a_fault_is_told():
    with pytest.raises(GbnfError, match=r"\(line 3, column 8\)"):
        read('root ::= "a"\n# note\nx ::= [\\q]\n')
