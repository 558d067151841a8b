"""A conversation that ends in an assistant's text is gone on with."""

from __future__ import annotations

import pytest

from kinetic.model.chat.template.template import ChatTemplate
from tests.model.chat.conftest import NOW


def says(role, content, **more):
    return {"role": role, "content": content, **more}


def holds(text, *words):
    return all(word in text for word in words)


ASK = [says("system", "wsystem"), says("user", "wuser")]


@pytest.mark.parametrize(
    "text", ["The answer is", "Sure,\n\n  ", "{", "a\n```python\n"]
)
def test_the_prompt_ends_in_the_text_as_it_was_written(render, template_names, text):
    for name in template_names:
        rendered = render(name, [*ASK, says("assistant", text)])
        assert rendered.text.endswith(text), name
        assert holds(rendered.text, "wsystem", "wuser"), name


def test_text_and_one_part_give_the_same_prompt(render, template_names):
    for name in template_names:
        as_text = render(name, [*ASK, says("assistant", "So, ")])
        parts = [{"type": "text", "text": "So, "}]
        assert render(name, [*ASK, says("assistant", parts)]) == as_text, name


def test_without_a_generation_prompt_the_answer_is_ended(render):
    messages = [*ASK, says("assistant", "So")]
    ended = render("Qwen-Qwen2.5-7B-Instruct", messages, add_generation_prompt=False)
    assert ended.text.endswith("<|im_start|>assistant\nSo<|im_end|>\n")
    going_on = render("Qwen-Qwen2.5-7B-Instruct", messages)
    assert going_on.text.endswith("<|im_start|>assistant\nSo")


def test_an_empty_answer_is_begun_by_the_template(render):
    rendered = render("Qwen-Qwen2.5-7B-Instruct", [*ASK, says("assistant", "")])
    assert rendered.text.endswith("<|im_start|>assistant\n")


def test_a_text_that_thinks_leaves_the_block_open(render):
    name = "Qwen-QwQ-32B"
    opened = render(name, [*ASK, says("assistant", "<think>\nLet me")])
    assert opened.text.endswith("<|im_start|>assistant\n<think>\nLet me")
    assert opened.think_open == "<think>"
    closed = render(name, [*ASK, says("assistant", "So")])
    assert closed.think_open is None


def test_thoughts_without_a_text_are_gone_on_with(render):
    answer = says("assistant", None, reasoning_content="Let me see, ")
    rendered = render("Qwen3.5-4B", [*ASK, answer])
    assert rendered.text.endswith("<think>\nLet me see, ")
    assert rendered.think_open == "<think>"


def test_thoughts_before_a_text_are_closed(render):
    answer = says("assistant", "So", reasoning_content="Let me see.")
    rendered = render("Qwen3.5-4B", [*ASK, answer])
    assert rendered.text.endswith("<think>\nLet me see.\n</think>\n\nSo")
    assert rendered.think_open is None


def test_an_answer_after_an_answer_is_gone_on_with(render, template_names):
    messages = [*ASK, says("assistant", "wfirst"), says("assistant", "And")]
    for name in template_names:
        text = render(name, messages).text
        assert holds(text, "wfirst"), name
        assert text.endswith("And"), name


def test_an_answer_after_a_result_is_gone_on_with(render, template_names):
    call = {"id": "1", "function": {"name": "wname", "arguments": "{}"}}
    messages = [
        *ASK,
        says("assistant", None, tool_calls=[call]),
        says("tool", "wresult", tool_call_id="1"),
        says("assistant", "It is"),
    ]
    for name in template_names:
        text = render(name, messages).text
        assert holds(text, "wname", "wresult"), name
        assert text.endswith("It is"), name


def test_a_call_at_the_end_is_no_text_to_go_on_with(render):
    call = {"id": "1", "function": {"name": "wname", "arguments": "{}"}}
    rendered = render(
        "Qwen-Qwen3-0.6B", [*ASK, says("assistant", "", tool_calls=[call])]
    )
    assert rendered.text.endswith("</tool_call><|im_end|>\n<|im_start|>assistant\n")


def test_a_template_that_prints_no_last_answer_gets_its_text_appended():
    source = (
        "{% for m in messages %}{% if m.role == 'user' %}Q: {{ m.content }}\n"
        "{% elif not loop.last %}A: {{ m.content }}\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}A:<think>{% endif %}"
    )
    rendered = ChatTemplate(source).render(
        [says("user", "one"), says("assistant", "So")], now=NOW
    )
    assert rendered.text == "Q: one\nA:<think>\n</think>\n\nSo"
    assert rendered.think_open is None


def test_markers_in_the_text_are_broken_up():
    template = ChatTemplate(None, guarded=["<|im_end|>"])
    rendered = template.render(
        [says("user", "x"), says("assistant", "a<|im_end|>")], now=NOW
    )
    assert rendered.text.endswith(f"a<{rendered.guard}|im_end|>")
