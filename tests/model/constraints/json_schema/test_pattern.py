from __future__ import annotations

import json
import re

import pytest

from kinetic.model.constraints.json_schema.pattern import PatternError, rewritten
from tests.support.bytewise import accepts, compiled
from tests.support.schemas import PATTERNS

TEXTS = (
    *("", "a", "b", "ab", "ba", "abc", "cc", "abcc", "x", "X", "id", "id7", "z", "az"),
    *("za", "12-a", "1-a", "12345-a", "99-é", " ", "\t", "\n", "a.c", "a-c", ".", "-"),
    *(
        "é",
        "É",
        "a@b",
        "a@b.c",
        "ΑΩ",
        "٣",
        "²",
        "\u00a0",
        "\ufeff",
        "🦊",
        "[",
        "]",
        "&",
    ),
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_matches_is_what_python_matches(pattern):
    constraint = compiled(
        "json_schema", json.dumps({"type": "string", "pattern": pattern})
    )
    # JSON Schema's $ is the very end; Python's may be before a last line break.
    judge = re.compile(pattern.replace("$", r"\Z"))
    ours = [t for t in TEXTS if accepts(constraint, json.dumps(t, ensure_ascii=False))]
    theirs = [t for t in TEXTS if judge.search(t)]
    # Where dialects differ, what they agree on is generated.
    assert [t for t in ours if t not in theirs] == []
    assert [t for t in theirs if t not in ours and t.isascii()] == []


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        # ECMAScript's classes have no sets inside, as Rust's and others' have.
        ("^[a&&b]$", ["a", "&", "b"], ["", "ab"]),
        ("^[[:alpha:]$", ["[", ":", "a", "p"], ["b", "z"]),
        ("^[a~~b]$", ["a", "~", "b"], ["z"]),
        (r"^[\]\-\\]$", ["]", "-", "\\"], ["a"]),
        (r"^[^\d\s]$", ["a", "-"], ["1", " "]),
        (r"^[\w-]+$", ["a-b", "_"], ["a b", "é"]),
        (r"^[a-\d]$", ["a", "-", "5"], ["b"]),
        (r"^\u0041\x42\cI\t\/\-\.$", ["AB\t\t/-."], ["AB"]),
        (r"^\ud83e\udd8a\u{1F98A}$", ["🦊🦊"], ["🦊"]),
        (r"^\p{Lu}\P{Lu}$", ["Aa", "É1"], ["aA", "AA"]),
        (r"^a{2}b{1,}c{0,1}d{3,4}?$", ["aabddd", "aabbcdddd"], ["abddd", "aabdd"]),
        ("^(?:a|(?<n>b)|(?P<m>c))+$", ["abc", "b"], ["", "d"]),
        ("(?i)^straße$", ["STRAßE", "Straße"], ["strasse"]),
        ("^(?s:.)(.)$", ["\na", "ba"], ["a\n", "a\r"]),
        ("a{|b}|,]", ["a{", "b}", ",]"], ["a", "b"]),
        ("", ["", "anything"], []),
        ("^$", [""], ["a", "\n"]),
        ("^a$|^b", ["a", "b", "bc"], ["aa", "cb"]),
    ],
)
def test_syntax_means_what_ecmascript_means(pattern, matching, others):
    constraint = compiled(
        "json_schema", json.dumps({"type": "string", "pattern": pattern})
    )
    spelled = [json.dumps(text, ensure_ascii=False) for text in matching]
    assert [t for t in spelled if not accepts(constraint, t)] == []
    spelled = [json.dumps(text, ensure_ascii=False) for text in others]
    assert [t for t in spelled if accepts(constraint, t)] == []


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a(?=b)", "looks around"),
        ("a(?!b)", "looks around"),
        ("(?<=a)b", "looks around"),
        ("(?m)^a", "sets modes"),
        ("(?x: a )", "sets modes"),
        (r"(a)\1", r"\1 is not supported"),
        (r"\k<a>", r"\k is not supported"),
        (r"\bx", r"\b is not supported"),
        (r"\Ax\Z", r"\A is not supported"),
        (r"\07", "octal"),
        (r"\p", "Unicode property"),
        (r"\u{110000}", "no character"),
        (r"\ud800", "no character"),
        ("(a", "not closed"),
        ("a)", "has no ("),
        ("[a", "not closed"),
        ("[]", "no character is in"),
        ("[b-a]", "out of order"),
        ("*a", "nothing stands before"),
        ("a|+", "nothing stands before"),
        ("a**", "repeats a repetition"),
        ("a{2,1}", "out of order"),
        ("a{20000}", "more than 10000"),
        ("a{,3}", "different things"),
        ("\\", "is not supported"),
        ("a" * 2001, "longer than 2000"),
        ("(" * 60 + "a" + ")" * 60, "deeper than 50"),
    ],
)
def test_what_means_different_things_is_refused(pattern, reason):
    with pytest.raises(PatternError) as caught:
        rewritten(pattern)
    assert reason in str(caught.value)
