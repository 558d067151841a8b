"""Template variables that clients give, and templates that do harm."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kinetic.model.chat.template.normalise import TemplateError
from kinetic.model.chat.template.template import ChatTemplate

USER = [{"role": "user", "content": "Hi"}]


def test_thinking_is_passed_on_only_if_it_is_asked_for(render):
    probe = ChatTemplate(
        "{{ messages[0].content }}{{ enable_thinking is defined }}{{ thinking }}"
    )
    assert render(probe, USER).text == "HiFalse"
    assert render(probe, USER, kwargs={"enable_thinking": False}).text == "HiTrueFalse"
    both = {"enable_thinking": True, "thinking": "much"}
    assert render(probe, USER, kwargs=both).text == "HiTruemuch"


def test_effort_and_kept_reasoning_have_other_names_too(render):
    source = (
        "{{ messages[0].content }} {{ reasoning_effort }} {{ reasoning_strength }}"
        " {{ preserve_thinking }} {{ clear_thinking }}"
    )
    kwargs = {"reasoning_effort": "low", "preserve_reasoning": True}
    assert (
        render(ChatTemplate(source), USER, kwargs=kwargs).text
        == "Hi low low True False"
    )


def test_effort_reaches_the_templates_that_read_it(render):
    text = render("openai-gpt-oss-120b", USER, kwargs={"reasoning_effort": "high"}).text
    assert "Reasoning: high" in text


@pytest.mark.parametrize(
    "name",
    [
        *("messages", "tools", "functions", "add_generation_prompt", "bos_token"),
        *("eos_token", "raise_exception", "strftime_now", "range", "namespace", "dict"),
    ],
)
def test_what_the_server_sets_cannot_be_given(render, name):
    with pytest.raises(
        TemplateError, match=rf"^chat_template_kwargs\.{name} is"
    ) as error:
        render("Qwen-Qwen3-0.6B", USER, kwargs={name: "x"})
    assert error.value.param == "chat_template_kwargs"


@pytest.mark.parametrize("value", ["false", 1, [], "yes"])
def test_enable_thinking_is_true_or_false(render, value):
    with pytest.raises(TemplateError, match="enable_thinking must be true or false"):
        render("Qwen-Qwen3-0.6B", USER, kwargs={"enable_thinking": value})


def test_a_templates_own_refusal_is_shown(render):
    with pytest.raises(TemplateError, match="Unsupported thinking_effort=little"):
        render("Kimi-K3", USER, kwargs={"thinking_effort": "little"})


def test_the_date_is_the_one_that_is_given(render):
    text = render("meta-llama-Llama-3.2-3B-Instruct", USER).text
    assert "Today Date: 04 Mar 2026" in text
    later = datetime(2031, 12, 5, tzinfo=UTC)
    text = render("meta-llama-Llama-3.1-8B-Instruct", USER, now=later).text
    assert "Today Date: 05 Dec 2031" in text


def nested(depth):
    value: object = "x"
    for _ in range(depth):
        value = [value]
    return value


def deep_requests(depth):
    """Requests with a value `depth` levels deep in each of the places that take one."""
    value = nested(depth)
    schema = {"type": "object", "properties": {"a": {"enum": value}}}
    arguments = {"function": {"name": "x", "arguments": {"a": value}}}
    yield USER, {"tools": [{"function": {"name": "deep", "parameters": schema}}]}
    yield USER, {"kwargs": {"documents": value}}
    yield [{"role": "tool", "content": value}], {}
    yield [*USER, {"role": "assistant", "tool_calls": [arguments]}], {}


def test_values_not_too_deep_are_printed(render):
    for messages, more in deep_requests(60):
        assert render("Qwen-Qwen3-0.6B", messages, **more).text


def test_values_that_are_too_deep_are_refused(render):
    for messages, more in deep_requests(5_000):
        with pytest.raises(TemplateError, match="deep"):
            render("Qwen-Qwen3-0.6B", messages, **more)


@pytest.mark.parametrize(
    ("source", "refusal"),
    [
        ("{% for", "does not compile"),
        ("{{ x | nofilter }}", "does not compile: No filter named 'nofilter'"),
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
            "more work",
        ),
    ],
)
def test_a_template_that_cannot_work_is_refused_when_it_is_loaded(source, refusal):
    with pytest.raises(TemplateError, match=refusal):
        ChatTemplate(source)


@pytest.mark.parametrize(
    ("source", "refusal"),
    [
        ("{{ raise_exception('Not ' ~ messages[0].content) }}", "^Not Hi$"),
        ("{{ messages[0].nothing.more }}", "fails: 'dict object' has no attribute"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nests too deep"),
        ("{{ messages[0].content * 99999999 }}", "a text of more than"),
        ("{{ messages.__class__.__base__ }}", "unsafe"),
        ("{% include 'x' %}", "no loader"),
    ],
)
def test_a_template_that_fails_says_why(render, source, refusal):
    template = ChatTemplate(source)
    with pytest.raises(TemplateError, match=refusal) as error:
        render(template, USER)
    assert error.value.param == "messages"


def test_a_template_that_runs_away_only_sometimes_is_stopped_then(render):
    source = (
        "{% if messages|length > 2 %}{% for i in range(9999) %}{{ range(99999)|sum }}"
        "{% endfor %}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"
    )
    template = ChatTemplate(source)
    assert render(template, USER).text == "Hi"
    answer = {"role": "assistant", "content": "x"}
    with pytest.raises(TemplateError, match="more work"):
        render(template, [*USER, answer, *USER])


def test_what_a_template_is_given_stays_as_it_was(render):
    source = (
        "{% for m in messages %}{% set _ = m.update(content=m.content ~ '!') %}"
        "{{ m.content }}{% endfor %}{% if tools %}{{ tools.pop().function.name }}{% endif %}"
    )
    messages = [{"role": "user", "content": "Hi"}]
    tools = [{"function": {"name": "tool", "parameters": {}}}]
    template = ChatTemplate(source)
    for _ in range(2):
        assert render(template, messages, tools=tools).text == "Hi!tool"
    assert messages == [{"role": "user", "content": "Hi"}]
    assert tools == [{"function": {"name": "tool", "parameters": {}}}]
