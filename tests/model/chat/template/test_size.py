"""Tools, variables and arguments of more values than a template is handed."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from kinetic.model.chat.template import size
from kinetic.model.chat.template.normalise import TemplateError
from kinetic.model.chat.template.template import ChatTemplate

USER = {"role": "user", "content": "Hi"}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(size, "MAX_VALUES", 100)


def tools(n):
    function = {"name": "f", "parameters": {"enum": [1] * n}}
    return [{"type": "function", "function": function}]


def called(n, *, as_text):
    given = {"x": {"y": [[1]] * (n // 2)}}
    function = {"name": "f", "arguments": json.dumps(given) if as_text else given}
    call = {"id": "a", "type": "function", "function": function}
    result = {"role": "tool", "tool_call_id": "a", "content": "ok"}
    return [USER, {"role": "assistant", "tool_calls": [call]}, result]


def refused(messages, **given):
    with pytest.raises(TemplateError, match="hold more than 100 values") as error:
        render(messages, **given)
    return error.value.param


def render(messages, **given):
    return ChatTemplate(None).render(messages, now=datetime.now(UTC), **given)


def test_what_fits_is_printed():
    assert render([USER], tools=tools(50)).text
    assert render([USER], kwargs={"x": [1] * 50}).text
    assert render(called(50, as_text=True)).text


def test_tools_of_too_many_values_are_refused():
    assert refused([USER], tools=tools(101)) == "tools"


@pytest.mark.parametrize("value", [[1] * 101, [[[]] * 60] * 2, {"a": {"b": [0] * 99}}])
def test_variables_of_too_many_values_are_refused(value):
    assert refused([USER], kwargs={"x": value}) == "chat_template_kwargs"


@pytest.mark.parametrize("as_text", [True, False])
def test_arguments_of_too_many_values_are_refused(as_text):
    assert refused(called(120, as_text=as_text)) == "messages"
