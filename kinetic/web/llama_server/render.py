"""From a request's output to llama-server's objects. Pure.

Source of every name, their order and their meaning: llama-server's `/completion`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kinetic.actors.messages import (
    Delta,
    Failed,
    Finished,
    Job,
    PromptMoved,
    PromptScored,
    SinkEvent,
    Started,
)
from kinetic.types import ContentPiece, Outcome, Timings, TokenLogprob, Usage
from kinetic.web.llama_server.settings import Settings
from kinetic.web.timings import timings_json

Json = dict[str, Any]

STOP_TYPES: Mapping[Outcome, str] = {
    Outcome.EOS: "eos",
    Outcome.STOP: "word",
    Outcome.LIMIT: "limit",
    Outcome.CALLS: "eos",
}


# --- Probabilities ------------------------------------------------------------------


def probabilities(
    entries: Sequence[TokenLogprob], *, post_sampling: bool
) -> list[Json]:
    """Tokens with how likely they and the likeliest others were."""
    name = "prob" if post_sampling else "logprob"
    return [
        {
            **_token(entry.token_id, entry.piece, entry.logprob, name),
            "top_" + name + "s": [_token(*other, name) for other in entry.top],
        }
        for entry in entries
    ]


def _token(token: int, piece: bytes, value: float, name: str) -> Json:
    # Half a character has no place in a string; `bytes` has it.
    return {
        "id": token,
        "token": piece.decode("utf-8", "ignore"),
        "bytes": list(piece),
        name: value,
    }


# --- Answers ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How answers are written."""

    model: str
    stream: bool = False
    is_list: bool = True
    """Whole answers come as an array, of one too."""
    return_tokens: bool = False
    return_progress: bool = False
    timings_per_token: bool = False
    response_fields: tuple[str, ...] = ()


@dataclass(slots=True)
class _Answer:
    """What is known of one answer so far."""

    job: Job
    n_cached: int = 0
    n_generated: int = 0
    content: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    entries: list[TokenLogprob] = field(default_factory=list)
    has_new_line: bool = False
    final: Json | None = None


class CompletionWriter:
    """Writes the answers of one request.

    Args:
        style: How.
        jobs: The request's, by index.
        detokenize: Bytes of a prompt's token ids, control tokens included.
        ends: Tokens that end an answer.
    """

    def __init__(
        self,
        style: Style,
        jobs: Sequence[Job],
        detokenize: Callable[[Sequence[int]], bytes],
        ends: Sequence[int] = (),
    ) -> None:
        self._style = style
        self._answers = {job.index: _Answer(job) for job in jobs}
        self._detokenize = detokenize
        self._ends = tuple(ends)

    def pieces(self, event: SinkEvent) -> list[Json]:
        """Take an event; what it adds to a stream."""
        match event:
            case Started():
                self._answers[event.index].n_cached = event.n_cached
                return []
            case PromptMoved():
                return [self._progress(event)] if self._style.return_progress else []
            case PromptScored() | Failed():
                return []
            case Delta():
                return [self._delta(event)]
            case Finished():
                return [self._finished(event)]

    def last(self) -> list[Json]:
        """Nothing: a stream ends with its last answer, without [DONE]."""
        return []

    def take(self, event: SinkEvent) -> None:
        """Take an event of a whole answer."""
        self.pieces(event)

    def whole(self) -> list[Json] | Json:
        """The final objects in the order of their index, once all have ended."""
        answers = [self._answers[index] for index in sorted(self._answers)]
        finals = [answer.final for answer in answers if answer.final is not None]
        return finals if self._style.is_list else finals[0]

    def _progress(self, event: PromptMoved) -> Json:
        answer = self._answers[event.index]
        found = self._partial(answer, event.index, content="", tokens=[0])
        if self._style.timings_per_token:
            now = Timings(queued_s=0.0, prompt_s=event.seconds, predicted_s=0.0)
            found["timings"] = self._timings(answer, now, n_prompt=event.n_done)
        found["prompt_progress"] = {
            "total": len(answer.job.prompt),
            "cache": answer.n_cached,
            "processed": event.n_done,
            "time_ms": int(event.seconds * 1000),
        }
        return found

    def _delta(self, event: Delta) -> Json:
        answer = self._answers[event.index]
        text = "".join(p.text for p in event.pieces if isinstance(p, ContentPiece))
        answer.n_generated = event.n_generated
        answer.has_new_line = answer.has_new_line or "\n" in text
        if not self._style.stream:
            answer.content.append(text)
            answer.tokens.extend(event.tokens)
            answer.entries.extend(event.logprobs)
        found = self._partial(
            answer, event.index, content=text, tokens=list(event.tokens)
        )
        if self._style.timings_per_token and event.timings is not None:
            found["timings"] = self._timings(answer, event.timings)
        # Held-back text brings its tokens along once it is out.
        if told := self._probabilities(answer, event.logprobs):
            found["completion_probabilities"] = told
        return found

    def _partial(
        self, answer: _Answer, index: int, *, content: str, tokens: list[int]
    ) -> Json:
        return {
            "index": index,
            "content": content,
            "tokens": tokens,
            "stop": False,
            "id_slot": -1,
            "tokens_predicted": answer.n_generated,
            "tokens_evaluated": len(answer.job.prompt),
        }

    def _finished(self, event: Finished) -> Json:
        answer = self._answers[event.index]
        style, job = self._style, answer.job
        finish, usage = event.finish, event.usage
        prompt = self._detokenize(job.prompt)
        found: Json = {
            "index": event.index,
            "content": "".join(answer.content),
            "tokens": answer.tokens if style.return_tokens else [],
            "id_slot": event.slot_id,
            "stop": True,
            "model": style.model,
            "tokens_predicted": usage.n_generated,
            "tokens_evaluated": usage.n_prompt,
            "generation_settings": Settings.of(job, self._ends).whole(),
            "prompt": prompt.decode("utf-8", "replace"),
            "has_new_line": answer.has_new_line,
            "truncated": finish.context_full,
            "stop_type": STOP_TYPES[finish.reason],
            "stopping_word": finish.stop_string or "",
            # The last token drawn is never run.
            "tokens_cached": usage.n_prompt + max(usage.n_generated - 1, 0),
            "timings": timings_json(usage, event.timings),
        }
        if job.n_logprobs is not None and not style.stream:
            told = self._probabilities(answer, answer.entries)
            found["completion_probabilities"] = told
        if style.response_fields:
            found = picked(found, style.response_fields)
        if event.warnings:
            # Not to be missed, whatever is picked.
            found["warnings"] = list(event.warnings)
        if event.receipt is not None:
            # Asked for by a field of its own.
            found["receipt"] = event.receipt
        answer.final = found
        return found

    def _probabilities(
        self, answer: _Answer, entries: Sequence[TokenLogprob]
    ) -> list[Json]:
        return probabilities(entries, post_sampling=answer.job.post_sampling_probs)

    def _timings(
        self, answer: _Answer, timings: Timings, *, n_prompt: int | None = None
    ) -> Json:
        usage = Usage(
            n_prompt=len(answer.job.prompt) if n_prompt is None else n_prompt,
            n_cached=answer.n_cached,
            n_generated=answer.n_generated,
        )
        return timings_json(usage, timings)


def picked(whole: Json, paths: Sequence[str]) -> Json:
    """The parts of an object that are asked for; "a/b" stands under that name."""
    found: Json = {}
    for path in paths:
        value: Any = whole
        for key in path.split("/"):
            if not isinstance(value, dict) or key not in value:
                break
            value = value[key]
        else:
            found[path] = value
    return found
