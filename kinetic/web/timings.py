"""Times and speeds of an answer under llama-server's names. Pure."""

from __future__ import annotations

from typing import Any

from kinetic.types import Timings, Usage

Json = dict[str, Any]


def timings_json(usage: Usage, timings: Timings) -> Json:
    """Times and speeds of one answer under llama-server's names; all finite.

    Drafts are told only where there were some.
    """
    n_run = usage.n_prompt - usage.n_cached
    # The first token comes with the prompt, so one step less was waited for.
    n_steps = max(usage.n_generated - 1, 0)
    found = {
        "cache_n": usage.n_cached,
        "prompt_n": n_run,
        **_speed("prompt", n_run, timings.prompt_s),
        "predicted_n": usage.n_generated,
        **_speed("predicted", n_steps, timings.predicted_s),
    }
    if usage.n_drafted:
        found["draft_n"] = usage.n_drafted
        found["draft_n_accepted"] = usage.n_accepted
    return found


def _speed(name: str, count: int, seconds: float) -> Json:
    ms = seconds * 1000
    return {
        f"{name}_ms": round(ms, 3),
        f"{name}_per_token_ms": round(ms / count, 3) if count else 0.0,
        f"{name}_per_second": round(count / seconds, 3) if seconds > 0 else 0.0,
    }
