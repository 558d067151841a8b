"""A whole answer as the sum of its chunks, so that it cannot differ from the stream."""

from __future__ import annotations

from kinetic.web.openai.logprobs import Json

_MORE = ("warnings", "receipt")
_TEXT_KEYS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


class WholeChat:
    """Adds up chunks of /v1/chat/completions."""

    def __init__(self, *, logprobs: bool) -> None:
        self._logprobs = logprobs
        self._choices: dict[int, _Message] = {}
        self._top: Json = {}

    def add(self, chunk: Json) -> None:
        """Take the next chunk."""
        self._top |= {key: chunk[key] for key in chunk if key != "choices"}
        for choice in chunk["choices"]:
            index = choice["index"]
            if index not in self._choices:
                self._choices[index] = _Message(index, logprobs=self._logprobs)
            self._choices[index].add(choice)

    def to_json(self, usage: Json) -> Json:
        """The answer; call it when every choice has ended."""
        choices = [self._choices[i].to_json() for i in sorted(self._choices)]
        return {
            **self._top,
            "object": "chat.completion",
            "choices": choices,
            "usage": usage,
        }


class _Message:
    def __init__(self, index: int, *, logprobs: bool) -> None:
        self._index = index
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[Json] = []
        self._old_call: Json = {}
        self._entries: list[Json] | None = [] if logprobs else None
        self._finish_reason: str | None = None
        self._more: Json = {}

    def add(self, choice: Json) -> None:
        delta = choice["delta"]
        self._more |= {k: choice[k] for k in choice if k in _MORE}
        self._content.append(delta.get("content", ""))
        self._reasoning.append(delta.get("reasoning_content", ""))
        for call in delta.get("tool_calls", ()):
            self._calls.append({k: call[k] for k in call if k != "index"})
        self._old_call |= {k: delta[k] for k in delta if k == "function_call"}
        if self._entries is not None and choice["logprobs"] is not None:
            self._entries += choice["logprobs"]["content"]
        self._finish_reason = choice["finish_reason"] or self._finish_reason

    def to_json(self) -> Json:
        content, reasoning = "".join(self._content), "".join(self._reasoning)
        has_calls = self._calls or self._old_call
        message: Json = {
            "role": "assistant",
            "content": None if has_calls and not content else content,
            **self._old_call,
        }
        if reasoning:
            message["reasoning_content"] = reasoning
        if self._calls:
            message["tool_calls"] = self._calls
        entries = self._entries
        return {
            "index": self._index,
            "message": message,
            "logprobs": None if entries is None else {"content": entries},
            "finish_reason": self._finish_reason,
            **self._more,
        }


class WholeText:
    """Adds up chunks of /v1/completions."""

    def __init__(self, *, logprobs: bool) -> None:
        self._logprobs = logprobs
        self._choices: dict[int, Json] = {}
        self._top: Json = {}

    def add(self, chunk: Json) -> None:
        """Take the next chunk."""
        self._top |= {key: chunk[key] for key in chunk if key != "choices"}
        for choice in chunk["choices"]:
            self._add(choice)

    def _add(self, choice: Json) -> None:
        empty: Json = {key: [] for key in _TEXT_KEYS}
        new = {
            "text": "",
            "index": choice["index"],
            "logprobs": empty if self._logprobs else None,
            "finish_reason": None,
        }
        kept = self._choices.setdefault(choice["index"], new)
        kept["text"] += choice["text"]
        if kept["logprobs"] is not None and choice["logprobs"] is not None:
            for key in _TEXT_KEYS:
                kept["logprobs"][key] += choice["logprobs"][key]
        kept["finish_reason"] = choice["finish_reason"] or kept["finish_reason"]
        kept |= {k: choice[k] for k in choice if k in _MORE}

    def to_json(self, usage: Json) -> Json:
        """The answer; call it when every choice has ended."""
        choices = [self._choices[i] for i in sorted(self._choices)]
        return {**self._top, "choices": choices, "usage": usage}
