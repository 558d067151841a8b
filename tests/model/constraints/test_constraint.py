"""Constraints over a real vocabulary, token by token."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetic.errors import InternalError, RequestError, UnsupportedFeature
from kinetic.model.constraints.constraint import ConstraintCompiler, ConstraintLimits
from kinetic.model.constraints.guidance import NativeLimits, Walker
from kinetic.model.constraints.json_schema.judge import Judge
from kinetic.model.constraints.matching import MAX_SHARED_S, Constraint, OutgrownError
from kinetic.model.native.model import Model
from kinetic.model.vocab import Vocab
from kinetic.types import ConstraintSpec
from tests.support.bytewise import allowed, compiled, masked, new_compiler, sample
from tests.support.schemas import errors_of_text

pytestmark = pytest.mark.model

PERSON = json.dumps(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    }
)
ROW_257 = np.zeros(257, np.float32)
THINK = ("<think>", "</think>")


class Tried:
    """A compiler of a real vocabulary, and what helps to try it."""

    def __init__(self, model: Model) -> None:
        self.vocab = Vocab(model)
        self.compiler = ConstraintCompiler(model, self.vocab)
        self.row = np.linspace(-3, 3, model.n_vocab, dtype=np.float32)
        self.row.flags.writeable = False

    def compile(self, kind: str, source: str = "", **fields: Any) -> Constraint:
        return self.compiler.compile(ConstraintSpec(kind=kind, source=source, **fields))

    def walk(self, constraint: Constraint, tokens: list[int]) -> int | None:
        """The first place at which a token is not allowed; None if all are."""
        matcher = constraint.matcher()
        for at, token in enumerate([*tokens, min(self.vocab.ends)]):
            if not np.isfinite(matcher.mask(self.row)[token]):
                return at
            matcher.accept(token)
        return None

    def accepts(self, constraint: Constraint, text: str) -> bool:
        return self.walk(constraint, self.vocab.tokenize(text)) is None


@pytest.fixture(scope="module")
def tried(smollm2_path: Path) -> Iterator[Tried]:
    model = Model(smollm2_path, vocab_only=True)
    yield Tried(model)
    model.close()


def test_an_answer_in_json_goes_through_token_by_token(tried: Tried):
    constraint = tried.compile("json_schema", PERSON)
    assert tried.accepts(constraint, '{\n  "name": "Zoë 🦊",\n  "age": 3\n}')
    assert tried.accepts(constraint, '{"name":"a","age":-0}')
    assert not tried.accepts(constraint, '{"name": "a"}')
    assert not tried.accepts(constraint, '{"name": "a", "age": 3} ')


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("gbnf", r'root ::= "e\x00b"'),
        ("gbnf", 'root ::= "e\0b"'),
        ("gbnf", "root ::= [e] [\0] [b]"),
        ("json_schema", r'{"const": "e\u0000b"}'),
        ("json_schema", r'{"type": "string", "pattern": "^e\u0000b$"}'),
        ("json_schema", r'{"type": "string", "pattern": "^e[\\x00-\\x07]b$"}'),
        ("json_schema", r'{"type": "string", "pattern": "^e\\u007fb$"}'),
    ],
)
def test_what_cannot_be_written_is_refused_and_never_left_out(
    tried: Tried, kind: str, source: str
):
    with pytest.raises(RequestError, match=r"NUL|U\+00(00|7F) cannot be generated"):
        tried.compile(kind, source)


def test_json_mode_is_any_object_and_an_empty_schema_any_value(tried: Tried):
    texts = ('{"a": [1, null]}', "{}", "[]", '"x"', "-1.5e3", "true", "Sure! {}")
    for kind, source, count in (("json_object", "", 2), ("json_schema", "{}", 6)):
        constraint = tried.compile(kind, source)
        seen = [tried.accepts(constraint, text) for text in texts]
        assert seen == [True] * count + [False] * (len(texts) - count)


def test_a_mask_leaves_the_logits_of_what_is_allowed_alone(tried: Tried):
    matcher = tried.compile("gbnf", "root ::= [a-z]+").matcher()
    before = tried.row.copy()
    masked = matcher.mask(tried.row)
    assert masked is not tried.row
    assert masked.dtype == np.float32
    assert np.array_equal(tried.row, before)
    kept = np.isfinite(masked)
    assert np.array_equal(masked[kept], before[kept])
    texts = [tried.vocab.piece(token) for token in range(len(before))]
    lower = frozenset(b"abcdefghijklmnopqrstuvwxyz")
    expected = [bool(text) and lower.issuperset(text) for text in texts]
    assert kept.tolist() == expected


def test_infinite_logits_stay_out_or_as_they_are(tried: Tried):
    matcher = tried.compile("gbnf", 'root ::= "a"').matcher()
    row = tried.row.copy()
    row[:] = np.inf
    (token,) = tried.vocab.tokenize("a")
    masked = matcher.mask(row)
    assert allowed(np.where(masked == np.inf, 0.0, masked)) == [token]
    row[token] = -np.inf
    assert not np.isfinite(matcher.mask(row)).any()


def test_every_token_that_ends_an_answer_is_allowed_exactly_at_an_end(tried: Tried):
    assert len(tried.vocab.ends) > 1
    matcher = tried.compile("gbnf", 'root ::= "yes" | "yes" "!"').matcher()
    for token in tried.vocab.tokenize("yes"):
        assert tried.vocab.ends.isdisjoint(allowed(matcher.mask(tried.row)))
        matcher.accept(token)
    assert tried.vocab.ends < set(allowed(matcher.mask(tried.row)))
    (bang,) = tried.vocab.tokenize("!")
    matcher.accept(bang)
    assert set(allowed(matcher.mask(tried.row))) == tried.vocab.ends
    matcher.accept(min(tried.vocab.ends))


def test_an_answer_is_complete_where_nothing_but_the_end_may_follow(tried: Tried):
    matcher = tried.compile("gbnf", 'root ::= "yes" | "yes" "!"').matcher()
    seen = [matcher.is_complete]
    for token in (*tried.vocab.tokenize("yes"), *tried.vocab.tokenize("!")):
        matcher.accept(token)
        seen.append(matcher.is_complete)
    assert seen == [False, False, True]


def test_a_token_that_is_not_allowed_is_not_accepted(tried: Tried):
    matcher = tried.compile("gbnf", 'root ::= "yes"').matcher()
    (token,) = tried.vocab.tokenize("no")
    with pytest.raises(InternalError, match="constraint"):
        matcher.accept(token)
    with pytest.raises(InternalError, match="constraint"):
        matcher.mask(tried.row)


def test_text_never_is_a_control_token(tried: Tried):
    constraint = tried.compile("gbnf", 'root ::= "<|im_start|>" .*')
    matcher = constraint.matcher()
    start = tried.vocab.special_token("<|im_start|>")
    assert start is not None
    assert start not in allowed(matcher.mask(tried.row))
    plain = tried.vocab.tokenize_plain("<|im_start|>user")
    assert tried.walk(constraint, plain) is None


def test_a_grammar_can_name_tokens(tried: Tried):
    start = tried.vocab.special_token("<|im_start|>")
    assert start is not None
    for name in ("<|im_start|>", f"<[{start}]>"):
        constraint = tried.compile("gbnf", f'root ::= {name} "a" | "b"')
        assert tried.walk(constraint, [start, *tried.vocab.tokenize("a")]) is None
        assert tried.accepts(constraint, "b")
        assert tried.walk(constraint, tried.vocab.tokenize_plain("<|im_start|>a")) == 0
    others = tried.compile("gbnf", f"root ::= !<[{start}]>* <[{start}]>")
    assert tried.walk(others, [*tried.vocab.tokenize("any text"), start]) is None
    assert tried.walk(others, [start, start]) == 1


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        ("root ::= <|im_end|>", "ends the answer"),
        ("root ::= <[999999]>", "does not exist"),
        ("root ::= <no such token>", "is not one token"),
        ('root ::= "hello" | <hello>', "is not one token"),
    ],
)
def test_tokens_that_cannot_be_named_are_refused(tried: Tried, grammar, reason):
    with pytest.raises(RequestError, match=reason):
        tried.compile("gbnf", grammar, param="grammar")


def test_a_token_beside_its_own_text_is_refused(tried: Tried):
    (hello,) = tried.vocab.tokenize("hello")
    for grammar in (
        f'root ::= <[{hello}]> "x" | "hello" "y"',
        f"root ::= [a-z]* <[{hello}]>",
        f'root ::= (!<[{hello}]> | "x")*',
    ):
        with pytest.raises(RequestError, match="cannot be told apart"):
            tried.compile("gbnf", grammar)
    fine = tried.compile("gbnf", f'root ::= [A-Z]* <[{hello}]> "hello"')
    assert tried.accepts(fine, "ABhellohello")


@pytest.mark.parametrize("kind", ["json_schema", "gbnf"])
def test_one_block_of_reasoning_may_come_first(tried: Tried, kind):
    source = PERSON if kind == "json_schema" else 'root ::= "{" [^}]* "}"'
    constraint = tried.compile(kind, source, prefix_think=THINK)
    answer = '{"name": "a", "age": 3}'
    thought = '<think>\nhm {"n": 1} </thin <b>\n</think>'
    assert tried.accepts(constraint, answer)
    assert tried.accepts(constraint, thought + answer)
    assert tried.accepts(constraint, f"{thought}\n\n{answer}")
    assert tried.accepts(constraint, f"<think></think>{answer}")
    assert not tried.accepts(constraint, thought + thought + answer)
    assert not tried.accepts(constraint, "<think>" + answer)
    assert not tried.accepts(constraint, thought + "no")


def test_an_open_block_of_reasoning_must_be_closed_first(tried: Tried):
    constraint = tried.compile(
        "json_schema", PERSON, prefix_think=THINK, think_open=True
    )
    answer = '{"name": "a", "age": 3}'
    assert tried.accepts(constraint, f"hm\n</think>\n\n{answer}")
    assert tried.accepts(constraint, f"</think>{answer}")
    assert not tried.accepts(constraint, answer)
    assert not tried.accepts(constraint, f"a</think>b</think>{answer}")


def test_think_tags_that_are_control_tokens_are_those_tokens(tried: Tried):
    # SmolLM2 has none, so two of its markers stand in.
    tags = ("<|im_start|>", "<repo_name>")
    opener, closer = (tried.vocab.special_token(tag) for tag in tags)
    assert opener is not None
    assert closer is not None
    answer = tried.vocab.tokenize('{"name": "a", "age": 3}')
    inside = tried.vocab.tokenize("so")
    constraint = tried.compile("json_schema", PERSON, prefix_think=tags)
    assert tried.walk(constraint, [opener, *inside, closer, *answer]) is None
    assert tried.walk(constraint, answer) is None
    spelled = tried.vocab.tokenize_plain("<repo_name>")
    assert tried.walk(constraint, [opener, *spelled, closer, *answer]) is not None
    unfinished = tried.compile(
        "json_schema", PERSON, prefix_think=tags, think_open=True
    )
    assert tried.walk(unfinished, [*inside, closer, *answer]) is None


def test_reasoning_does_not_take_what_a_grammar_starts_with(tried: Tried):
    # "<" may begin the answer too, and nothing tells the two apart: no reasoning.
    constraint = tried.compile("gbnf", 'root ::= [^a]+ "a"', prefix_think=THINK)
    assert tried.accepts(constraint, "<thi>a")
    # A line break may begin the answer: it is not swallowed behind the block.
    breaks = tried.compile("gbnf", 'root ::= "\\n" "a"', prefix_think=THINK)
    assert tried.accepts(breaks, "<think>x</think>\na")
    assert not tried.accepts(breaks, "<think>x</think>\n\na")


def test_text_that_must_follow_is_proposed_as_the_model_cuts_it(tried: Tried):
    matcher = tried.compile("gbnf", 'root ::= "the quick brown fox" [a-z]+').matcher()
    tokens = matcher.forced()
    expected = tried.vocab.tokenize("the quick brown fox")
    assert list(tokens) == expected[:-1]
    for token in tokens:
        assert token in allowed(matcher.mask(tried.row))
        matcher.accept(token)
    # Another way of cutting stays allowed: the model may have its reasons.
    other = tried.compile("gbnf", 'root ::= "the quick brown fox" [a-z]+').matcher()
    (letter,) = tried.vocab.tokenize("t")
    assert letter in allowed(other.mask(tried.row))
    assert tried.compile("gbnf", "root ::= [a-z]+").matcher().forced() == ()


def test_a_constraint_is_compiled_once(tried: Tried):
    one = tried.compile("json_schema", PERSON)
    assert tried.compile("json_schema", PERSON, param="format") is one
    assert tried.compile("json_schema", PERSON, prefix_think=THINK) is not one
    assert tried.compile("json_schema", PERSON + " ").key != one.key
    assert len(one.key) == 64


def test_only_the_constraints_used_last_are_kept():
    compiler = new_compiler(cache_size=2)

    def compile_(letter: str) -> Constraint:
        spec = ConstraintSpec(kind="gbnf", source=f'root ::= "{letter}"')
        return compiler.compile(spec)

    a, b = compile_("a"), compile_("b")
    assert compile_("a") is a
    compile_("c")
    assert compile_("a") is a
    assert compile_("b") is not b


def test_what_was_given_up_is_compiled_by_the_next_request(tried: Tried):
    """Not where an answer begins: all others wait there."""
    constraint = tried.compile("gbnf", 'root ::= "given " "up"')
    compiled: list[int] = []
    make = constraint.make

    def counted() -> Walker:
        compiled.append(threading.get_ident())
        return make()

    constraint.make = counted
    constraint.matcher()
    constraint.spend(MAX_SHARED_S + 0.1)
    constraint.matcher()
    assert compiled == []
    assert tried.compile("gbnf", 'root ::= "given " "up"') is constraint
    assert len(compiled) == 1
    assert tried.compile("gbnf", 'root ::= "given " "up"') is constraint
    assert len(compiled) == 1
    assert tried.accepts(constraint, "given up")


def test_matchers_of_one_constraint_do_not_know_of_each_other(tried: Tried):
    constraint = tried.compile("gbnf", 'root ::= "a" "b"')
    one, other = constraint.matcher(), constraint.matcher()
    (token,) = tried.vocab.tokenize("a")
    one.accept(token)
    assert token in allowed(other.mask(tried.row))
    assert token not in allowed(one.mask(tried.row))


def test_constraints_are_compiled_and_walked_on_many_threads_at_once(tried: Tried):
    text = '{"name": "a", "age": 3}'
    verdicts: list[bool] = []

    def work(number: int) -> None:
        for i in range(4):
            schema = {**json.loads(PERSON), "title": f"{number % 3} {i}"}
            constraint = tried.compile("json_schema", json.dumps(schema))
            verdicts.append(tried.accepts(constraint, text))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert verdicts == [True] * 24


def test_grammars_of_our_own_hold_clients_schemas(tried: Tried):
    text = (
        'start: "<call>" args_0 "</call>"\n'
        'args_0: %json {"type": "object", "properties": {"n": {"type": "integer"}},'
        ' "x-guidance": {"whitespace_flexible": false}}\n'
    )
    constraint = tried.compiler.compile_lark(text, param="tools")
    assert tried.accepts(constraint, '<call>{"n":1}</call>')
    assert not tried.accepts(constraint, '<call>{"n": 1}</call>')
    bad = text.replace('"integer"', '"integer", "minimum": 5, "maximum": 1')
    fields = {"args_0": "tools[0].function.parameters"}
    with pytest.raises(RequestError, match="/properties/n") as caught:
        tried.compiler.compile_lark(bad, param="tools", fields=fields)
    assert caught.value.param == "tools[0].function.parameters"


def test_a_tools_arguments_are_judged_by_what_is_not_held(tried: Tried):
    def judge(schema: dict[str, Any], **changes: bool) -> Judge | None:
        options = {"strict": False, "is_held": True, **changes}
        text = json.dumps(schema)
        return tried.compiler.judge(text, param="tools[1]", **options)

    loose = {"type": "object", "not": {"required": ["a"]}}
    plain = {"type": "object"}
    assert judge(plain) is None
    assert judge(plain, strict=True) is None
    assert judge(plain, is_held=False) is not None
    found = judge(loose)
    assert found is not None
    assert found.complaint('{"a": 1}') is not None
    with pytest.raises(RequestError, match=r"\"not\" cannot be held") as caught:
        judge(loose, strict=True)
    assert caught.value.param == "tools[1]"
    with pytest.raises(RequestError, match="tools"):
        judge({"type": "nope"})


def test_what_only_the_library_refuses_is_told_with_its_place(tried: Tried):
    contradiction = {"allOf": [{"type": "null"}, {"type": "string"}]}
    properties = {"ok": {}, "a": contradiction}
    schema = {"type": "object", "properties": properties, "required": ["a"]}
    with pytest.raises(RequestError) as caught:
        tried.compile("json_schema", json.dumps(schema), param="json_schema")
    assert str(caught.value).endswith(", at /properties/a")
    with pytest.raises(RequestError, match=r"^grammar: "):
        tried.compiler.compile_lark("start: nope", param="grammar")


def test_a_limit_passed_inside_an_answer_ends_it_with_an_error():
    native = NativeLimits(max_lexer_states=200)
    compiler = new_compiler(limits=ConstraintLimits(native=native))
    schema = json.dumps({"type": "string", "maxLength": 5000})
    spec = ConstraintSpec(kind="json_schema", source=schema)
    matcher = compiler.compile(spec).matcher()
    matcher.accept(ord('"'))

    def go_on() -> None:
        for _ in range(1000):
            masked(matcher)
            matcher.accept(ord("x"))

    with pytest.raises(RequestError, match="too complex"):
        go_on()


def test_an_answer_that_needs_much_does_not_spoil_others():
    native = NativeLimits(max_lexer_states=400)
    compiler = new_compiler(limits=ConstraintLimits(native=native))
    schema = json.dumps({"type": "string", "maxLength": 5000})
    constraint = compiler.compile(ConstraintSpec(kind="json_schema", source=schema))

    def n_steps(text: bytes) -> int:
        matcher = constraint.matcher()
        for at, byte in enumerate(text):
            try:
                masked(matcher)
            except RequestError:
                return at
            matcher.accept(byte)
        return len(text)

    # What the library's copies share is full behind the first hundred characters.
    lengths = [n_steps(b'"' + letter * 100) for letter in (b"a", b"b", b"c")]
    assert lengths == [101, 101, 101]
    endless = [n_steps(b'"' + b"x" * 1000) for _ in range(2)]
    assert endless[0] == endless[1]
    assert 300 < endless[0] < 400


def test_a_renewed_matcher_goes_on_as_one_that_met_no_limit():
    schema = json.dumps({"type": "string", "maxLength": 5000})
    spec = ConstraintSpec(kind="json_schema", source=schema)
    native = NativeLimits(max_lexer_states=400)
    small = new_compiler(limits=ConstraintLimits(native=native)).compile(spec)
    free = new_compiler().compile(spec).matcher()
    for letter in (b"a", b"b", b"c"):
        list(map(small.matcher().accept, b'"' + letter))
    matchers = [small.matcher() for _ in range(4)]
    n_renewed = 0
    for at, byte in enumerate(b'"' + b"abcd" * 80):
        expected = free.mask(ROW_257)
        for matcher in matchers:
            try:
                found = matcher.mask(ROW_257)
            except OutgrownError:
                n_renewed += 1
                matcher.resume(matcher.renewal().walker())
                found = matcher.mask(ROW_257)
            assert np.array_equal(found, expected), at
            matcher.accept(byte)
        free.accept(byte)
    assert n_renewed >= 1


def test_a_token_behind_which_a_limit_is_met_is_accepted_all_the_same():
    native = NativeLimits(max_lexer_states=200)
    compiler = new_compiler(limits=ConstraintLimits(native=native))
    schema = json.dumps({"type": "string", "maxLength": 5000})
    constraint = compiler.compile(ConstraintSpec(kind="json_schema", source=schema))
    matcher = constraint.matcher()
    matcher.accept(ord('"'))
    n_accepted = 1
    while matcher._native.error is None:
        matcher.accept(ord("x"))
        n_accepted += 1
        assert n_accepted < 400
    assert matcher.renewal().accepted == tuple(b'"' + b"x" * (n_accepted - 1))
    with pytest.raises(OutgrownError):
        matcher.mask(ROW_257)


def test_a_model_without_an_end_cannot_be_held():
    compiler = new_compiler()
    compiler._vocab.ends = frozenset()
    with pytest.raises(UnsupportedFeature, match="no token that ends"):
        compiler.prepare()


@pytest.mark.parametrize("seed", range(6))
def test_drawn_at_random_from_a_real_vocabulary_answers_validate(tried: Tried, seed):
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[A-Z]{2}-\\d+$"},
            "when": {"type": "string", "format": "date-time"},
            "n": {"type": "number", "minimum": -1.5, "exclusiveMaximum": 10},
            "tags": {
                "type": "array",
                "items": {"enum": ["a", "b c", "é"]},
                "maxItems": 3,
            },
        },
        "required": ["id", "n", "tags"],
    }
    constraint = tried.compile("json_schema", json.dumps(schema))
    rng = random.Random(seed)
    matcher = constraint.matcher()
    out = b""
    for _ in range(150):
        options = allowed(matcher.mask(tried.row))
        token = rng.choice(options)
        matcher.accept(token)
        if token in tried.vocab.ends:
            break
        out += tried.vocab.piece(token)
    else:
        return
    assert errors_of_text(schema, out.decode()) == []


def test_bytes_and_tokens_agree(tried: Tried):
    schema = json.dumps({"enum": ["a", 1, None]})
    drawn = sample(compiled("json_schema", schema), random.Random(1))
    assert tried.accepts(tried.compile("json_schema", schema), drawn.text)
