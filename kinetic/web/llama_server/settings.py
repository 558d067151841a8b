"""What an answer was made with, as generation_settings, /slots and /props show it.

Source of every name and their order: llama-server's `/completion`. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kinetic.actors.messages import Job
from kinetic.types import SamplingParams
from kinetic.web.llama_server.sampling import SEED_RANDOM

Json = dict[str, Any]


def float32(value: float) -> float:
    """A number as C's float holds it, which is how llama-server shows it."""
    cell = memoryview(bytearray(4)).cast("f")
    cell[0] = value
    return cell[0]


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
