"""From a request's output to OpenAI's chunks. Pure.

A writer turns each sink event into chunks; `whole.py` makes one body of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kinetic.actors.messages import (
    Delta,
    Failed,
    Finished,
    PromptMoved,
    PromptScored,
    SinkEvent,
    Started,
)
from kinetic.types import (
    CallPiece,
    ContentPiece,
    Finish,
    Outcome,
    OutputPiece,
    ReasoningPiece,
)
from kinetic.web.openai.logprobs import Json, chat_entry, prompt_entries, text_entries
from kinetic.web.timings import timings_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What every chunk of one answer repeats."""

    id: str
    created: int
    """Unix seconds."""
    model: str
    system_fingerprint: str
    """What, beside the request, an answer depends on: the version and the plan."""

    def named(self, kind: str) -> Json:
        """What an object of this kind begins with."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.system_fingerprint,
        }

    def chunk(self, kind: str, *choices: Json, **more: object) -> Json:
        """A chunk of these choices."""
        return {**self.named(kind), "choices": list(choices), **more}


class Writer(Protocol):
    """Turns events into chunks; one of them writes one answer."""

    def chunks(self, event: SinkEvent) -> list[Json]:
        """What an event adds to the stream."""

    def usage_chunk(self, usage: Json) -> Json:
        """The chunk of the token counts, which has no choices."""


class ChatWriter:
    """Chunks of /v1/chat/completions.

    Args:
        head: What every chunk repeats.
        n_choices: Choices of the request.
        usage_follows: A chunk of the token counts comes behind all others.
        has_functions: Calls are written in the old form.
    """

    def __init__(
        self,
        head: Head,
        *,
        n_choices: int = 1,
        usage_follows: bool = False,
        has_functions: bool = False,
    ) -> None:
        self._head = head
        self._has_functions = has_functions
        self._ends = Ends(n_choices, usage_follows=usage_follows)
        self._opened: set[int] = set()
        self._have_calls: set[int] = set()

    def chunks(self, event: SinkEvent) -> list[Json]:
        """What an event adds; a choice's first chunk, and no other, tells the role."""
        match event:
            case Started() | PromptMoved() | PromptScored() | Failed():
                return []
            case Delta():
                return [*self._opening(event.index), *self._delta(event)]
            case Finished():
                reason = chat_reason(
                    event.finish,
                    has_calls=event.index in self._have_calls,
                    has_functions=self._has_functions,
                )
                end = self._chunk(event.index, {}, reason=reason)
                return [*self._opening(event.index), self._ends.told(end, event)]

    def usage_chunk(self, usage: Json) -> Json:
        """The chunk of the token counts, which has no choices."""
        kept = self._ends.kept
        return self._head.chunk("chat.completion.chunk", usage=usage, **kept)

    def _opening(self, index: int) -> list[Json]:
        if index in self._opened:
            return []
        self._opened.add(index)
        return [self._chunk(index, {"role": "assistant", "content": ""})]

    def _delta(self, event: Delta) -> list[Json]:
        deltas = [self._piece(event.index, piece) for piece in event.pieces]
        # Tokens without text, such as the end of the turn, are not in the answer.
        entries = [chat_entry(entry) for entry in event.logprobs if entry.piece]
        if entries and not deltas:
            deltas = [{"content": ""}]
        last = len(deltas) - 1
        return [
            self._chunk(event.index, delta, entries=entries if i == last else ())
            for i, delta in enumerate(deltas)
        ]

    def _piece(self, index: int, piece: OutputPiece) -> Json:
        match piece:
            case ContentPiece():
                return {"content": piece.text}
            case ReasoningPiece():
                return {"reasoning_content": piece.text}
            case CallPiece():
                self._have_calls.add(index)
                if self._has_functions:
                    return {"function_call": function_json(piece)}
                return {"tool_calls": [{"index": piece.index, **call_json(piece)}]}

    def _chunk(
        self,
        index: int,
        delta: Json,
        *,
        entries: Sequence[Json] = (),
        reason: str | None = None,
    ) -> Json:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": {"content": list(entries)} if entries else None,
            "finish_reason": reason,
        }
        return self._head.chunk("chat.completion.chunk", choice)


class TextWriter:
    """Chunks of /v1/completions.

    Args:
        head: What every chunk repeats.
        echoes: The prompts that the choices begin with, by index; () for none.
        n_choices: Choices of the request.
        usage_follows: A chunk of the token counts comes behind all others.
    """

    def __init__(
        self,
        head: Head,
        *,
        echoes: Sequence[str] = (),
        n_choices: int = 1,
        usage_follows: bool = False,
    ) -> None:
        self._head = head
        self._ends = Ends(n_choices, usage_follows=usage_follows)
        self._echoes = dict(enumerate(echoes))
        self._n_chars: dict[int, int] = {}

    def chunks(self, event: SinkEvent) -> list[Json]:
        """What an event adds; the prompt comes first where it is echoed."""
        match event:
            case Started() | PromptMoved() | Failed():
                return []
            case PromptScored():
                return self._scored(event)
            case Delta():
                return [*self._echo(event.index), *self._delta(event)]
            case Finished():
                reason = finish_reason(event.finish)
                end = self._chunk(event.index, "", reason=reason)
                return [*self._echo(event.index), self._ends.told(end, event)]

    def usage_chunk(self, usage: Json) -> Json:
        """The chunk of the token counts, which has no choices."""
        return self._head.chunk("text_completion", usage=usage, **self._ends.kept)

    def _scored(self, event: PromptScored) -> list[Json]:
        text = self._echoes.pop(event.index, "")
        shape = prompt_entries(event.tokens, text)
        return [self._chunk(event.index, text, shape=shape)]

    def _echo(self, index: int) -> list[Json]:
        text = self._echoes.pop(index, None)
        return [] if text is None else [self._chunk(index, text)]

    def _delta(self, event: Delta) -> list[Json]:
        index = event.index
        text = "".join(p.text for p in event.pieces if isinstance(p, ContentPiece))
        if not text and not event.logprobs:
            return []
        shape = None
        if event.logprobs:
            start = self._n_chars.get(index, 0)
            shape = text_entries(event.logprobs, start=start)
        return [self._chunk(index, text, shape=shape)]

    def _chunk(
        self,
        index: int,
        text: str,
        *,
        shape: Json | None = None,
        reason: str | None = None,
    ) -> Json:
        self._n_chars[index] = self._n_chars.get(index, 0) + len(text)
        choice = {
            "text": text,
            "index": index,
            "logprobs": shape,
            "finish_reason": reason,
        }
        return self._head.chunk("text_completion", choice)


def call_json(piece: CallPiece) -> Json:
    """A call as a whole answer tells it."""
    return {
        "id": piece.call.id,
        "type": "function",
        "function": function_json(piece),
    }


def function_json(piece: CallPiece) -> Json:
    """A call in its old form."""
    return {"name": piece.call.name, "arguments": piece.call.arguments}


def finish_reason(finish: Finish, *, has_calls: bool = False) -> str:
    """OpenAI's word for why an answer ended."""
    if finish.reason == Outcome.LIMIT:
        return "length"
    return "tool_calls" if has_calls else "stop"


def chat_reason(finish: Finish, *, has_calls: bool, has_functions: bool) -> str:
    """As `finish_reason`, in the old words for calls in their old form."""
    reason = finish_reason(finish, has_calls=has_calls)
    return "function_call" if has_functions and reason == "tool_calls" else reason


class Ends:
    """What a choice's last chunk tells beside its finish_reason.

    What is wrong with its answer; the times, where there is one choice (source:
    llama-server's `timings`, which its users' pages show); and the receipt: of a single
    choice beside the choices, in the very last chunk; of several each in its own.
    """

    def __init__(self, n_choices: int, *, usage_follows: bool = False) -> None:
        self._n_choices = n_choices
        self._usage_follows = usage_follows
        self.kept: Json = {}
        """What the chunk of the token counts tells too."""

    def told(self, chunk: Json, event: Finished) -> Json:
        """The chunk with the rest of what there is to tell."""
        self.tell(event, top=chunk, choice=chunk["choices"][0])
        return chunk

    def tell(self, event: Finished, *, top: Json, choice: Json) -> None:
        """Write the rest of what there is to tell, beside the choices or into one."""
        if event.warnings:
            choice["warnings"] = list(event.warnings)
        if self._n_choices > 1:
            if event.receipt is not None:
                choice["receipt"] = event.receipt
            return
        top["timings"] = timings_json(event.usage, event.timings)
        if event.receipt is not None:
            last = self.kept if self._usage_follows else top
            last["receipt"] = event.receipt


@dataclass(slots=True)
class Totals:
    """Token counts of a request: answers summed, each prompt counted once."""

    n_per_prompt: int = 1
    """Choices of each prompt."""
    n_generated: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    _prompts: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, event: Finished) -> None:
        """Count a choice that ended."""
        usage, prompt = event.usage, event.index // self.n_per_prompt
        # The choices of a prompt share one run of it: what the first of them found kept
        # was kept by an earlier request.
        _, n_cached = self._prompts.get(prompt, (0, usage.n_cached))
        self._prompts[prompt] = (usage.n_prompt, min(n_cached, usage.n_cached))
        self.n_generated += usage.n_generated
        self.n_drafted += usage.n_drafted
        self.n_accepted += usage.n_accepted

    def to_json(self) -> Json:
        """OpenAI's usage object."""
        n_prompt = sum(n for n, _ in self._prompts.values())
        found: Json = {
            "prompt_tokens": n_prompt,
            "completion_tokens": self.n_generated,
            "total_tokens": n_prompt + self.n_generated,
            "prompt_tokens_details": {
                "cached_tokens": sum(n for _, n in self._prompts.values())
            },
        }
        if self.n_drafted:
            found["completion_tokens_details"] = {
                "accepted_prediction_tokens": self.n_accepted,
                "rejected_prediction_tokens": self.n_drafted - self.n_accepted,
            }
        return found
