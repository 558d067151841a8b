"""The official Ollama client against a real server, route by route."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import httpx
import ollama
import openai
import pytest

from tests.support.server import ServerProcess

pytestmark = pytest.mark.model

MODEL = "SmolLM2-135M-Instruct.Q4_1"
GREEDY = {"temperature": 0, "num_predict": 24}
SAMPLED = {"temperature": 0.9, "seed": 7, "num_predict": 32}
MESSAGES = [
    {"role": "system", "content": "You answer in one sentence."},
    {"role": "user", "content": "Name three rivers of Europe."},
]
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer"},
    },
    "required": ["name", "age"],
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
CALL = {
    "type": "object",
    "properties": {
        "name": {"const": "get_weather"},
        "arguments": {
            "type": "object",
            "properties": {"city": {"enum": ["Oslo", "Lima"]}},
            "required": ["city"],
        },
    },
    "required": ["name", "arguments"],
}
"""Held to this, the answer is a call in the form that is read from any model."""


@pytest.fixture
def client(server: ServerProcess):
    with ollama.Client(host=server.root, timeout=60) as client:
        yield client


@pytest.fixture
def openai_client(server: ServerProcess):
    with openai.OpenAI(base_url=server.base_url, api_key="x", timeout=60) as client:
        yield client


def post(server, path, body):
    return httpx.post(f"{server.root}{path}", json=body, timeout=60)


# --- Answers ------------------------------------------------------------------------


@pytest.mark.parametrize("options", [GREEDY, SAMPLED])
def test_a_stream_and_a_whole_answer_have_the_same_text_and_counts(client, options):
    whole = client.chat(MODEL, MESSAGES, options=options)
    parts = list(client.chat(MODEL, MESSAGES, options=options, stream=True))
    assert "".join(p.message.content for p in parts) == whole.message.content
    assert len([p for p in parts if p.message.content]) > 3
    assert [p.done for p in parts] == [False] * (len(parts) - 1) + [True]
    last = parts[-1]
    assert (last.prompt_eval_count, last.eval_count, last.done_reason) == (
        whole.prompt_eval_count,
        whole.eval_count,
        whole.done_reason,
    )


def test_the_same_conversation_through_openai_has_the_same_text_and_counts(
    openai_client, client
):
    theirs = openai_client.chat.completions.create(
        model="m",
        messages=MESSAGES,
        temperature=0.9,
        seed=7,
        max_tokens=32,
    )
    ours = client.chat(MODEL, MESSAGES, options=SAMPLED)
    assert ours.message.content == theirs.choices[0].message.content
    assert theirs.usage is not None
    assert ours.prompt_eval_count == theirs.usage.prompt_tokens
    assert ours.eval_count == theirs.usage.completion_tokens


def test_a_raw_prompt_is_continued_as_openais_completions_do(openai_client, client):
    prompt = "The capital of France is"
    theirs = openai_client.completions.create(
        model="m", prompt=prompt, temperature=0, max_tokens=12
    )
    ours = client.generate(
        MODEL, prompt, raw=True, options={**GREEDY, "num_predict": 12}
    )
    assert ours.response == theirs.choices[0].text
    assert theirs.usage is not None
    assert ours.prompt_eval_count == theirs.usage.prompt_tokens


def test_the_same_conversation_through_llama_servers_routes_has_the_same_text_and_counts(
    server, client
):
    prompt = post(server, "/apply-template", {"messages": MESSAGES}).json()["prompt"]
    body = {"prompt": prompt, "temperature": 0.9, "seed": 7, "n_predict": 32}
    theirs = post(server, "/completion", body).json()
    ours = client.chat(MODEL, MESSAGES, options=SAMPLED)
    assert ours.message.content == theirs["content"]
    assert ours.eval_count == theirs["tokens_predicted"]
    assert ours.prompt_eval_count == theirs["tokens_evaluated"]


def test_generate_is_a_chat_of_one_message(client):
    system, user = (m["content"] for m in MESSAGES)
    asked = client.generate(MODEL, user, system=system, options=GREEDY)
    parts = client.generate(MODEL, user, system=system, options=GREEDY, stream=True)
    chatted = client.chat(MODEL, MESSAGES, options=GREEDY)
    assert asked.response == chatted.message.content
    assert "".join(p.response for p in parts) == asked.response


def test_the_async_client_streams_and_waits(server):
    async def story():
        async with ollama.AsyncClient(host=server.root, timeout=60) as client:
            return await talk(client)

    async def talk(client):
        whole = await client.chat(MODEL, MESSAGES, options=GREEDY)
        parts = [
            p
            async for p in await client.chat(
                MODEL, MESSAGES, options=GREEDY, stream=True
            )
        ]
        generated = [
            p
            async for p in await client.generate(
                MODEL, "Hi", options=GREEDY, stream=True
            )
        ]
        models = await client.list()
        return whole, parts, generated, models

    whole, parts, generated, models = asyncio.run(story())
    assert "".join(p.message.content for p in parts) == whole.message.content
    assert generated[-1].done
    assert models.models[0].model == f"{MODEL}:latest"


def test_counts_are_whole_when_the_prompt_was_run_before(client):
    first = client.chat(MODEL, MESSAGES, options=GREEDY)
    second = client.chat(MODEL, MESSAGES, options=GREEDY)
    assert first.prompt_eval_count == second.prompt_eval_count
    assert second.prompt_eval_count > 20
    assert first.message.content == second.message.content
    for answer in (first, second):
        times = [
            answer.total_duration,
            answer.load_duration,
            answer.prompt_eval_duration,
            answer.eval_duration,
        ]
        assert all(isinstance(t, int) and t >= 0 for t in times)
        assert answer.total_duration == sum(times[1:])
        # Nanoseconds: a token takes more than ten microseconds, and less than ten seconds.
        assert 10_000 < answer.eval_duration / answer.eval_count < 10**10


def test_an_answer_alone_is_the_answer_among_others(client):
    alone = client.chat(MODEL, MESSAGES, options=SAMPLED).message.content

    def ask(i):
        if i % 2:
            return client.chat(MODEL, MESSAGES, options=SAMPLED).message.content
        client.generate(MODEL, f"Count to {i}", options={"seed": i, "num_predict": 24})
        return None

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(ask, range(6)))
    assert [a for a in answers if a is not None] == [alone] * 3


@pytest.mark.parametrize(
    ("limit", "reason"), [(0, "length"), (1, "length"), (5, "length")]
)
def test_num_predict_is_the_number_of_tokens(client, limit, reason):
    answer = client.generate(
        MODEL, "Count", options={"temperature": 0, "num_predict": limit}
    )
    assert (answer.eval_count, answer.done_reason) == (limit, reason)
    assert (answer.response == "") is (limit == 0)


def test_a_stop_string_ends_the_answer_before_it(client):
    whole = client.chat(MODEL, MESSAGES, options=GREEDY).message.content
    word = whole.split()[3]
    for stop in ([word], word):
        answer = client.chat(MODEL, MESSAGES, options={**GREEDY, "stop": stop})
        assert answer.message.content == whole[: whole.index(word)]
        assert answer.done_reason == "stop"
    ended = client.chat(
        MODEL, MESSAGES, options={"temperature": 0, "num_predict": 300, "stop": []}
    )
    assert "<|im_end|>" not in ended.message.content
    assert ended.done_reason == "stop"


def test_log_probabilities_come_with_their_tokens(client):
    options = {"temperature": 0, "num_predict": 8}
    whole = client.chat(MODEL, MESSAGES, options=options, logprobs=True, top_logprobs=3)
    assert len(whole.logprobs) == 8
    assert "".join(entry.token for entry in whole.logprobs) == whole.message.content
    assert all(len(entry.top_logprobs) == 3 for entry in whole.logprobs)
    assert all(
        entry.logprob == entry.top_logprobs[0].logprob for entry in whole.logprobs
    )
    parts = client.chat(
        MODEL, MESSAGES, options=options, logprobs=True, top_logprobs=3, stream=True
    )
    streamed = [entry for part in parts for entry in part.logprobs or ()]
    assert streamed == list(whole.logprobs)


# --- Formats and tools --------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_schema_holds_the_answer(client, stream):
    answer = client.chat(
        MODEL,
        MESSAGES,
        format=PERSON,
        stream=stream,
        options={"seed": 1, "num_predict": 120},
    )
    text = (
        "".join(p.message.content for p in answer) if stream else answer.message.content
    )
    found = json.loads(text)
    assert list(found) == ["name", "age"]
    assert isinstance(found["age"], int)


def test_json_and_a_raw_prompt_can_be_asked_for_too(client):
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
    }
    answer = client.generate(
        MODEL, "n =", raw=True, format=schema, options={"seed": 3, "num_predict": 120}
    )
    assert isinstance(json.loads(answer.response)["n"], int)
    answer = client.chat(
        MODEL, MESSAGES, format="json", options={"temperature": 0, "num_predict": 200}
    )
    if answer.done_reason == "stop":
        json.loads(answer.message.content)
    else:
        assert answer.eval_count == 200


@pytest.mark.parametrize(
    "given",
    ["yaml", {"type": "nope"}, {"type": "object", "pattern": 5, "properties": 7}],
)
def test_a_format_that_cannot_be_held_is_a_400_before_any_text(server, given):
    for stream in (True, False):
        answer = post(
            server,
            "/api/chat",
            {"model": MODEL, "messages": MESSAGES, "format": given, "stream": stream},
        )
        assert answer.status_code == 400
        assert "format" in answer.json()["error"]


def test_a_call_comes_as_an_object_before_the_last_line(client):
    asked = [{"role": "user", "content": "What is the weather in Oslo?"}]
    options = {"temperature": 0, "num_predict": 120}
    whole = client.chat(MODEL, asked, tools=[WEATHER], format=CALL, options=options)
    assert whole.message.content == ""
    assert whole.done_reason == "stop"
    (call,) = whole.message.tool_calls
    assert call.function.name == "get_weather"
    assert call.function.arguments["city"] in {"Oslo", "Lima"}
    *parts, last = client.chat(
        MODEL, asked, tools=[WEATHER], format=CALL, options=options, stream=True
    )
    streamed = [c for p in parts for c in p.message.tool_calls or ()]
    assert [c.function for c in streamed] == [call.function]
    assert "".join(p.message.content for p in parts) == ""
    assert (last.done, last.done_reason, last.message.tool_calls) == (
        True,
        "stop",
        None,
    )
    asked += [
        whole.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_name": "get_weather", "content": "sunny, 18 degrees"},
    ]
    assert client.chat(MODEL, asked, tools=[WEATHER], options=GREEDY).message.content


def test_text_streams_piece_by_piece_though_there_are_tools(client):
    parts = list(
        client.chat(
            MODEL,
            [{"role": "user", "content": "Write two sentences about the sea."}],
            tools=[WEATHER],
            options={"temperature": 0, "num_predict": 40},
            stream=True,
        )
    )
    texts = [p.message.content for p in parts if p.message.content]
    calls = [p for p in parts if p.message.tool_calls]
    assert len(texts) > 10 or calls


# --- Load, unload and what is told --------------------------------------------------


def test_nothing_to_say_loads_and_unloads_and_the_server_goes_on(client):
    assert client.generate(MODEL).done_reason == "load"
    assert client.chat(MODEL, []).done_reason == "load"
    assert client.generate(MODEL, keep_alive=0).done_reason == "unload"
    assert client.generate(MODEL, "Hi", keep_alive="0s", options=GREEDY).response


def test_the_model_is_listed_loaded_and_shown(server, client, smollm2_path):
    digest = hashlib.sha256(smollm2_path.read_bytes()).hexdigest()
    pause = threading.Event()
    for _ in range(60):
        (listed,) = client.list().models
        if listed.digest != "0" * 64:
            break
        pause.wait(0.25)
    assert listed.digest == digest
    assert listed.model == f"{MODEL}:latest"
    assert listed.size == smollm2_path.stat().st_size
    assert listed.details.quantization_level == "Q4_1"
    assert listed.details.parameter_size == "134.52M"
    (loaded,) = client.ps().models
    assert loaded.digest == digest
    assert loaded.expires_at > datetime.now(UTC)
    assert loaded.context_length == 2048
    shown = client.show(MODEL)
    assert shown.capabilities[:2] == ["completion", "tools"]
    assert shown.modelinfo["llama.context_length"] == 8192
    assert shown.modelinfo["general.parameter_count"] == 134_515_008
    assert shown.modelinfo["tokenizer.ggml.tokens"] == []
    assert "<|im_start|>" in shown.template
    verbose = post(server, "/api/show", {"model": MODEL, "verbose": True}).json()
    assert len(verbose["model_info"]["tokenizer.ggml.tokens"]) == 49152
    version = httpx.get(f"{server.root}/api/version", timeout=5).json()["version"]
    assert all(part.isdigit() for part in version.split("."))


# --- Errors -------------------------------------------------------------------------


def test_the_client_understands_every_refusal(client):
    with pytest.raises(ollama.ResponseError, match="model 'nope' not found") as error:
        client.chat("nope", MESSAGES)
    assert error.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="does not support embeddings"):
        client.embed(MODEL, "x")
    with pytest.raises(ollama.ResponseError, match="does not support embeddings"):
        client.embeddings(MODEL, "x")
    with pytest.raises(ollama.ResponseError, match="does not support thinking"):
        client.chat(MODEL, MESSAGES, think=True)
    assert client.pull(MODEL).status == "success"
    assert [part.status for part in client.pull(MODEL, stream=True)][-1] == "success"
    for call in (
        lambda: client.pull("other"),
        lambda: list(client.pull("other", stream=True)),
        lambda: client.push("other"),
        lambda: client.create("other", from_=MODEL),
        lambda: client.copy(MODEL, "other"),
        lambda: client.delete(MODEL),
    ):
        with pytest.raises(ollama.ResponseError, match="manages no models") as error:
            call()
        assert error.value.status_code == 403


@pytest.mark.parametrize("stream", [True, False])
def test_a_prompt_that_is_too_long_is_a_400_with_both_numbers(server, stream):
    asked = [{"role": "user", "content": "word " * 3000}]
    body = {
        "model": MODEL,
        "messages": asked,
        "stream": stream,
        "options": {"num_ctx": 8192},
    }
    answer = post(server, "/api/chat", body)
    assert answer.status_code == 400
    assert "2048" in answer.json()["error"]
    raw = {"model": MODEL, "prompt": "word " * 3000, "raw": True, "stream": stream}
    assert post(server, "/api/generate", raw).status_code == 400


def test_a_reader_that_leaves_frees_its_slot(server):
    body = {
        "model": MODEL,
        "prompt": "Count for ever",
        "options": {"num_predict": -2, "logit_bias": {"2": -100}},
    }
    with httpx.stream(
        "POST", f"{server.root}/api/generate", json=body, timeout=60
    ) as answer:
        assert next(answer.iter_lines())
    server.wait_until_idle()
