"""Sampling that a model file recommends, over llama-server's own defaults.

Source of the keys: `general.sampling.*` as llama.cpp reads them in `common/`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kinetic.types import DEFAULT_SAMPLERS, SamplingParams

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = logging.getLogger(__name__)

_PREFIX = "general.sampling."
_FIELDS: dict[str, tuple[str, type[int | float]]] = {
    "top_k": ("top_k", int),
    "top_p": ("top_p", float),
    "min_p": ("min_p", float),
    "xtc_probability": ("xtc_probability", float),
    "xtc_threshold": ("xtc_threshold", float),
    "temp": ("temperature", float),
    "penalty_last_n": ("repeat_last_n", int),
    "penalty_repeat": ("repeat_penalty", float),
    "mirostat": ("mirostat", int),
    "mirostat_tau": ("mirostat_tau", float),
    "mirostat_eta": ("mirostat_eta", float),
}


def recommended_sampling(metadata: Mapping[str, str]) -> SamplingParams:
    """The defaults of requests for this model; unreadable keys are logged."""
    found: dict[str, Any] = {}
    for key, (name, kind) in _FIELDS.items():
        text = metadata.get(_PREFIX + key)
        if text is None:
            continue
        try:
            found[name] = kind(float(text))
        except ValueError:
            _log.warning("%s%s is not a number: %s", _PREFIX, key, text)
    if sequence := metadata.get(_PREFIX + "sequence"):
        named = tuple(n for n in sequence.split(";") if n in DEFAULT_SAMPLERS)
        found["samplers"] = named or DEFAULT_SAMPLERS
    return replace(SamplingParams(), **found)
