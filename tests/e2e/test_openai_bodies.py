"""Random bodies: always an answer or a refusal in the right shape, never a fault."""

import json
from collections import Counter

import httpx
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kinetic.web.fields.sampling import DRAWING, SAMPLING
from kinetic.web.openai.fields import CHAT as CHAT_FIELDS, COMPLETIONS, REFUSED
from tests.support.openai_http import CHAT, TEXT, error_in
from tests.support.server import running_server

N_BODIES = 1100
"""For each of the two routes."""


@pytest.fixture(scope="module")
def server(smollm2_path, tmp_path_factory):
    """Little room, so that an answer without a limit is short."""
    flags = ("-np", "2", "-c", "64", "-t", "1", "-n", "2")
    states = str(tmp_path_factory.mktemp("states"))
    with running_server(smollm2_path, *flags, "--cache-dir", states) as process:
        yield process


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=server.root, timeout=30) as opened:
        yield opened


text = st.text(st.characters(codec="utf-8"), max_size=6)
numbers = st.one_of(
    st.integers(-3, 120),
    st.floats(-2, 110),
    st.sampled_from([0, 1, -1, 2**31, 2**32 - 1, 2**64, 1e-30, 1e300, 0.5, 10**40]),
)
anything = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3)
    ),
    max_leaves=6,
)

# Values that fit more often than chance would have it.
LIKELY = {
    "stop": st.lists(st.text(max_size=3), max_size=3) | st.text(max_size=3),
    "logit_bias": st.dictionaries(
        st.integers(-1, 50_000).map(str) | text, st.integers(-101, 101) | st.just(False), max_size=4
    ),
    "samplers": st.text("edskypmxt", max_size=4),
    "dry_sequence_breakers": st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=3), min_size=1, max_size=3
    ),
    "stream": st.booleans(),
    "stream_options": st.fixed_dictionaries({"include_usage": st.booleans()}),
    "response_format": st.sampled_from(
        [{"type": "json_object"}, {"type": "text"}, {"type": "json_schema", "json_schema": {"schema": {"type": "integer"}}}, {"type": "json_schema"}]
    ),
    "grammar": st.sampled_from(['root ::= "a" | "b"', 'root ::= "', "", "root ::= root"]),
    "json_schema": st.sampled_from([{}, {"type": "object"}, {"type": "nope"}]),
    "n": st.integers(0, 3),
    "mirostat": st.integers(0, 3),
    "tools": st.lists(
        st.fixed_dictionaries({"type": st.just("function"), "function": st.fixed_dictionaries({"name": text}, optional={"parameters": anything, "description": text})}), max_size=2
    ),
    "tool_choice": st.sampled_from(["auto", "none", "required", "any"]),
    "chat_template_kwargs": st.dictionaries(text, anything, max_size=2),
    "logprobs": st.booleans() | st.integers(-1, 22),
    "id_slot": st.integers(-2, 3),
    "seed": st.integers(-2, 100),
}  # fmt: skip


def value_of(name):
    likely = LIKELY.get(name, numbers)
    return likely | likely | anything


def bodies(table, required):
    """Bodies with what is required, a few fields, and now and then a stranger."""
    own = [f for f in (*table, *SAMPLING, *DRAWING) if f.name not in required]
    names = sorted({spelling for field in own for spelling in field.spellings})
    fields = st.lists(st.sampled_from(names), max_size=4, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({n: value_of(n) for n in chosen})
    )
    strangers = st.dictionaries(
        text | st.sampled_from(sorted(REFUSED)), anything, max_size=1
    )
    whole = st.fixed_dictionaries(required)
    return st.builds(lambda a, b, c: {**c, **b, **a}, whole, fields, strangers)


part = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image_url", "x"])}, optional={"text": text}
)
call = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"name": text, "arguments": text | anything})}
)
message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "user", "assistant", "system", "tool", "developer", "x"])},
    optional={"content": text | text | st.lists(part, max_size=2) | anything, "tool_calls": st.lists(call, max_size=2), "name": anything},
)  # fmt: skip
messages = st.lists(message, max_size=3) | st.just([{"role": "user", "content": "Hi"}])
plain = st.just([{"role": "user", "content": "Hi"}])
prompt = (
    text
    | st.lists(text, max_size=3)
    | st.lists(st.integers(-1, 50_000), max_size=3)
    | anything
)

CHATS = bodies(
    CHAT_FIELDS, {"messages": plain | plain | messages, "max_tokens": st.integers(0, 2)}
)
TEXTS = bodies(
    COMPLETIONS, {"prompt": st.just("Hi") | prompt, "max_tokens": st.integers(0, 2)}
)

many = settings(
    max_examples=N_BODIES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def sees_an_answer_or_a_refusal(client, route, body, seen):
    response = client.post(route, json=body)
    seen[response.status_code] += 1
    if response.status_code != 200:
        assert 400 <= response.status_code < 500, (response.text, body)
        error_in(response)
    elif response.headers["Content-Type"].startswith("text/event-stream"):
        *events, done, nothing = response.text.split("\n\n")
        assert (done, nothing) == ("data: [DONE]", ""), (response.text, body)
        assert all(json.loads(event[6:])["id"] for event in events)
    else:
        assert response.json()["choices"], body


@pytest.mark.timeout(300)
def test_any_chat_body_is_answered_or_refused(server, client):
    seen: Counter[int] = Counter()

    @many
    @given(CHATS)
    def holds(body):
        sees_an_answer_or_a_refusal(client, CHAT, body, seen)

    holds()
    assert server.is_alive
    assert seen.total() >= 1000
    assert seen[200] > 100, "too few bodies were served to prove anything"
    assert seen[400] > 100, seen


@pytest.mark.timeout(300)
def test_any_text_body_is_answered_or_refused(server, client):
    seen: Counter[int] = Counter()

    @many
    @given(TEXTS)
    def holds(body):
        sees_an_answer_or_a_refusal(client, TEXT, body, seen)

    holds()
    assert server.is_alive
    assert seen.total() >= 1000
    assert seen[200] > 100, "too few bodies were served to prove anything"
    assert seen[400] > 100, seen
