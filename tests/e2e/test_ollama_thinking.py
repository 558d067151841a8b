"""Thinking through Ollama's API: with and without a format, on a tiny model.

Its weights are random. Biases have it open and close think blocks as a real model would.
"""

import json

import httpx
import pytest

from tests.support import tiny_models
from tests.support.server import running_server

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
HI = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def thinker():
    """A model whose template knows thinking."""
    flags = ("-a", "thinker", "-np", "2", "-c", "512", "-t", "1", "--cache-disk", "0")
    with running_server(tiny_models.qwen3(), *flags) as process:
        yield process


@pytest.fixture(scope="module")
def biases(thinker):
    """Token ids of the tags and of a closing brace."""

    def token(text):
        body = {"content": text, "parse_special": True}
        answer = httpx.post(f"{thinker.root}/tokenize", json=body, timeout=30)
        (found,) = answer.json()["tokens"]
        return str(found)

    return {token("<think>"): 90, token("</think>"): 90, token("}"): 20}


def chat(thinker, biases, seed, **fields):
    options = {"seed": seed, "num_predict": 120, "logit_bias": biases}
    body = {"model": "thinker", "messages": HI, "options": options, **fields}
    answer = httpx.post(f"{thinker.root}/api/chat", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    lines = [json.loads(line) for line in answer.text.splitlines()]
    text = "".join(line["message"]["content"] for line in lines)
    thinking = "".join(line["message"].get("thinking", "") for line in lines)
    return text, thinking, lines[-1]["done_reason"]


def test_the_model_is_shown_as_one_that_thinks(thinker):
    body = {"model": "thinker"}
    shown = httpx.post(f"{thinker.root}/api/show", json=body, timeout=30).json()
    assert "thinking" in shown["capabilities"]


@pytest.mark.parametrize("fields", [{"think": True}, {}, {"think": "high"}])
@pytest.mark.parametrize("stream", [True, False])
def test_a_format_holds_the_answer_and_leaves_the_thoughts_free(
    thinker, biases, fields, stream
):
    thoughts = []
    for seed in range(40):
        text, thinking, reason = chat(
            thinker, biases, seed, format=SCHEMA, stream=stream, **fields
        )
        if reason == "stop":
            assert isinstance(json.loads(text)["n"], int)
            thoughts.append(thinking)
        if any(thoughts):
            return
    pytest.fail(f"no answer with thoughts among {len(thoughts)}")


@pytest.mark.parametrize("stream", [True, False])
def test_a_model_told_not_to_think_answers_in_the_format_at_once(
    thinker, biases, stream
):
    for seed in range(3):
        text, thinking, reason = chat(
            thinker, biases, seed, format=SCHEMA, think=False, stream=stream
        )
        assert reason == "stop"
        assert isinstance(json.loads(text)["n"], int)
        assert thinking == ""


def test_thoughts_come_apart_without_a_format_too(thinker, biases):
    for seed in range(40):
        text, thinking, _ = chat(thinker, biases, seed, think=True)
        assert "</think>" not in thinking
        if thinking and text:
            return
    pytest.fail("no answer with thoughts and text")


def test_a_stream_and_a_whole_answer_think_the_same(thinker, biases):
    for seed in range(4):
        streamed = chat(thinker, biases, seed, think=True)
        assert chat(thinker, biases, seed, think=True, stream=False) == streamed
