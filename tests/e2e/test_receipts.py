"""Receipts of the real process, in every API, proven by the real command."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import ollama
import openai
import pytest

from kinetic.config import BenchOptions
from kinetic.proof.bench import ModelBench
from kinetic.receipts import reading, signing
from kinetic.receipts.verify import Outcome, Pin, verify
from tests.support.openai_http import CHAT, TEXT, answer, refusal, stream
from tests.support.server import running_server

# The first test waits for a server and for everybody's answers.
pytestmark = pytest.mark.timeout(180)

LIMIT_S = 50.0
MODEL = "SmolLM2-135M-Instruct.Q4_1"
HI: list[Any] = [{"role": "user", "content": "Name three rivers."}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 12}},
                "required": ["city"],
            },
        },
    }
]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"enum": ["Ann", "Bo"]},
        "age": {"maximum": 9, "type": "integer"},
    },
    "required": ["name", "age"],
}


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "key"
    signing.generate(path)
    return path


@pytest.fixture(scope="module")
def signed(smollm2_path, key, tmp_path_factory):
    """A server that signs."""
    states = str(tmp_path_factory.mktemp("states"))
    flags = ("-np", "3", "-c", "1024", "-t", "1", "--cache-dir", states)
    with running_server(smollm2_path, *flags, "--sign-key", str(key)) as process:
        yield process


@pytest.fixture(scope="module")
def bench(smollm2_path):
    options = BenchOptions(model=smollm2_path, n_threads=1, show_progress=False)
    with ModelBench(options) as found:
        yield found


@pytest.fixture
def prove(bench, key):
    """Asserts that every receipt in a body is proven, and gives them back."""
    pin = Pin(public_key=signing.load(key).public_key)

    def check(content, n=1):
        found = reading.receipts_in(content)
        assert len(found) == n
        for receipt in found:
            report = verify(receipt, bench, pin=pin)
            assert report.outcome is Outcome.PROVEN, report.steps
        return found

    return check


def ask(server, path, **body):
    response = httpx.post(server.root + path, json=body, timeout=LIMIT_S)
    assert response.status_code == 200, response.text
    return response.content


SHORT = {"max_tokens": 16, "receipt": True}
BODIES = {
    "chat": (CHAT, {"messages": HI, "temperature": 0.8, "seed": 42, **SHORT}),
    "completion": (TEXT, {"prompt": "The sea is", **SHORT}),
    "choices": (CHAT, {"messages": HI, "n": 3, "temperature": 1.2, **SHORT}),
    "prompts": (TEXT, {"prompt": ["A", "B"], "n": 2, "temperature": 1.2, **SHORT}),
    "logprobs": (CHAT, {"messages": HI, "logprobs": True, "top_logprobs": 2, **SHORT}),
    "echo": (TEXT, {"prompt": "The sea is", "echo": True, "logprobs": 1, **SHORT}),
    "samplers": (
        CHAT,
        {
            "messages": HI,
            "temperature": 1.1,
            "repeat_penalty": 1.2,
            "frequency_penalty": 0.3,
            "dry_multiplier": 0.8,
            "xtc_probability": 0.5,
            "top_n_sigma": 2,
            "typical_p": 0.95,
            "logit_bias": {"253": -100, "260": 2},
            **SHORT,
        },
    ),
    "mirostat": (CHAT, {"messages": HI, "mirostat": 2, **SHORT}),
    "stop": (CHAT, {"messages": HI, "stop": [" the", "\n"], **SHORT}),
    "schema": (
        CHAT,
        {
            "messages": HI,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "p", "schema": SCHEMA},
            },
            **SHORT,
            "max_tokens": 60,
        },
    ),
    "grammar": (
        TEXT,
        {"prompt": "So: ", "grammar": 'root ::= ("yes" | "no") [.!]', **SHORT},
    ),
    "forced call": (
        CHAT,
        {
            "messages": HI,
            "tools": TOOLS,
            "tool_choice": "required",
            **SHORT,
            "max_tokens": 60,
        },
    ),
    "native": (
        "/completion",
        {"prompt": ["The ", 1000], "n_predict": 12, "seed": 3, "receipt": True},
    ),
    "native choices": (
        "/completion",
        {"prompt": "The ", "n_predict": 12, "n_cmpl": 2, "receipt": True},
    ),
}
N_CHOICES = {"choices": 3, "prompts": 4, "native choices": 2}


@pytest.fixture(scope="module")
def bodies(signed):
    """Every body's answer, made at once and shared out over the slots."""

    def one(name):
        path, body = BODIES[name]
        return name, ask(signed, path, **body)

    with ThreadPoolExecutor(4) as pool:
        return dict(pool.map(one, BODIES))


def test_answers_are_made_side_by_side(bodies):
    assert len(bodies) == len(BODIES)


@pytest.mark.parametrize("name", BODIES)
def test_every_answer_over_http_is_proven(name, bodies, prove):
    prove(bodies[name], N_CHOICES.get(name, 1))


def test_streams_are_proven_and_say_the_same(signed, prove):
    for path, body in (BODIES["chat"], BODIES["completion"]):
        options = {"include_usage": True}
        whole = (
            ask(signed, path, **body, seed=5)
            if "seed" not in body
            else ask(signed, path, **body)
        )
        asked = {**body, "stream": True, "stream_options": options}
        asked.setdefault("seed", 5)
        (streamed,) = prove(ask(signed, path, **asked))
        (found,) = prove(whole)
        assert streamed["output"] == found["output"]


@pytest.mark.parametrize("streamed", [True, False])
def test_ollama_s_routes_give_receipts(signed, prove, streamed):
    options = {"num_predict": 12, "seed": 9}
    more = {"stream": streamed, "options": options, "receipt": True}
    prove(ask(signed, "/api/chat", model=MODEL, messages=HI, **more))
    prove(
        ask(signed, "/api/generate", model=MODEL, prompt="Hi", system="Be kind", **more)
    )
    prove(ask(signed, "/api/generate", model=MODEL, prompt="Hi", raw=True, **more))
    prove(ask(signed, "/api/chat", model=MODEL, messages=HI, format=SCHEMA, **more))


def test_without_a_seed_a_fresh_one_is_drawn_and_told(signed, prove):
    seeds = set()
    for _ in range(3):
        body = answer(signed, TEXT, prompt="A", max_tokens=2, receipt=True)
        (found,) = prove(json.dumps(body).encode())
        seeds.add(found["request"]["sampling"]["seed"])
    assert len(seeds) == 3


def test_receipts_hold_what_was_understood(bodies):
    body = json.loads(bodies["chat"])
    receipt = body["receipt"]
    assert receipt["output"]["content"] == body["choices"][0]["message"]["content"]
    assert receipt["request"]["input"]["messages"] == HI
    assert receipt["request"]["sampling"]["temperature"] == 0.8
    assert len(receipt["output"]["tokens"]) == body["usage"]["completion_tokens"]
    assert len(receipt["request"]["prompt_tokens"]) == body["usage"]["prompt_tokens"]


def test_official_clients_find_the_receipt(signed, prove):
    client = openai.OpenAI(base_url=signed.base_url, api_key="x", max_retries=0)
    with client:
        made = client.chat.completions.create(
            model="m", messages=HI, max_tokens=8, extra_body={"receipt": True}
        )
        prove(made.model_dump_json().encode())
        last: Any = None
        for chunk in client.chat.completions.create(
            model="m",
            messages=HI,
            max_tokens=8,
            stream=True,
            extra_body={"receipt": True},
        ):
            last = chunk
        prove(json.dumps(last.model_extra["receipt"]).encode())


def test_the_ollama_client_works_as_before(signed):
    client = ollama.Client(host=signed.root)
    try:
        made = client.chat(model=MODEL, messages=HI, options={"num_predict": 4})
        assert made.message.content is not None
    finally:
        client._client.close()


def test_a_conversation_gone_on_with_is_proven(signed, prove):
    """Its second request starts from what the first left in the slot."""
    first = answer(signed, CHAT, messages=HI, max_tokens=12, temperature=0)
    said = first["choices"][0]["message"]
    more = [*HI, said, {"role": "user", "content": "And lakes?"}]
    body = answer(signed, CHAT, messages=more, max_tokens=12, receipt=True)
    assert body["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    prove(json.dumps(body).encode())


def test_the_key_is_served_and_an_unsigned_server_says_so(signed, server, key):
    found = httpx.get(signed.root + "/v1/receipts/key", timeout=LIMIT_S).json()
    public = signing.load(key).public_key
    assert found["public_key"] == public.hex
    assert found["fingerprint"] == public.fingerprint
    response = httpx.get(server.root + "/v1/receipts/key", timeout=LIMIT_S)
    assert response.status_code == 404
    assert "--sign-key" in response.json()["error"]["message"]


def test_an_unsigned_receipt_is_proven_with_a_warning(server, bench):
    body = answer(server, CHAT, messages=HI, max_tokens=8, receipt=True)
    assert body["receipt"]["signer"] is None
    report = verify(body["receipt"], bench, pin=Pin())
    assert report.outcome is Outcome.PROVEN
    assert any("NOT SIGNED" in step.text for step in report.steps)


def test_a_clock_s_end_gets_no_receipt(signed):
    error = refusal(
        signed, TEXT, prompt="x", max_tokens=2, t_max_predict_ms=100, receipt=True
    )
    assert error["param"] == "receipt"


def test_the_secret_key_is_nowhere_in_answers_or_logs(signed, key, bodies):
    secret = key.read_text().split()[-1]
    assert all(secret.encode() not in body for body in bodies.values())
    assert not any(secret in line for line in signed.log)


def test_a_stream_s_receipt_is_in_its_last_chunk_alone(signed):
    asked = {"messages": HI, "max_tokens": 4, "receipt": True}
    chunks = stream(signed, CHAT, **asked)
    assert [("receipt" in chunk) for chunk in chunks] == [False] * (len(chunks) - 1) + [
        True
    ]


# --- The command --------------------------------------------------------------------


def kinetic(*arguments, stdin=b""):
    return subprocess.run(
        [sys.executable, "-m", "kinetic", *arguments],
        input=stdin,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_the_command_finds_the_model_and_proves(bodies, key, tmp_path):
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(json.loads(bodies["chat"])["receipt"]))
    fingerprint = signing.load(key).public_key.fingerprint
    done = kinetic("verify-receipt", "-t", "1", "--key", fingerprint, str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(b"PROVEN\n")


def test_the_command_tells_the_first_token_that_differs(bodies, tmp_path):
    from tests.support.receipts import resealed

    receipt = json.loads(bodies["chat"])["receipt"]
    receipt["output"]["tokens"][3] += 1
    value = resealed({**receipt, "signer": None, "signature": None})
    done = kinetic("verify-receipt", "-t", "1", "-", stdin=json.dumps(value).encode())
    assert done.returncode == 1, done.stdout + done.stderr
    assert b"token 3 of the answer is" in done.stdout
    assert done.stdout.count(b"(p = ") == 2


def test_the_command_asks_a_running_server(signed, bodies, tmp_path):
    path = tmp_path / "answers.jsonl"
    names = (
        "chat",
        "completion",
        "samplers",
        "grammar",
        "schema",
        "forced call",
        "native",
    )
    path.write_bytes(b"\n".join(bodies[name] for name in names))
    done = kinetic("verify-receipt", "--url", signed.base_url, str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(names)} of {len(names)} receipts are proven".encode() in done.stdout
    assert b"that server's word" in done.stdout


def test_after_a_restart_kept_states_are_proven_too(smollm2_path, tmp_path, prove, key):
    flags = ["-np", "2", "-c", "1024", "-t", "1", "--cache-dir", str(tmp_path)]
    flags += ["--sign-key", str(key)]
    long = [{"role": "user", "content": "Rivers flow. " * 40 + "Name three rivers."}]
    with running_server(smollm2_path, *flags) as first:
        answer(first, CHAT, messages=long, max_tokens=4, temperature=0)
    assert any(tmp_path.iterdir())
    with running_server(smollm2_path, *flags) as second:
        body = answer(second, CHAT, messages=long, max_tokens=12, receipt=True)
    prove(json.dumps(body).encode())


def test_a_prefilled_prompt_is_proven(signed, prove):
    text = "Lakes lie still. " * 30
    begun = [{"role": "user", "content": text + "Name"}]
    whole = [{"role": "user", "content": text + "Name three lakes."}]
    filled = answer(signed, "/v1/prefill", messages=begun)
    assert filled["cached_tokens"] > 0
    body = answer(signed, CHAT, messages=whole, max_tokens=10, receipt=True)
    assert body["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    prove(json.dumps(body).encode())


def test_a_receipt_waits_for_the_model_s_hash(
    smollm2_path, tmp_path, prove, key, monkeypatch
):
    """Read anew, since nothing is remembered in a cache folder of its own."""
    states = str(tmp_path / "states")
    flags = ["-np", "2", "-c", "512", "-t", "1", "--cache-dir", states]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with running_server(smollm2_path, *flags, "--sign-key", str(key)) as fresh:
        fresh.wait_for_log("reading SmolLM2-135M-Instruct.Q4_1.gguf for its digest")
        body = answer(fresh, TEXT, prompt="A", max_tokens=2, receipt=True)
        prove(json.dumps(body).encode())
        fresh.wait_for_log("digest of SmolLM2-135M-Instruct.Q4_1.gguf")
