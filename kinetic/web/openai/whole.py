"""From a request's output to OpenAI's whole answers, not by way of chunks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kinetic.actors.messages import Delta, Finished, PromptScored, SinkEvent
from kinetic.types import CallPiece, ContentPiece, ReasoningPiece, TokenLogprob
from kinetic.web.openai.logprobs import Json, chat_entry, prompt_entries, text_entries
from kinetic.web.openai.render import (
    Ends,
    Head,
    call_json,
    chat_reason,
    finish_reason,
    function_json,
)

_TEXT_KEYS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


class WholeChat:
    """The body of /v1/chat/completions.

    Args:
        head: What the body begins with.
        n_choices: Choices of the request.
        logprobs: Whether log-probabilities were asked for.
        has_functions: Calls are written in the old form.
    """

    def __init__(
        self,
        head: Head,
        *,
        n_choices: int = 1,
        logprobs: bool = False,
        has_functions: bool = False,
    ) -> None:
        self._top = head.named("chat.completion")
        self._ends = Ends(n_choices)
        self._logprobs = logprobs
        self._has_functions = has_functions
        self._choices: dict[int, _Message] = {}

    def add(self, event: SinkEvent) -> None:
        """Take the next event."""
        if not isinstance(event, Delta | Finished):
            return
        index = event.index
        if index not in self._choices:
            self._choices[index] = _Message(
                index, logprobs=self._logprobs, has_functions=self._has_functions
            )
        choice = self._choices[index]
        if isinstance(event, Delta):
            choice.add(event)
        else:
            choice.end(event)
            self._ends.tell(event, top=self._top, choice=choice.more)

    def to_json(self, usage: Json) -> Json:
        """The answer; call it when every choice has ended."""
        choices = [self._choices[i].to_json() for i in sorted(self._choices)]
        return {**self._top, "choices": choices, "usage": usage}


class _Message:
    def __init__(self, index: int, *, logprobs: bool, has_functions: bool) -> None:
        self._index = index
        self._has_functions = has_functions
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[CallPiece] = []
        self._entries: list[Json] | None = [] if logprobs else None
        self._finish_reason: str | None = None
        self.more: Json = {}

    def add(self, event: Delta) -> None:
        for piece in event.pieces:
            match piece:
                case ContentPiece():
                    self._content.append(piece.text)
                case ReasoningPiece():
                    self._reasoning.append(piece.text)
                case CallPiece():
                    self._calls.append(piece)
        if self._entries is not None:
            self._entries += [chat_entry(each) for each in event.logprobs if each.piece]

    def end(self, event: Finished) -> None:
        self._finish_reason = chat_reason(
            event.finish,
            has_calls=bool(self._calls),
            has_functions=self._has_functions,
        )

    def to_json(self) -> Json:
        content, reasoning = "".join(self._content), "".join(self._reasoning)
        message: Json = {
            "role": "assistant",
            "content": None if self._calls and not content else content,
        }
        if self._calls and self._has_functions:
            message["function_call"] = function_json(self._calls[-1])
        if reasoning:
            message["reasoning_content"] = reasoning
        if self._calls and not self._has_functions:
            message["tool_calls"] = [call_json(piece) for piece in self._calls]
        entries = self._entries
        return {
            "index": self._index,
            "message": message,
            "logprobs": None if entries is None else {"content": entries},
            "finish_reason": self._finish_reason,
            **self.more,
        }


class WholeText:
    """The body of /v1/completions.

    Args:
        head: What the body begins with.
        echoes: The prompts that the choices begin with, by index; () for none.
        n_choices: Choices of the request.
        logprobs: Whether log-probabilities were asked for.
    """

    def __init__(
        self,
        head: Head,
        *,
        echoes: Sequence[str] = (),
        n_choices: int = 1,
        logprobs: bool = False,
    ) -> None:
        self._top = head.named("text_completion")
        self._echoes = dict(enumerate(echoes))
        self._ends = Ends(n_choices)
        self._logprobs = logprobs
        self._choices: dict[int, Json] = {}

    def add(self, event: SinkEvent) -> None:
        """Take the next event; the prompt comes first where it is echoed."""
        if not isinstance(event, PromptScored | Delta | Finished):
            return
        choice = self._choices.setdefault(event.index, self._new(event.index))
        echo = self._echoes.pop(event.index, "")
        if isinstance(event, PromptScored):
            self._extend(choice, prompt_entries(event.tokens, echo))
        choice["text"] += echo
        if isinstance(event, Delta):
            self._delta(choice, event.logprobs)
            for piece in event.pieces:
                if isinstance(piece, ContentPiece):
                    choice["text"] += piece.text
        if isinstance(event, Finished):
            choice["finish_reason"] = finish_reason(event.finish)
            self._ends.tell(event, top=self._top, choice=choice)

    def _new(self, index: int) -> Json:
        empty: Json = {key: [] for key in _TEXT_KEYS}
        return {
            "text": "",
            "index": index,
            "logprobs": empty if self._logprobs else None,
            "finish_reason": None,
        }

    def _delta(self, choice: Json, entries: Sequence[TokenLogprob]) -> None:
        if entries:
            self._extend(choice, text_entries(entries, start=len(choice["text"])))

    def _extend(self, choice: Json, shape: Json) -> None:
        if choice["logprobs"] is not None:
            for key in _TEXT_KEYS:
                choice["logprobs"][key] += shape[key]

    def to_json(self, usage: Json) -> Json:
        """The answer; call it when every choice has ended."""
        choices = [self._choices[i] for i in sorted(self._choices)]
        return {**self._top, "choices": choices, "usage": usage}
