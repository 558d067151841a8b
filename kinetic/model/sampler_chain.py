"""The sampler chain of one generation, in llama.cpp's order and with its code.

Source of the order and of what each sampler gets: `common/sampling.cpp` of the
vendored llama.cpp.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from kinetic.errors import RequestError
from kinetic.model.native.model import DrySettings
from kinetic.model.native.sampler import LOWEST, Sampler

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from kinetic.model.native.model import Model
    from kinetic.types import SamplingParams


class TokenSampler:
    """Draws the tokens of one generation.

    Thread: the slot's. One random number is drawn per kept token, so a seed gives
    the same answer however many rows were computed at once.
    """

    def __init__(
        self,
        model: Model,
        params: SamplingParams,
        prompt: Sequence[int],
        n_ctx: int,
        banned: Sequence[int] = (),
    ) -> None:
        banned = (*banned, *model.suppressed())
        self._banned = frozenset(banned)
        self._chain: Sampler | None = None
        if not is_plain_greedy(params):
            self._chain = _chain(model, params, n_ctx, banned)
            window = history_window(params, n_ctx)
            for token in prompt[len(prompt) - min(window, len(prompt)) :]:
                self._chain.accept(token)

    def draw(self, logits: npt.NDArray[np.float32]) -> int:
        """Draw a token from one row [n_vocab] and keep it.

        Banned tokens of the row hold -inf. Raises RequestError when none is left.
        """
        if self._chain is None:
            best = int(logits.argmax())
            if best in self._banned:
                logits = logits.copy()
                logits[list(self._banned)] = -math.inf
                best = int(logits.argmax())
            if logits[best] == -math.inf:
                message = "what the answer is held to leaves no token to draw"
                raise RequestError(message)
            return best
        token = self._chain.draw(logits)
        self._chain.accept(token)
        return token

    def probabilities(self) -> list[tuple[int, float]]:
        """What the chain left of the last row, likeliest first; [] when greedy."""
        if self._chain is None:
            return []
        return sorted(self._chain.candidates(), key=lambda pair: (-pair[1], pair[0]))

    def close(self) -> None:
        """Free the chain."""
        if self._chain is not None:
            self._chain.close()
            self._chain = None


def is_plain_greedy(params: SamplingParams) -> bool:
    """Whether the likeliest token that is not banned is always the answer."""
    return (
        params.temperature <= 0
        and params.dynatemp_range <= 0
        and params.mirostat == 0
        and not params.logit_bias
        and not has_penalties(params)
        and not has_dry(params)
        and not (params.xtc_probability > 0 and "xtc" in params.samplers)
        and "temperature" in params.samplers
    )


def has_penalties(params: SamplingParams) -> bool:
    """Whether the repetition penalties change anything."""
    changes = (
        params.repeat_penalty != 1
        or params.presence_penalty != 0
        or params.frequency_penalty != 0
    )
    return changes and params.repeat_last_n != 0 and "penalties" in params.samplers


def has_dry(params: SamplingParams) -> bool:
    """Whether DRY changes anything."""
    on = params.dry_multiplier != 0 and params.dry_base >= 1
    return on and params.dry_penalty_last_n != 0 and "dry" in params.samplers


def prepare(model: Model, params: SamplingParams, *, n_ctx: int) -> None:
    """Do now, in any thread, what would hold a sampler up when it is made."""
    if has_dry(params):
        model.prepare_dry(_dry_settings(params, n_ctx))


def _dry_settings(params: SamplingParams, n_ctx: int) -> DrySettings:
    last_n = params.dry_penalty_last_n
    return DrySettings(
        multiplier=params.dry_multiplier,
        base=params.dry_base,
        allowed_length=params.dry_allowed_length,
        last_n=min(n_ctx if last_n < 0 else last_n, n_ctx),
        breakers=tuple(params.dry_sequence_breakers),
    )


def history_window(params: SamplingParams, n_ctx: int) -> int:
    """How many of the prompt's last tokens the chain looks back on."""
    if params.mirostat:
        return 0
    window = 0
    if has_penalties(params):
        window = n_ctx if params.repeat_last_n < 0 else params.repeat_last_n
    if has_dry(params):
        last_n = params.dry_penalty_last_n
        window = max(window, n_ctx if last_n < 0 else last_n)
    return min(window, n_ctx)


def _chain(
    model: Model, params: SamplingParams, n_ctx: int, banned: Sequence[int]
) -> Sampler:
    chain = Sampler(model.n_vocab)
    biases = [*params.logit_bias, *((token, -math.inf) for token in banned)]
    if biases:
        chain.add_logit_bias(model.n_vocab, biases)
    if params.mirostat:
        chain.add("temp", params.temperature)
        tail = (params.mirostat_tau, params.mirostat_eta)
        if params.mirostat == 1:
            # 100 is the number of candidates that the first version looks at.
            chain.add("mirostat", model.n_vocab, params.seed, *tail, 100)
        else:
            chain.add("mirostat_v2", params.seed, *tail)
        return chain
    for name in params.samplers:
        _add(chain, name, model, params, n_ctx)
    chain.add("dist", params.seed)
    return chain


def _add(
    chain: Sampler, name: str, model: Model, params: SamplingParams, n_ctx: int
) -> None:
    keep = params.min_keep
    match name:
        case "penalties" if has_penalties(params):
            last_n = n_ctx if params.repeat_last_n < 0 else params.repeat_last_n
            chain.add(
                "penalties",
                model.n_vocab,
                min(last_n, n_ctx),
                params.repeat_penalty,
                params.frequency_penalty,
                params.presence_penalty,
            )
        case "dry" if has_dry(params):
            chain.add_dry(model, _dry_settings(params, n_ctx))
        case "top_n_sigma":
            chain.add("top_n_sigma", params.top_n_sigma)
        case "top_k":
            chain.add("top_k", max(params.top_k, 0))
        case "typ_p":
            chain.add("typical", params.typical_p, keep)
        case "top_p":
            chain.add("top_p", params.top_p, keep)
        case "min_p":
            chain.add("min_p", params.min_p, keep)
        case "xtc":
            chain.add(
                "xtc", params.xtc_probability, params.xtc_threshold, keep, params.seed
            )
        case "temperature":
            chain.add(
                "temp_ext",
                params.temperature,
                params.dynatemp_range,
                params.dynatemp_exponent,
            )
        case _:
            # Penalties or DRY that change nothing.
            pass


def log_softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Natural log-probabilities [n_vocab] float64 of one raw row.

    Summed in float64 over the row in order, so equal rows give equal bits. Never
    NaN; log 0 is the lowest float32.
    """
    row = logits.astype(np.float64)
    top = row.max()
    if not math.isfinite(top):
        return np.full(len(row), LOWEST)
    shifted = row - top
    found: npt.NDArray[np.float64] = shifted - math.log(np.exp(shifted).sum())
    return np.maximum(found, LOWEST)


def likeliest(logprobs: npt.NDArray[np.float64], count: int) -> list[int]:
    """Ids of the `count` likeliest tokens, likeliest first, ties by id."""
    count = min(count, len(logprobs))
    if count <= 0:
        return []
    edge = np.partition(logprobs, len(logprobs) - count)[len(logprobs) - count]
    found = np.flatnonzero(logprobs >= edge)
    order = np.lexsort((found, -logprobs[found]))
    return [int(t) for t in found[order][:count]]
