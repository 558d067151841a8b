"""Constraints made to hurt: each is refused or works, fast, and the process lives."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LIMIT_S = 4.0
"""Processor time of one constraint and of a short answer to it."""
LIMIT_MB = 300
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Case:
    """A constraint, written as Python so that megabytes stay readable."""

    kind: str
    source: str
    is_refused: bool | None = None
    """None where either is right."""


GRAMMARS = {
    "brackets": Case("gbnf", "'root ::= ' + '(' * 70000 + '\"a\"' + ')' * 70000", True),
    "fewer brackets": Case(
        "gbnf", "'root ::= ' + '(' * 9000 + '\"a\"' + ')' * 9000", True
    ),
    "left recursion": Case("gbnf", '\'root ::= root "a" | "b"\'', False),
    "recursion alone": Case("gbnf", "'root ::= root | root root'", True),
    "repetitions": Case("gbnf", "'root ::= \"a\"{1000000,2000000000}'", True),
    "a chain": Case(
        "gbnf",
        "'root ::= r0\\n' + ''.join(f'r{i} ::= r{i+1}\\n' for i in range(6000)) + 'r6000 ::= \"b\"'",
        False,
    ),
    "a chain of brackets": Case(
        "gbnf",
        "'root ::= r0\\n' + ''.join(f'r{i} ::= \"a\" r{i+1} \"c\"\\n' for i in range(5000)) + 'r5000 ::= \"b\"'",
    ),
    "doubling": Case(
        "gbnf",
        "'root ::= r0 | \"x\" root\\n' + ''.join(f'r{i} ::= r{i+1} r{i+1}\\n' for i in range(60)) + 'r60 ::= \"b\"'",
        False,
    ),
    "another root": Case("gbnf", "'Root ::= \"a\"'", True),
    "stars": Case("gbnf", "'root ::= ((\"a\"*)*)*'", False),
    "many stars": Case("gbnf", "'root ::= \"a\" ' + '* ' * 50000", False),
    "megabytes": Case("gbnf", "'root ::= \"' + 'a' * 2000000 + '\"'", True),
    "a long text": Case("gbnf", "'root ::= \"' + 'a' * 120000 + '\"'", False),
    "words": Case(
        "gbnf", "'root ::= ' + ' | '.join(f'\"w{i}\"' for i in range(9000))", False
    ),
    "words and recursion": Case(
        "gbnf",
        "'root ::= \"(\" root \")\" | ' + ' | '.join(f'\"w{i}\"' for i in range(9000))",
        False,
    ),
    "classes": Case("gbnf", "'root ::= ' + '[a-z]' * 17000", False),
    "counted counts": Case(
        "gbnf", "'root ::= ((\"a\"{0,2000}){0,2000}){0,2000}'", False
    ),
    "counted recursion": Case(
        "gbnf",
        '\'root ::= "x" root "y" | (("a"{0,2000} "b"){0,2000} "c"){0,2000}\'',
        False,
    ),
    "many states": Case("gbnf", "'root ::= [ab]* \"a\" [ab]{30}'", False),
    "ambiguity": Case(
        "gbnf", '\'root ::= e e e e e e e e\\ne ::= e e | "a" | ""\'', False
    ),
    "itself, often": Case("gbnf", "'root ::= ' + '(root | \"a\") ' * 200", False),
    "comments": Case("gbnf", "'\\n' * 100000 + 'root ::= \"a\"' + '#' * 10000", False),
}
SCHEMAS = {
    "deep": Case("json_schema", "'{\"items\":' * 900 + '{}' + '}' * 900", True),
    "deeper": Case("json_schema", "'[' * 100000", True),
    "a deep constant": Case(
        "json_schema", "'{\"const\":' + '[' * 900 + ']' * 900 + '}'", True
    ),
    "as deep as may be": Case(
        "json_schema", "'{\"items\":' * 38 + '{}' + '}' * 38", False
    ),
    "a chain of objects": Case(
        "json_schema",
        "json.dumps({'$ref': '#/$defs/r0', '$defs': {**{f'r{i}': {'properties': {'a': {'$ref': f'#/$defs/r{i+1}'}}} for i in range(2400)}, 'r2400': {}}})",
        False,
    ),
    "a chain of unions": Case(
        "json_schema",
        "json.dumps({'$ref': '#/$defs/r0', '$defs': {**{f'r{i}': {'anyOf': [{'$ref': f'#/$defs/r{i+1}'}, {'type': 'null'}]} for i in range(1600)}, 'r1600': {}}})",
    ),
    "doubling": Case(
        "json_schema",
        "json.dumps({'$ref': '#/$defs/r0', '$defs': {**{f'r{i}': {'allOf': [{'$ref': f'#/$defs/r{i+1}'}] * 2} for i in range(60)}, 'r60': {'type': 'null'}}})",
        False,
    ),
    "a product": Case(
        "json_schema",
        "json.dumps({'allOf': [{'anyOf': [{'properties': {f'p{i}{k}': {}}, 'type': 'object'} for k in range(6)]} for i in range(12)]})",
        True,
    ),
    "many values": Case(
        "json_schema", "json.dumps({'enum': [f'v{i}' for i in range(9999)]})", False
    ),
    "too many values": Case(
        "json_schema", "json.dumps({'enum': list(range(10001))})", True
    ),
    "many properties": Case(
        "json_schema",
        "json.dumps({'type': 'object', 'properties': {f'v{i}': {'type': 'integer'} for i in range(1000)}})",
        False,
    ),
    "too many properties": Case(
        "json_schema",
        "json.dumps({'type': 'object', 'properties': {f'v{i}': {} for i in range(1001)}})",
        True,
    ),
    "many items": Case(
        "json_schema",
        "json.dumps({'type': 'array', 'minItems': 2000, 'maxItems': 1000000})",
        False,
    ),
    "patterns at once": Case(
        "json_schema",
        "json.dumps({'allOf': [{'pattern': f'^.*a{i}.*$'} for i in range(200)]})",
        True,
    ),
    "nested repetitions": Case(
        "json_schema",
        "json.dumps({'type': 'string', 'pattern': '(((a{0,100}){0,100}){0,100}){0,100}'})",
    ),
    "many states": Case(
        "json_schema",
        "json.dumps({'type': 'string', 'pattern': '^(?:a|b)*a(?:a|b){30}$', 'minLength': 40})",
    ),
    "a long string": Case(
        "json_schema",
        "json.dumps({'type': 'string', 'minLength': 10000, 'maxLength': 1000000})",
        False,
    ),
    "long multiples": Case(
        "json_schema",
        "json.dumps({'type': 'integer', 'multipleOf': 99999937, 'minimum': 5})",
    ),
    "exclusive numbers": Case(
        "json_schema",
        "json.dumps({'oneOf': [{'const': i} for i in range(2000)]})",
        False,
    ),
    "exclusive objects": Case(
        "json_schema",
        "json.dumps({'oneOf': [{'properties': {'k': {'const': i}}, 'required': ['k'], 'type': 'object'} for i in range(100)]})",
        False,
    ),
    "digits": Case("json_schema", "'{\"minimum\":' + '9' * 5000 + '}'", True),
}
LARKS = {
    "brackets": Case("lark", "'start: ' + '(' * 70000 + '\"a\"' + ')' * 70000", True),
    "a deep schema": Case("lark", "'start: %json ' + '{\"items\":' * 900 + '{}' + '}' * 900", True),
    "half a schema": Case("lark", "'start: %json {\"items\":'", True),
}  # fmt: skip
CHILD = textwrap.dedent(
    """
    import json, random, resource, sys, threading, time
    from kinetic.errors import KineticError, RequestError
    from kinetic.types import ConstraintSpec
    from tests.support.bytewise import compiler, sample

    def used_mb():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    def run():
        made = compiler()
        made.prepare()
        for line in sys.stdin:
            kind, code = json.loads(line)
            source = eval(code)
            before = used_mb()
            start = time.process_time()
            try:
                if kind == "lark":
                    constraint = made.compile_lark(source, param="tools")
                else:
                    spec = ConstraintSpec(kind=kind, source=source, param="field")
                    constraint = made.compile(spec)
                verdict = "made"
            except RequestError as error:
                verdict = str(error)
            compiled_s = time.process_time() - start
            if verdict == "made":
                try:
                    sample(constraint, random.Random(1), most=60)
                except RequestError:
                    pass
            drawn_s = time.process_time() - start - compiled_s
            print(json.dumps([verdict, compiled_s, drawn_s, used_mb() - before]), flush=True)

    # As in the server: on a thread whose stack is the usual one.
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    """
)


@pytest.mark.parametrize(
    "cases", [GRAMMARS, SCHEMAS, LARKS], ids=["gbnf", "schema", "lark"]
)
def test_nothing_hurts_the_process(cases: dict[str, Case]):
    lines = "".join(f"{json.dumps([c.kind, c.source])}\n" for c in cases.values())
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=lines,
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
        cwd=ROOT,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    wrong: list[tuple[object, ...]] = []
    for (name, case), (verdict, compiled_s, drawn_s, mb) in zip(
        cases.items(), rows, strict=False
    ):
        print(
            f"{name:22} {compiled_s:5.2f} s {drawn_s:5.2f} s {mb:4} MB {verdict[:80]}"
        )
        if case.is_refused is not None and case.is_refused != (verdict != "made"):
            wrong.append((name, verdict))
        if compiled_s > LIMIT_S or drawn_s > LIMIT_S or mb > LIMIT_MB:
            wrong.append((name, compiled_s, drawn_s, mb))
        if verdict != "made" and not verdict.startswith(("field: ", "tools: ")):
            wrong.append((name, verdict))
    assert done.returncode == 0, f"ended behind {list(cases)[len(rows)]}: {done.stderr}"
    assert len(rows) == len(cases), f"ended at {list(cases)[len(rows)]}: {done.stderr}"
    assert wrong == []
