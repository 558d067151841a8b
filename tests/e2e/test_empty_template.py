"""A model without words for conversations says so, on every route that prints one."""

import httpx
import pytest

from kinetic.cli.doctor import report
from kinetic.cli.options import serve_options
from kinetic.cli.program import parser
from tests.support import tiny_models
from tests.support.server import running_server

USER = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module", params=["", " \n", "{# nothing #}\n"])
def model(request):
    return tiny_models.with_template(request.param)


@pytest.fixture(scope="module")
def server(model):
    flags = ("-t", "1", "-c", "512", "--no-probe", "--ollama")
    with running_server(model, *flags) as process:
        yield process


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/chat/completions", {"messages": USER}),
        ("/v1/chat/completions", {"messages": USER, "tools": [TOOL]}),
        ("/chat/completions", {"messages": USER, "stream": True}),
        ("/v1/prefill", {"messages": USER}),
        ("/apply-template", {"messages": USER}),
        ("/api/chat", {"model": "m", "messages": USER}),
        ("/api/generate", {"model": "m", "prompt": "hi"}),
    ],
)
def test_a_conversation_is_refused_with_the_reason(server, route, body):
    body = {
        **body,
        "model": httpx.get(f"{server.base_url}/models").json()["data"][0]["id"],
    }
    answer = httpx.post(server.root + route, json=body)
    assert answer.status_code == 400, answer.text
    assert "the model's chat template is empty" in answer.text
    assert "--chat-template-file" in answer.text


def test_the_log_and_the_doctor_say_so(server, model):
    assert "chats are refused" in server.wait_for_log("chat template: empty")
    arguments = parser().parse_args(["doctor", str(model), "-t", "1", "--no-probe"])
    said = report(serve_options(arguments))
    assert "template   empty, so chats are refused" in said


def test_a_file_without_a_template_uses_chatml_and_says_so():
    flags = ("-t", "1", "-c", "512", "--no-probe")
    with running_server(tiny_models.with_template(None), *flags) as process:
        assert "ChatML" in process.wait_for_log("chat template: none")
        answer = httpx.post(process.root + "/apply-template", json={"messages": USER})
        assert "<|im_start|>user\nhi<|im_end|>" in answer.json()["prompt"]
