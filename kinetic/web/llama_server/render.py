"""From a request's output to llama-server's objects. Pure.

Source of every name, their order and their meaning: llama-server's `/completion`.
"""

from __future__ import annotations

import math
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
from kinetic.types import ContentPiece, SamplingParams, Timings, TokenLogprob, Usage
from kinetic.web.llama_server.fields import SEED_RANDOM
from kinetic.web.openai.render import timings_json

Json = dict[str, Any]

STOP_TYPES: Mapping[str, str] = {
    "eos": "eos",
    "stop": "word",
    "limit": "limit",
    "calls": "eos",
}


def float32(value: float) -> float:
    """A number as C's float holds it, which is how llama-server shows it."""
    cell = memoryview(bytearray(4)).cast("f")
    cell[0] = value
    return cell[0]


# --- Settings -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What generation_settings and /slots tell of one answer."""

    sampling: SamplingParams
    seed: int
    n_predict: int
    """-1 for no limit."""
    n_probs: int = 0
    post_sampling_probs: bool = False
    ignore_eos: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)
    """What the request asked for beyond that, as it was read."""
    ends: tuple[int, ...] = ()
    """Tokens that `ignore_eos` bans."""
    reasoning_format: str = "deepseek"

    @classmethod
    def of(cls, job: Job, ends: Sequence[int] = ()) -> Settings:
        """A job's."""
        return cls(
            sampling=job.sampling,
            seed=job.sampling.seed,
            n_predict=-1 if job.max_tokens is None else job.max_tokens,
            n_probs=job.n_logprobs or 0,
            post_sampling_probs=job.post_sampling_probs,
            ignore_eos=job.ignore_eos,
            more={"stop": list(job.stops), **job.settings},
            ends=tuple(ends),
        )

    @classmethod
    def defaults(cls, sampling: SamplingParams, max_tokens: int | None) -> Settings:
        """What a request without fields gets; its seed is drawn, so none is told."""
        return cls(
            sampling=sampling,
            seed=SEED_RANDOM,
            n_predict=-1 if max_tokens is None else max_tokens,
            reasoning_format="none",
        )

    def short(self) -> Json:
        """Without texts and lists: as /props and /slots show them."""
        whole = self.whole()
        return {name: whole[name] for name in whole if name not in _ONLY_WHOLE}

    def whole(self) -> Json:
        """As a final object shows them."""
        more = self.more
        return {
            "seed": self.seed,
            **self._filters(),
            "stop": more.get("stop", []),
            "max_tokens": self.n_predict,
            "n_predict": self.n_predict,
            "n_keep": more.get("n_keep", 0),
            "n_discard": more.get("n_discard", 0),
            "ignore_eos": self.ignore_eos,
            "stream": more.get("stream", False),
            "logit_bias": self._biases(),
            "n_probs": self.n_probs,
            "min_keep": self.sampling.min_keep,
            "grammar": more.get("grammar", ""),
            "grammar_lazy": False,
            "grammar_triggers": [],
            "preserved_tokens": [],
            "chat_format": "Content-only",
            "reasoning_format": self.reasoning_format,
            "reasoning_in_content": False,
            "generation_prompt": "",
            "samplers": list(self.sampling.samplers),
            "speculative.types": "none",
            "timings_per_token": more.get("timings_per_token", False),
            "post_sampling_probs": self.post_sampling_probs,
            "backend_sampling": False,
            "lora": [],
        }

    def _filters(self) -> Json:
        s = self.sampling
        return {
            "temperature": float32(s.temperature),
            "dynatemp_range": float32(s.dynatemp_range),
            "dynatemp_exponent": float32(s.dynatemp_exponent),
            "top_k": s.top_k,
            "top_p": float32(s.top_p),
            "min_p": float32(s.min_p),
            "top_n_sigma": float32(s.top_n_sigma),
            "xtc_probability": float32(s.xtc_probability),
            "xtc_threshold": float32(s.xtc_threshold),
            "typical_p": float32(s.typical_p),
            "repeat_last_n": s.repeat_last_n,
            "repeat_penalty": float32(s.repeat_penalty),
            "presence_penalty": float32(s.presence_penalty),
            "frequency_penalty": float32(s.frequency_penalty),
            "dry_multiplier": float32(s.dry_multiplier),
            "dry_base": float32(s.dry_base),
            "dry_allowed_length": s.dry_allowed_length,
            "dry_penalty_last_n": s.dry_penalty_last_n,
            "dry_sequence_breakers": list(s.dry_sequence_breakers),
            "mirostat": s.mirostat,
            "mirostat_tau": float32(s.mirostat_tau),
            "mirostat_eta": float32(s.mirostat_eta),
            "adaptive_target": -1.0,
            "adaptive_decay": float32(0.9),
        }

    def _biases(self) -> list[Json]:
        found = [_bias(token, bias) for token, bias in self.sampling.logit_bias]
        if self.ignore_eos:
            found += [_bias(token, -math.inf) for token in sorted(self.ends)]
        return found


_ONLY_WHOLE = frozenset(
    {
        "dry_sequence_breakers",
        "stop",
        "logit_bias",
        "grammar",
        "grammar_lazy",
        "grammar_triggers",
        "preserved_tokens",
    }
)


def _bias(token: int, bias: float) -> Json:
    # JSON has no infinity: a ban reads null, as in llama-server.
    return {"bias": None if math.isinf(bias) else float32(bias), "token": token}


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

    def objects(self, event: SinkEvent) -> list[Json]:
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

    def whole(self) -> list[Json]:
        """The final objects in the order of their index, once all have ended."""
        answers = [self._answers[index] for index in sorted(self._answers)]
        return [answer.final for answer in answers if answer.final is not None]

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
