"""A template can neither escape nor run or grow without end."""

from __future__ import annotations

import json
import threading

import pytest

from kinetic.model.chat.template.metering import MAX_CHARS, Fault, OutOfSteps
from kinetic.model.chat.template.sandbox import MAX_MESSAGE_CHARS, Sandbox
from tests.model.chat.conftest import NOW

FEW_STEPS = 300_000


def run(source, **variables):
    return Sandbox(source).render(variables, now=NOW, max_steps=FEW_STEPS)


TWICE = "{% set ns = namespace(s=['ab']) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}"
GROW = "{% set ns = namespace(s='ab') %}{% for i in range(60) %}"


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) if j < 0 %}x{% endfor %}{% endfor %}",
        "{% for i in range(999) %}{{ range(99999)|sum }}{% endfor %}",
        "{% for i in range(999) %}{{ range(99999)|list|length }}{% endfor %}",
        "{% for i in range(999) %}{{ range(99999)|map('string')|join|length }}{% endfor %}",
        "{% for x in range(999) recursive %}{{ loop(range(999)) if loop.depth < 3 }}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(99) }}",
        "{% macro f() %}{% for i in range(99999) %}{{ caller() }}{% endfor %}{% endmacro %}{% call f() %}x{% endcall %}",
        TWICE + "{{ ns.s }}",
        TWICE + "{{ ns.s|tojson }}",
        TWICE + "{{ ns.s|string|length }}",
        TWICE + "{{ 'a' ~ ns.s }}",
        TWICE + "{{ [ns.s]|join }}",
        TWICE + "{{ '%s' % ns.s }}",
        TWICE + "{{ '{}'.format(ns.s) }}",
        "{% set x = [] %}{% set _ = x.append(x) %}{{ x }}",
    ],
)
def test_work_without_end_is_stopped(source):
    with pytest.raises(OutOfSteps, match="more work"):
        run(source)


@pytest.mark.parametrize(
    ("source", "refusal"),
    [
        ("{% for i in range(10**12) %}{% endfor %}", "Range too big"),
        ("{{ 'a' * 10**10 }}", "a text of more"),
        ("{{ 10**10 * 'a' }}", "a text of more"),
        ("{{ [0] * 10**10 }}", "a list of more"),
        (GROW + "{% set ns.s = ns.s + ns.s %}{% endfor %}", "a text of more"),
        (GROW + "{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "a text of more"),
        (
            GROW + "{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}{% endfor %}",
            "a text of more",
        ),
        (
            "{% set x = ['a'] %}{% for i in range(60) %}{% set _ = x.extend(x) %}{% endfor %}",
            "a list of more",
        ),
        (
            "{% set ns = namespace(n=[1]) %}{% for i in range(60) %}{% set ns.n = ns.n + ns.n %}{% endfor %}",
            "a list of more",
        ),
        ("{{ 2 ** (10**9) }}", "a number of more"),
        (
            "{% set ns = namespace(n=10) %}{% for i in range(60) %}{% set ns.n = ns.n * ns.n %}{% endfor %}",
            "a number of more",
        ),
        ("{{ '%9999999999d' % 3 }}", "formats with"),
        ("{{ '%*d' % (9999999999, 3) }}", "formats with"),
        ("{{ '%9999999999d'|format(3) }}", "formats with"),
        ("{{ '{:9999999999}'.format(3) }}", "formats with"),
        ("{{ '{:{}}'.format(3, 9999999999) }}", "formats with"),
        ("{{ 'a'|indent(9999999999) }}", "pads by more"),
        ("{{ [1]|tojson(indent=9999999999) }}", "pads by more"),
        ("{{ 'a'.center(9999999999) }}", "unsafe"),
        ("{{ 'a'.zfill(9999999999) }}", "unsafe"),
        ("{{ (1).to_bytes(9999999999, 'big') }}", "unsafe"),
        ("{{ 'a'|center(9999999999) }}", "'center', which is not supported"),
        ("{{ [1]|batch(9999999999, 0)|list }}", "'batch', which is not supported"),
        ("{{ [1, 2]|random }}", "'random', which is not supported"),
        ("{{ ('a' * 999).replace('', 'b' * 99999) }}", "a text of more"),
        ("{{ ('a' * 999)|replace('a', 'b' * 99999) }}", "a text of more"),
        ("{{ ('b' * 99999).join(range(999)) }}", "a text of more"),
        ("{{ range(999)|join('b' * 99999) }}", "a text of more"),
        ("{% for i in range(9999) %}{{ 'abcdefghij' * 999 }}{% endfor %}", "a text of"),
        ("{{ lipsum(99) }}", "undefined"),
        ("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", "prints a namespace"),
        ("{% set ns = namespace() %}{{ {'a': ns}|tojson }}", "prints a namespace"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nests too deep"),
    ],
)
def test_growth_without_end_is_refused(source, refusal):
    with pytest.raises(Fault, match=refusal):
        Sandbox(source).render({}, now=NOW, max_steps=20_000_000)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ [].__class__.__base__.__subclasses__() }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ namespace.__init__ }}",
        "{{ ''|attr('__class__')|attr('__mro__') }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{% include 'x' %}",
        "{% import 'x' as x %}",
        "{% extends 'x' %}",
    ],
)
def test_nothing_outside_can_be_reached(source):
    try:
        printed = run(source)
    except Fault:
        return
    assert not printed


def test_functions_show_nothing_of_themselves():
    names = ("raise_exception", "strftime_now")
    for name in names:
        assert run(f"{{{{ {name}.__globals__ }}}}{{{{ {name}.__code__ }}}}") == ""


@pytest.mark.parametrize(
    ("source", "printed"),
    [
        ("{{ x|tojson }}", '{"b": "<é & \'>", "a": [1, null]}'),
        ("{{ 'a<' + x|tojson }}", 'a<{"b": "<é & \'>", "a": [1, null]}'),
        (
            "{{ x|tojson(ensure_ascii=true) }}",
            '{"b": "<\\u00e9 & \'>", "a": [1, null]}',
        ),
        ("{{ x|tojson(sort_keys=true) }}", '{"a": [1, null], "b": "<é & \'>"}'),
        ("{{ x.a|tojson(separators=(',', ':')) }}", "[1,null]"),
        ("{{ x.a|tojson(indent=2) }}", "[\n  1,\n  null\n]"),
        ("{{ x.a|map('string')|tojson }}", '["1", "None"]'),
        ("{{ nothing|tojson }}", "null"),
        ("{{ ('<' ~ '&')|safe ~ '>' }}", "<&>"),
        ("{{ '<'|e ~ '<' }}", "&lt;<"),
        ("{{ '{\"a\": 1}'|from_json }}", "{'a': 1}"),
        ("{{ strftime_now('%d %b %Y') }}", "04 Mar 2026"),
        ("{% generation %}a{{ 1 }}{% endgeneration %}b", "a1b"),
        (
            "{% for i in range(9) %}{% if i > 2 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "012",
        ),
        (
            "{% for i in 'abc' %}{{ loop.index }}/{{ loop.length }}{{ ',' if not loop.last }}{% endfor %}",
            "1/3,2/3,3/3",
        ),
        (
            "{% for i in [] %}x{% else %}none{% endfor %}{% for i in nothing %}x{% endfor %}",
            "none",
        ),
        (
            "{% for i in [3, 1]|map('string') %}{{ loop.length }}{{ i }}{% endfor %}",
            "2321",
        ),
        (
            "{% for x in [1, [2, [3]]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}",
            "123",
        ),
        (
            "{% macro m(a) %}{{ a }}{{ caller() }}{% endmacro %}{% call m(1) %}2{% endcall %}",
            "12",
        ),
        (
            "{% set l = [] %}{% set _ = l.append(1) %}{% set _ = l.extend((2,)) %}{{ l + [3] }}",
            "[1, 2, 3]",
        ),
        ("  {% if true %}\n  a\n  {% endif %}\n", "  a\n"),
        (
            "{{ '%s-%03d' % ('a', 7) }}{{ '%s'|format(1) }}{{ '{:>3}'.format(1) }}",
            "a-0071  1",
        ),
        ("{{ 7 % 4 }}{{ 2 ** 3 }}{{ 2 * 3 }}{{ 1 + 1.5 }}{{ 'a' * 2 }}", "3862.5aa"),
        ("{{ 'a-b'.replace('-', '+') }}{{ 'aa'|replace('a', 'b', 1) }}", "a+bba"),
        (
            "{{ [{'n': 1}, {'n': 2}]|join('+', attribute='n') }}{{ ', '.join(['a', 'b']) }}",
            "1+2a, b",
        ),
        ("{{ 'a\nb'|indent(2, true) }}", "  a\n  b"),
    ],
)
def test_templates_are_printed_as_they_are_meant(source, printed):
    assert run(source, x={"b": "<é & '>", "a": [1, None]}) == printed


def test_ordinary_work_is_far_from_the_limits(templates_dir):
    messages = [
        {"role": role, "content": "word " * 40}
        for _ in range(250)
        for role in ("user", "assistant")
    ]
    for name in ("Qwen3.5-4B", "meta-llama-Llama-3.1-8B-Instruct", "LFM2.5-8B-A1B"):
        source = (templates_dir / f"{name}.jinja").read_text(encoding="utf-8")
        variables = {"messages": messages, "bos_token": "", "eos_token": ""}
        text = Sandbox(source).render(variables, now=NOW, max_steps=1_000_000)
        assert len(text) < MAX_CHARS / 100


def test_a_templates_own_message_is_shown_but_not_at_any_length():
    with pytest.raises(Fault, match=r"^no$"):
        run("{{ raise_exception('no') }}")
    with pytest.raises(Fault) as long:
        run("{{ raise_exception('no' * 9999) }}")
    assert len(str(long.value)) == MAX_MESSAGE_CHARS + 2


def test_variables_stay_as_they_were():
    variables = {"a": [1], "b": {"c": 2}}
    before = json.dumps(variables)
    assert run("{{ a.pop() }}{{ b.pop('c') }}", **variables) == "12"
    assert json.dumps(variables) == before


def test_threads_do_not_share_their_budgets():
    sandbox = Sandbox("{% for i in range(9999) %}{{ i }}{% endfor %}")
    printed = []

    def render():
        printed.append(sandbox.render({}, now=NOW, max_steps=200_000))

    threads = [threading.Thread(target=render) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert len(printed) == 4
    assert len(set(printed)) == 1
