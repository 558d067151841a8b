"""The OpenAI routes by plain HTTP: whole answers, and streams read strictly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

from tests.support.server import ServerProcess

LIMIT_S = 50.0

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"

Json = dict[str, Any]


def post(server: ServerProcess, path: str, body: object) -> httpx.Response:
    """Send a body as it is."""
    return httpx.post(server.root + path, json=body, timeout=LIMIT_S)


def answer(server: ServerProcess, path: str, **fields: Any) -> Json:
    """A whole answer, which must be one."""
    response = post(server, path, fields)
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


def refusal(server: ServerProcess, path: str, status: int = 400, **fields: Any) -> Json:
    """An error in the right shape."""
    response = post(server, path, fields)
    assert response.status_code == status, response.text
    return error_in(response)


def error_in(response: httpx.Response) -> Json:
    """The error object of a response."""
    assert response.headers["Content-Type"].startswith("application/json")
    body = response.json()
    assert list(body) == ["error"]
    error: Json = body["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    return error


def stream(server: ServerProcess, path: str, **fields: Any) -> list[Json]:
    """The chunks of a stream, which must be well formed and end with [DONE]."""
    body = {**fields, "stream": True}
    with httpx.stream(
        "POST", server.root + path, json=body, timeout=LIMIT_S
    ) as response:
        raw = response.read()
    assert response.status_code == 200, raw
    assert response.headers["Content-Type"].startswith("text/event-stream")
    assert response.headers["Cache-Control"] == "no-cache"
    assert response.headers["X-Accel-Buffering"] == "no"
    *events, done, nothing = raw.decode().split("\n\n")
    assert (done, nothing) == ("data: [DONE]", "")
    assert all(event.startswith("data: {") for event in events)
    chunks: list[Json] = [json.loads(event[len("data: ") :]) for event in events]
    assert len({(c["id"], c["created"], c["model"]) for c in chunks}) == 1
    return chunks


def ends(chunks: list[Json]) -> dict[int, str]:
    """Each choice's finish reason; there must be exactly one."""
    reasons: dict[int, str] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            assert choice["index"] not in reasons, "a chunk after the end"
            if choice["finish_reason"] is not None:
                reasons[choice["index"]] = choice["finish_reason"]
    return reasons


def joined_chat(chunks: list[Json], index: int = 0) -> Json:
    """The message that a choice's deltas make, by the client's rules."""
    message: Json = {}
    calls: dict[int, Json] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice["index"] != index:
                continue
            for key, value in choice["delta"].items():
                if key == "tool_calls":
                    for call in value:
                        calls[call["index"]] = call
                elif key == "role":
                    assert key not in message, "the role comes once"
                    message[key] = value
                else:
                    message[key] = message.get(key, "") + value
    if calls:
        message["tool_calls"] = [calls[i] for i in sorted(calls)]
    return message


def joined_text(chunks: list[Json], index: int = 0) -> str:
    """The text that a choice's chunks make."""
    return "".join(
        choice["text"]
        for chunk in chunks
        for choice in chunk["choices"]
        if choice["index"] == index
    )


def without_times(body: Mapping[str, Any]) -> Json:
    """An answer without what differs from run to run."""
    fresh = {"id", "created", "timings", "usage"}
    return {key: value for key, value in body.items() if key not in fresh}
