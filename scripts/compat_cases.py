"""The requests that are sent to both servers, for every route that both have.

Answers must be decided by the request alone: greedy, or without an answer at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

CAPITAL = "The capital of France is"
TURN = "<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\n"
HELLO = [{"role": "user", "content": "Say hello."}]
SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
GRAMMAR = 'root ::= "yes" | "no"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request."""

    name: str
    method: str
    path: str
    body: Any = None
    """A JSON value, or text to be sent as it is."""

    @property
    def route(self) -> str:
        """The path without its query."""
        return self.path.partition("?")[0]


def cases() -> Iterator[Case]:
    """All of them, in the order in which they are sent."""
    yield from _reading()
    yield from _completions()
    yield from _completion_errors()
    yield from _small_routes()
    yield from _openai()
    # Last: what the requests before have left behind.
    yield Case(name="after requests", method="GET", path="/slots")
    yield Case(name="after requests", method="GET", path="/metrics")


def _reading() -> Iterator[Case]:
    for path in (
        "/health",
        "/v1/health",
        "/models",
        "/v1/models",
        "/props",
        "/slots",
        "/lora-adapters",
    ):
        yield Case(name="plain", method="GET", path=path)
    yield Case(name="unknown path", method="GET", path="/no-such-route")


def _completions() -> Iterator[Case]:
    greedy = {"prompt": CAPITAL, "n_predict": 6, "temperature": 0, "seed": 1}
    shapes: dict[str, dict[str, Any]] = {
        "plain": {},
        "whole turn": {"prompt": TURN, "n_predict": 64},
        "stop word": {"stop": ["\n\n"], "return_tokens": True},
        "probabilities": {"n_probs": 3},
        "probabilities by OpenAI's name": {"logprobs": 2},
        "probabilities behind the samplers": {
            "n_probs": 3,
            "post_sampling_probs": True,
        },
        "token ids": {"prompt": [504, 3575, 282, 4649, 314]},
        "mixed prompt": {"prompt": [504, " capital of France is"]},
        "prompt as object": {"prompt": {"prompt_string": CAPITAL}},
        "one prompt in a list": {"prompt": [CAPITAL]},
        "two prompts": {"prompt": [CAPITAL, "One, two,"]},
        "some fields": {
            "response_fields": ["content", "generation_settings/top_k", "nope"]
        },
        "biases": {"logit_bias": [[7042, False], ["Lyon", 2]]},
        "biases as object": {"logit_bias": {"7042": False}},
        "no end": {"prompt": TURN, "n_predict": 24, "ignore_eos": True},
        "samplers by name": {"samplers": ["top_k", "temperature"]},
        "samplers by letter": {"samplers": "kpt"},
        "clipped values": {"top_p": 7, "min_p": -1, "top_k": -3, "mirostat": 0},
        "every sampler": {
            "dynatemp_range": 0.5,
            "typical_p": 0.9,
            "repeat_penalty": 1.1,
            "presence_penalty": 0.1,
            "frequency_penalty": 0.1,
            "dry_multiplier": 0.8,
            "dry_penalty_last_n": 64,
            "min_keep": 1,
            "xtc_probability": 0.0,
        },
        "indent": {"prompt": "def f():\n", "n_indent": 2, "n_predict": 12},
        "time": {"t_max_predict_ms": 600000},
        "grammar": {"prompt": "Is water wet? ", "grammar": GRAMMAR},
        "schema": {"json_schema": SCHEMA, "n_predict": 32},
        "empty prompt": {"prompt": ""},
        "no tokens": {"n_predict": 0},
        "null fields": {"top_k": None, "stop": None, "grammar": None},
        "unknown field": {"mystery": 1, "model": "any"},
    }
    for name, fields in shapes.items():
        yield Case(
            name=name, method="POST", path="/completion", body={**greedy, **fields}
        )
    yield Case(name="plain", method="POST", path="/completions", body=greedy)
    streams: dict[str, dict[str, Any]] = {
        "stream": {},
        "stream with a stop word": {"stop": ["\n\n"]},
        "stream with probabilities": {"n_probs": 2},
        "stream with progress": {"return_progress": True, "timings_per_token": True},
        "stream of two prompts": {"prompt": [CAPITAL, "One, two,"]},
        "stream of a whole turn": {"prompt": TURN, "n_predict": 64},
    }
    for name, fields in streams.items():
        body = {**greedy, "stream": True, **fields}
        yield Case(name=name, method="POST", path="/completion", body=body)


def _completion_errors() -> Iterator[Case]:
    wrong: dict[str, Any] = {
        "no JSON": "{",
        "no prompt": {},
        "prompt of no form": {"prompt": 5},
        "empty list": {"prompt": []},
        "unknown id": {"prompt": [10**6]},
        "too long": {"prompt": "a " * 2100},
        "too long, streamed": {"prompt": "a " * 2100, "stream": True},
        "limit below -1": {"prompt": "a", "n_predict": -2},
        "more answers than slots": {"prompt": "a", "n": 2},
        "text for a number": {"prompt": "a", "top_k": "x"},
        "no penalty": {"prompt": "a", "repeat_penalty": 0},
        "no breakers": {"prompt": "a", "dry_sequence_breakers": []},
        "numbers to stop at": {"prompt": "a", "stop": [5]},
        "broken grammar": {"prompt": "a", "grammar": 'root ::= "yes'},
        "grammar without root": {"prompt": "a", "grammar": 'answer ::= "y"'},
        "schema of no type": {"prompt": "a", "json_schema": {"type": "nope"}},
    }
    for name, body in wrong.items():
        yield Case(name=name, method="POST", path="/completion", body=body)


def _small_routes() -> Iterator[Case]:
    marker = "<|im_start|>"
    small: list[tuple[str, str, Any]] = [
        ("plain", "/tokenize", {"content": "Hello, world"}),
        ("special", "/tokenize", {"content": "a", "add_special": True}),
        ("marker", "/tokenize", {"content": marker}),
        ("plain marker", "/tokenize", {"content": marker, "parse_special": False}),
        ("mixed", "/tokenize", {"content": ["Hello", 1, "wörld"]}),
        ("pieces", "/tokenize", {"content": "a 😀 é", "with_pieces": True}),
        ("nothing", "/tokenize", {}),
        ("number", "/tokenize", {"content": 5}),
        ("plain", "/detokenize", {"tokens": [28120, 905, 1]}),
        ("half a character", "/detokenize", {"tokens": [10813]}),
        ("nothing", "/detokenize", {}),
        ("unknown id", "/detokenize", {"tokens": [10**6]}),
        ("plain", "/apply-template", {"messages": HELLO}),
        ("nothing", "/apply-template", {}),
        ("plain", "/embedding", {"content": "a"}),
        ("plain", "/embeddings", {"content": "a"}),
        ("plain", "/infill", {"input_prefix": "a", "input_suffix": "b"}),
        ("plain", "/props", {}),
        ("erase", "/slots/0?action=erase", {}),
        ("none", "/lora-adapters", []),
    ]
    for name, path, body in small:
        yield Case(name=name, method="POST", path=path, body=body)


def _openai() -> Iterator[Case]:
    chat = {"messages": HELLO, "max_tokens": 6, "temperature": 0, "seed": 1}
    for path in ("/v1/chat/completions", "/chat/completions"):
        yield Case(name="plain", method="POST", path=path, body=chat)
    more: dict[str, dict[str, Any]] = {
        "stream": {"stream": True, "stream_options": {"include_usage": True}},
        "probabilities": {"logprobs": True, "top_logprobs": 1},
        "whole turn": {"max_tokens": 64},
        "JSON": {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"schema": SCHEMA},
            },
            "max_tokens": 32,
        },
        "no messages": {"messages": []},
        "wrong type": {"max_tokens": "x"},
    }
    for name, fields in more.items():
        yield Case(
            name=name,
            method="POST",
            path="/v1/chat/completions",
            body={**chat, **fields},
        )
    text = {"prompt": CAPITAL, "max_tokens": 6, "temperature": 0, "seed": 1}
    texts: dict[str, dict[str, Any]] = {
        "plain": {},
        "stream": {"stream": True},
        "probabilities": {"logprobs": 2},
        "two prompts": {"prompt": [CAPITAL, "One, two,"]},
    }
    for name, fields in texts.items():
        yield Case(
            name=name, method="POST", path="/v1/completions", body={**text, **fields}
        )
    yield Case(name="plain", method="POST", path="/v1/embeddings", body={"input": "a"})
    for path in ("/rerank", "/reranking", "/v1/rerank", "/v1/reranking"):
        body = {"query": "a", "documents": ["b"]}
        yield Case(name="plain", method="POST", path=path, body=body)
