"""The official OpenAI client against the real process."""

import asyncio

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

HI = [{"role": "user", "content": "Name three rivers."}]


@pytest.fixture
def client(server):
    with OpenAI(
        base_url=server.base_url, api_key="any", max_retries=0, timeout=50
    ) as opened:
        yield opened


def ask(client, **more):
    return client.chat.completions.create(
        model="any", messages=HI, **{"max_tokens": 12, "temperature": 0, **more}
    )


def test_models_are_listed_and_found(client):
    (model,) = client.models.list().data
    assert model.owned_by == "kinetic"
    assert client.models.retrieve(model.id).id == model.id
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4")


def test_a_chat_is_answered_whole_and_streamed_alike(client):
    whole = ask(client)
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens == 12
    assert chunks[0].choices[0].delta.role == "assistant"
    assert whole.usage.prompt_tokens_details.cached_tokens >= 0


def test_the_clients_own_stream_helper_sees_one_whole_message(client):
    hi = [{"role": "user", "content": "Hi"}]
    with client.chat.completions.stream(
        model="any", messages=hi, temperature=0
    ) as events:
        final = events.get_final_completion()
    whole = client.chat.completions.create(model="any", messages=hi, temperature=0)
    assert final.choices[0].message.content == whole.choices[0].message.content


def test_log_probabilities_and_choices_are_typed(client):
    found = ask(client, n=2, logprobs=True, top_logprobs=2, temperature=1, seed=1)
    assert [choice.index for choice in found.choices] == [0, 1]
    for choice in found.choices:
        for entry in choice.logprobs.content:
            assert entry.logprob <= 0
            assert len(entry.top_logprobs) == 2


def test_completions_echo_and_score(client):
    found = client.completions.create(
        model="any", prompt="The sky is blue", max_tokens=0, echo=True, logprobs=1
    )
    assert found.choices[0].text == "The sky is blue"
    assert found.choices[0].logprobs.token_logprobs[0] is None


def test_completions_stream(client):
    whole = client.completions.create(
        model="any", prompt="One, two,", max_tokens=8, temperature=0
    )
    parts = client.completions.create(
        model="any", prompt="One, two,", max_tokens=8, temperature=0, stream=True
    )
    assert "".join(part.choices[0].text for part in parts) == whole.choices[0].text


def test_a_raw_response_has_its_headers(client):
    raw = client.chat.completions.with_raw_response.create(
        model="any", messages=HI, max_tokens=1
    )
    assert raw.headers["content-type"].startswith("application/json")
    assert raw.parse().object == "chat.completion"


def test_errors_are_the_clients_own_kinds(client):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, temperature=101)
    assert refused.value.param == "temperature"
    assert "101" in refused.value.message
    with pytest.raises(openai.BadRequestError) as too_long:
        client.completions.create(model="any", prompt="word " * 3000)
    assert too_long.value.code == "context_length_exceeded"


def test_extra_fields_reach_the_samplers(client):
    found = ask(
        client,
        extra_body={"top_k": 1, "min_p": 0.1, "repeat_penalty": 1.1, "mirostat": 0},
        temperature=1,
    )
    assert found.choices[0].message.content


def test_tools_are_taken(client):
    tool = {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
            "strict": True,
        },
    }
    found = ask(client, tools=[tool], tool_choice="auto", max_tokens=4)
    assert found.choices[0].finish_reason in {"length", "stop", "tool_calls"}


def test_the_async_client_runs_many_at_once_and_each_is_what_it_is_alone(
    server, client
):
    prompts = [f"Count from {i}:" for i in range(8)]

    async def one(opened, prompt):
        parts = await opened.completions.create(
            model="any", prompt=prompt, max_tokens=10, temperature=0, stream=True
        )
        return "".join([part.choices[0].text async for part in parts])

    async def everyone():
        async with AsyncOpenAI(
            base_url=server.base_url, api_key="any", max_retries=0, timeout=50
        ) as opened:
            return await asyncio.gather(*(one(opened, prompt) for prompt in prompts))

    together = asyncio.run(everyone())
    alone = [
        client.completions.create(model="any", prompt=p, max_tokens=10, temperature=0)
        .choices[0]
        .text
        for p in prompts
    ]
    assert together == alone


def test_leaving_a_stream_early_frees_its_slot(server, client):
    parts = client.completions.create(
        model="any",
        prompt="Once upon a time",
        max_tokens=2000,
        temperature=0,
        stream=True,
    )
    next(iter(parts))
    parts.close()
    server.wait_until_idle()
