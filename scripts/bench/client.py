"""One streamed request: what it took, and how many tokens came."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import httpx

REQUEST_LIMIT_S = 600.0
_SHOWN_CHARS = 200


class RequestError(Exception):
    """A request was refused, broke off or brought nothing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one streamed request took, on the clock of `time.perf_counter`."""

    began: float
    times: tuple[float, ...]
    """When each piece of text came."""
    ended: float
    n_tokens: int
    n_prompt: int | None
    """Prompt tokens as the server counted them, where it tells."""
    text: str
    arguments: str
    """Of the first tool call, as JSON."""

    @property
    def first_s(self) -> float:
        """From the request to the first piece."""
        return self.times[0] - self.began

    @property
    def rate(self) -> float:
        """Tokens a second behind the first."""
        return (self.n_tokens - 1) / max(self.ended - self.times[0], 1e-9)

    @property
    def gaps_s(self) -> tuple[float, ...]:
        """Times between neighbouring pieces."""
        return tuple(b - a for a, b in pairwise(self.times))


def together(answers: Iterable[Answer]) -> float:
    """Tokens a second of several answers, from the first token to the last end."""
    found = list(answers)
    seconds = max(a.ended for a in found) - min(a.times[0] for a in found)
    return sum(a.n_tokens - 1 for a in found) / max(seconds, 1e-9)


def chat(content: str | list[dict[str, str]], n: int, **more: Any) -> dict[str, Any]:
    """A greedy, streamed chat request of at most `n` tokens."""
    is_text = isinstance(content, str)
    return {
        "messages": [{"role": "user", "content": content}] if is_text else content,
        "max_tokens": n,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **more,
    }


def spoken(body: Mapping[str, Any], *, is_binding: bool) -> dict[str, Any]:
    """The same request as llama-cpp-python's server understands it.

    It takes a schema inside `json_object`, and a tool by its name; `ignore_eos` and
    `stream_options` it does not know.
    """
    said = dict(body)
    if not is_binding:
        return said
    for unknown in ("ignore_eos", "stream_options", "chat_template_kwargs"):
        said.pop(unknown, None)
    shape = said.get("response_format", {})
    if shape.get("type") == "json_schema":
        schema = shape["json_schema"]["schema"]
        said["response_format"] = {"type": "json_object", "schema": schema}
    if said.get("tool_choice") == "required":
        name = said["tools"][0]["function"]["name"]
        said["tool_choice"] = {"type": "function", "function": {"name": name}}
    return said


class Client:
    """Asks one server; each request gets a connection of its own.

    llama-server closes connections after some requests, so none is used again.
    """

    def __init__(self, base_url: str, *, is_binding: bool = False) -> None:
        self._is_binding = is_binding
        self._http = httpx.AsyncClient(
            base_url=base_url,
            timeout=REQUEST_LIMIT_S,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Sends JSON and reads JSON.

        Raises:
            RequestError: It was not answered with a 200.
        """
        return await self._json("POST", path, body)

    async def get(self, path: str) -> Any:
        """Reads JSON.

        Raises:
            RequestError: It was not answered with a 200.
        """
        return await self._json("GET", path, None)

    async def _json(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> Any:
        try:
            answer = await self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise RequestError(f"{type(error).__name__}: {error}") from error
        if answer.status_code != httpx.codes.OK:
            raise RequestError(f"{answer.status_code}: {answer.text[:_SHOWN_CHARS]}")
        return answer.json()

    async def ask(
        self, body: Mapping[str, Any], on_piece: Callable[[], None] = lambda: None
    ) -> Answer:
        """Streams one chat completion.

        Args:
            body: As `chat` makes it.
            on_piece: Called behind each piece of text.

        Raises:
            RequestError: It was refused, broke off, took too long or brought nothing.
        """
        reading = _Reading(int(body["max_tokens"]))
        said = spoken(body, is_binding=self._is_binding)
        began = time.perf_counter()
        try:
            async with (
                asyncio.timeout(REQUEST_LIMIT_S),
                self._http.stream("POST", "/v1/chat/completions", json=said) as answer,
            ):
                if answer.status_code != httpx.codes.OK:
                    text = (await answer.aread()).decode("utf-8", "replace")
                    raise RequestError(f"{answer.status_code}: {text[:_SHOWN_CHARS]}")
                async for line in answer.aiter_lines():
                    if line.startswith("data: {") and reading.read(line[6:]):
                        on_piece()
        except TimeoutError as error:
            raise RequestError(f"took more than {REQUEST_LIMIT_S:.0f} s") from error
        except httpx.HTTPError as error:
            raise RequestError(f"{type(error).__name__}: {error}") from error
        return reading.answer(began)


class _Reading:
    """Gathers the events of one stream."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._times: list[float] = []
        self._text: list[str] = []
        self._arguments: list[str] = []
        self._usage: dict[str, Any] = {}
        self._is_cut = False

    def read(self, line: str) -> bool:
        """Takes one event; whether it brought a piece of the answer."""
        event = json.loads(line)
        if "error" in event:
            raise RequestError(str(event["error"])[:_SHOWN_CHARS])
        self._usage = event.get("usage") or self._usage
        brought = False
        for choice in event.get("choices", []):
            self._is_cut |= choice.get("finish_reason") == "length"
            delta = choice.get("delta") or {}
            text = (delta.get("reasoning_content") or "") + (delta.get("content") or "")
            self._text.append(text)
            calls = [call.get("function", {}) for call in delta.get("tool_calls") or ()]
            self._arguments += [call.get("arguments") or "" for call in calls]
            brought |= bool(text or calls)
        if brought:
            self._times.append(time.perf_counter())
        return brought

    def answer(self, began: float) -> Answer:
        """Sums up.

        Without a usage, an answer that was cut has as many tokens as were asked for,
        and any other as many as pieces came.
        """
        ended = time.perf_counter()
        uncounted = self._max_tokens if self._is_cut else len(self._times)
        n_tokens = int(self._usage.get("completion_tokens", uncounted))
        if not n_tokens:
            raise RequestError("no tokens came")
        counted = self._usage.get("prompt_tokens")
        return Answer(
            began=began,
            # A token may show no text; then the end is all that is seen.
            times=tuple(self._times) or (ended,),
            ended=ended,
            n_tokens=n_tokens,
            n_prompt=None if counted is None else int(counted),
            text="".join(self._text),
            arguments="".join(self._arguments),
        )
