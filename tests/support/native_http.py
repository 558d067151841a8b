"""Talking to llama-server's routes of a real process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from tests.support.server import ServerProcess

LIMIT_S = 60.0


def post(server: ServerProcess, path: str, body: Any) -> httpx.Response:
    """One request; text is sent as it is."""
    raw = body if isinstance(body, str) else json.dumps(body)
    # Native routes take any content type; OpenAI's beside them do not.
    kind = "application/json" if path.startswith("/v1/") else "text/plain"
    return httpx.post(
        server.root + path,
        content=raw.encode(),
        headers={"Content-Type": kind},
        timeout=LIMIT_S,
    )


def answer(server: ServerProcess, path: str = "/completion", **body: Any) -> Any:
    """The body of a good answer."""
    response = post(server, path, body)
    assert response.status_code == 200, response.text
    return response.json()


def refusal(
    server: ServerProcess, path: str = "/completion", status: int = 400, **body: Any
) -> dict[str, Any]:
    """The error of a bad request; the server must be alive afterwards."""
    response = post(server, path, body)
    assert response.status_code == status, response.text
    server.health()
    error: dict[str, Any] = response.json()["error"]
    assert error["code"] == status
    return error


def events(server: ServerProcess, **body: Any) -> list[dict[str, Any]]:
    """The events of a streamed completion."""
    response = post(server, "/completion", {"stream": True, **body})
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"].startswith("text/event-stream")
    parts = response.text.split("\n\n")
    assert parts.pop() == ""
    return [json.loads(part.removeprefix("data: ")) for part in parts if part != ":"]


def read(server: ServerProcess, path: str) -> Any:
    """The body of a GET."""
    response = httpx.get(server.root + path, timeout=LIMIT_S)
    assert response.status_code == 200, response.text
    is_json = response.headers["Content-Type"].startswith("application/json")
    return response.json() if is_json else response.text
