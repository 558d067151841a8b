"""The fields of /completion beside sampling, and the fields refused.

Names, aliases, defaults and ranges are llama-server's. docs/llama-server.md repeats the
tables row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kinetic.web.fields import readers
from kinetic.web.fields.readers import INT32_MAX, flag, shown, texts, whole
from kinetic.web.fields.tables import KINETIC, LLAMA, RECEIPT, Field
from kinetic.web.llama_server.sampling import (
    FLAG,
    SAMPLING,
    WHOLE_FROM_0,
    native_field,
)

PROBABILITIES_MAX = 256
"""Alternatives per token: each costs memory until the answer is written."""
STOPS_MAX = 128
RESPONSE_FIELDS_MAX = 64


def _n_predict(value: Any) -> int:
    found: int = whole(-1, 10**30)(value)
    return min(found, INT32_MAX)


def _n_probs(value: Any) -> int:
    if isinstance(value, bool):
        # The alias is a flag in OpenAI's chat API; llama-server reads it as 0 or 1.
        return int(value)
    found: int = whole(-INT32_MAX, PROBABILITIES_MAX)(value)
    return max(found, 0)


def _stops(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    read: tuple[str, ...] = texts(most=STOPS_MAX, most_chars=readers.STOP_CHARS_MAX)(
        value
    )
    return tuple(dict.fromkeys(read))


def _as_given(value: Any) -> Any:
    return value


REQUEST: tuple[Field, ...] = (
    native_field(
        "prompt",
        _as_given,
        "text, token ids, a mix of both in a list, an object with `prompt_string`, or"
        " a list of these",
        "required",
        "Continued exactly as written; a list without bare ids is several prompts.",
    ),
    native_field(
        "n_predict",
        _n_predict,
        f"a whole number from -1 to {INT32_MAX}",
        "the server's `-n`, else -1",
        "Most tokens to generate; -1 is until the answer ends or the context is full,"
        " 0 generates none.",
        "max_completion_tokens",
        "max_tokens",
    ),
    native_field(
        "n_cmpl",
        whole(1),
        "a whole number from 1 to the server's slots",
        "1",
        "Answers per prompt.",
        "n",
    ),
    native_field(
        "stream", flag, FLAG, "false", "Sends the answer as server-sent events."
    ),
    native_field(
        "stop",
        _stops,
        f"a string or a list of at most {STOPS_MAX} strings, each of 1 to"
        f" {readers.STOP_CHARS_MAX} characters",
        "none",
        "Texts that end the answer.",
    ),
    native_field(
        "n_probs",
        _n_probs,
        f"a whole number up to {PROBABILITIES_MAX}",
        "0",
        "Adds that many of the likeliest tokens, with log-probabilities, to each"
        " token of the answer.",
        "logprobs",
    ),
    native_field(
        "post_sampling_probs",
        flag,
        FLAG,
        "false",
        "With `n_probs`: probabilities behind the samplers in place of the raw ones.",
    ),
    native_field(
        "grammar", readers.text, "a string", "none", "A GBNF grammar to follow."
    ),
    native_field(
        "json_schema",
        _as_given,
        "an object",
        "none",
        "A JSON Schema that the answer follows; `{}` is any JSON object.",
    ),
    native_field(
        "id_slot",
        whole(-1),
        f"a whole number from -1 to {INT32_MAX}",
        "-1",
        "The slot to use, waited for where it is busy; taken modulo the number of"
        " slots. -1 for any.",
    ),
    native_field(
        "return_tokens", flag, FLAG, "false", "Fills `tokens` of a whole answer."
    ),
    native_field(
        "return_progress",
        flag,
        FLAG,
        "false",
        "Streams `prompt_progress` while the prompt is run.",
    ),
    native_field(
        "timings_per_token", flag, FLAG, "false", "Puts `timings` into every event."
    ),
    native_field(
        "response_fields",
        texts(most=RESPONSE_FIELDS_MAX, most_chars=256),
        f"a list of at most {RESPONSE_FIELDS_MAX} strings",
        "all",
        'Keeps these fields of the final object; `"a/b"` picks one out of an object.',
    ),
    native_field(
        "n_indent",
        whole(0),
        WHOLE_FROM_0,
        "0",
        "Ends the answer at a new line with fewer leading blanks.",
    ),
    native_field(
        "t_max_predict_ms",
        whole(-1, 2**63 - 1),
        "a whole number of milliseconds, -1 or above",
        "-1",
        "Ends the answer at the first new line after this time; 0 and below for none.",
    ),
    native_field(
        "sse_ping_interval",
        whole(-1),
        f"a whole number of seconds from -1 to {INT32_MAX}",
        "30",
        "Sends a comment line after that much silence of a stream; 0 and below for"
        " none.",
    ),
    Field(
        name="n_keep",
        read=whole(-1),
        range=f"a whole number from -1 to {INT32_MAX}",
        default="0",
        source=LLAMA,
        meaning="Accepted and shown; a context is never shifted, so nothing is kept or"
        " discarded.",
    ),
    Field(
        name="n_discard",
        read=whole(0),
        range=WHOLE_FROM_0,
        default="0",
        source=LLAMA,
        meaning="As `n_keep`.",
    ),
    Field(
        name="n_cache_reuse",
        read=whole(0),
        range=WHOLE_FROM_0,
        default="0",
        source=LLAMA,
        meaning="Accepted: reuse of kept tokens never changes an answer and needs no"
        " setting.",
    ),
    Field(
        name="cache_prompt",
        read=flag,
        range=FLAG,
        default="true",
        source=KINETIC,
        meaning="Accepted: kept tokens are always reused, exactly.",
    ),
    RECEIPT,
)
"""What else /completion takes."""

COMPLETION: tuple[Field, ...] = (*REQUEST, *SAMPLING)


@dataclass(frozen=True, slots=True)
class Refused:
    """A field that would change the answer in llama-server and is not served here."""

    reason: str
    neutral: tuple[object, ...] = ()
    """Values that ask for nothing, beside null, false, "", [] and {}."""


REFUSED: Mapping[str, Refused] = {
    "grammar_lazy": Refused("grammars hold from the first token on"),
    "grammar_triggers": Refused("grammars hold from the first token on"),
    "preserved_tokens": Refused("control tokens are never text here"),
    "lora": Refused("no adapters are served"),
    "reasoning_budget_tokens": Refused("reasoning has no limit of its own", (-1,)),
    "reasoning_control": Refused("reasoning has no limit of its own"),
    "echo": Refused("use echo of /v1/completions"),
    "response_format": Refused("use json_schema or grammar", ({"type": "text"},)),
    "format": Refused("use json_schema or grammar"),
}


def refusal(name: str, value: Any) -> str | None:
    """Why a field cannot be served with this value; None where it can."""
    refused = REFUSED.get(name)
    if refused is None or value is None or value is False or value in ("", [], {}):
        return None
    if any(value == v and not isinstance(value, bool) for v in refused.neutral):
        return None
    return f"{name} is {shown(value)}, and that is not supported: {refused.reason}"
