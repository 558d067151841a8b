"""The fields of /completion: llama-server's names, aliases, defaults and ranges.

Where llama-server clips a value, so does this; where it refuses one, a 400 names the
field, the value and the limit. docs/llama-server.md repeats the table row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kinetic.web import readers
from kinetic.web.fields import KINETIC, LLAMA, RECEIPT, Field
from kinetic.web.readers import INT32_MAX, Unfit, flag, number, shown, texts, whole
from kinetic.web.sampling import MODEL_FILE

PROBABILITIES_MAX = 256
"""Alternatives per token: each costs memory until the answer is written."""
STOPS_MAX = 128
RESPONSE_FIELDS_MAX = 64
FLOAT_MAX = 1e9
"""Bound of numbers that llama-server leaves unbounded; far from float32's end."""
BIAS_MAX = 1e6
SEED_RANDOM = 2**32 - 1
"""llama.cpp's own way to ask for a fresh seed."""


def clipped(least: float, most: float) -> Callable[[Any], float]:
    """Any number, brought into a range as llama-server does it."""

    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Unfit
        return float(min(max(value, least), most))

    return read


def clipped_whole(least: int, most: int) -> Callable[[Any], int]:
    """Any whole number, brought into a range."""

    def read(value: Any) -> int:
        found: int = whole(-(10**30), 10**30)(value)
        return min(max(found, least), most)

    return read


def _n_predict(value: Any) -> int:
    found: int = whole(-1, 10**30)(value)
    return min(found, INT32_MAX)


def _n_probs(value: Any) -> int:
    if isinstance(value, bool):
        # The alias is a flag in OpenAI's chat API; llama-server reads it as 0 or 1.
        return int(value)
    found: int = whole(-INT32_MAX, PROBABILITIES_MAX)(value)
    return max(found, 0)


def _seed(value: Any) -> int | None:
    found: int = whole(-1, SEED_RANDOM)(value)
    return None if found in {-1, SEED_RANDOM} else found


def _dry_base(value: Any) -> float:
    found: float = number(-FLOAT_MAX, FLOAT_MAX)(value)
    return found if found >= 1 else 1.75


def _stops(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    read: tuple[str, ...] = texts(most=STOPS_MAX, most_chars=readers.STOP_CHARS_MAX)(
        value
    )
    return tuple(dict.fromkeys(read))


def _as_given(value: Any) -> Any:
    return value


SAMPLER_LETTERS = {
    "e": "penalties",
    "d": "dry",
    "s": "top_n_sigma",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "m": "min_p",
    "x": "xtc",
    "t": "temperature",
    "i": "infill",
    "a": "adaptive_p",
}
_NOT_SERVED = ("infill", "adaptive_p")
_SAMPLER_NAMES = {
    **{name: name for name in SAMPLER_LETTERS.values()},
    **{name.replace("_", ""): name for name in SAMPLER_LETTERS.values()},
    "nucleus": "top_p",
    "temp": "temperature",
    "typ": "typ_p",
    "typical_p": "typ_p",
}


def samplers(value: Any) -> tuple[str, ...]:
    """The filters to run, in order: names in a list, or letters in one string.

    Names and letters that llama.cpp does not know are skipped as llama-server does:
    clients still send those of samplers it once had. `generation_settings` tells what
    is run. Those it has and Kinetic has not are refused.
    """
    if isinstance(value, str):
        names = [SAMPLER_LETTERS.get(letter, "") for letter in value]
    elif isinstance(value, list) and all(isinstance(v, str) for v in value):
        tidy = [v.lower().replace("-", "_") for v in value]
        names = [_SAMPLER_NAMES.get(name, "") for name in tidy]
    else:
        raise Unfit
    for name in names:
        if name in _NOT_SERVED:
            raise Unfit(f"names {name}, which is not served")
    return tuple(name for name in names if name)


def _number(least: float, most: float) -> str:
    return f"a number, clipped to {least:g} to {most:g}"


_ANY = "a number"
_WHOLE_FROM_0 = f"a whole number from 0 to {INT32_MAX}"
_FLAG = "true or false"
any_number = number(-FLOAT_MAX, FLOAT_MAX)


def _field(
    name: str,
    read: readers.Reader,
    range_: str,
    default: str,
    meaning: str,
    *aliases: str,
) -> Field:
    return Field(
        name=name,
        read=read,
        range=range_,
        default=default,
        source=LLAMA,
        meaning=meaning,
        aliases=aliases,
    )


SAMPLING: tuple[Field, ...] = (
    _field(
        "temperature",
        clipped(0, FLOAT_MAX),
        "a number, clipped to 0 and above",
        MODEL_FILE + "0.8",
        "Divides the logits; 0 always takes the likeliest token.",
    ),
    _field(
        "dynatemp_range",
        any_number,
        _ANY,
        "0",
        "Lets the temperature vary by this much either way; 0 for none.",
    ),
    _field(
        "dynatemp_exponent",
        any_number,
        _ANY,
        "1",
        "How the varying temperature follows the entropy.",
    ),
    _field(
        "top_k",
        clipped_whole(0, INT32_MAX),
        "a whole number, clipped to 0 and above",
        MODEL_FILE + "40",
        "Keeps that many of the likeliest tokens; 0 keeps all.",
    ),
    _field(
        "top_p",
        clipped(0, 1),
        _number(0, 1),
        MODEL_FILE + "0.95",
        "Keeps the likeliest tokens that together reach this share.",
    ),
    _field(
        "min_p",
        clipped(0, 1),
        _number(0, 1),
        MODEL_FILE + "0.05",
        "Drops tokens less likely than this share of the likeliest one.",
    ),
    _field(
        "top_n_sigma",
        any_number,
        _ANY,
        "-1",
        "Keeps tokens within so many standard deviations of the best logit; below 0"
        " for none.",
    ),
    _field("typical_p", any_number, _ANY, "1", "Locally typical sampling; 1 for none."),
    _field(
        "xtc_probability",
        clipped(0, 1),
        _number(0, 1),
        MODEL_FILE + "0",
        "XTC: the chance of dropping the likeliest tokens.",
    ),
    _field(
        "xtc_threshold",
        clipped(0, 1),
        _number(0, 1),
        MODEL_FILE + "0.1",
        "XTC: how likely a token must be to be dropped.",
    ),
    _field(
        "repeat_last_n",
        whole(-1),
        f"a whole number from -1 to {INT32_MAX}",
        MODEL_FILE + "64",
        "Window of the penalties in tokens; 0 for none, -1 for the whole context"
        " (older versions of llama-server took it).",
    ),
    _field(
        "repeat_penalty",
        number(1e-6, FLOAT_MAX),
        "a number above 0",
        MODEL_FILE + "1",
        "Weakens tokens seen in the window; 1 for none.",
    ),
    _field(
        "frequency_penalty",
        any_number,
        _ANY,
        "0",
        "Taken from a token's logit for each time it is seen in the window.",
    ),
    _field(
        "presence_penalty",
        any_number,
        _ANY,
        "0",
        "Taken once from the logit of a token seen in the window.",
    ),
    _field(
        "dry_multiplier",
        any_number,
        _ANY,
        "0",
        "Strength of the DRY repetition penalty; 0 for none.",
    ),
    _field(
        "dry_base",
        _dry_base,
        "a number; below 1 it is 1.75",
        "1.75",
        "DRY: how fast the penalty grows with the repeat's length.",
    ),
    _field(
        "dry_allowed_length",
        whole(0),
        _WHOLE_FROM_0,
        "2",
        "DRY: the longest repeat, in tokens, that costs nothing.",
    ),
    _field(
        "dry_penalty_last_n",
        whole(-1),
        f"a whole number from -1 to {INT32_MAX}",
        "-1",
        "DRY: window in tokens; 0 for none, -1 for the whole context.",
    ),
    _field(
        "dry_sequence_breakers",
        texts(least=1, most=32, most_chars=40),
        "a list of 1 to 32 strings of 1 to 40 characters",
        '`["\\n", ":", "\\"", "*"]`',
        "DRY: texts that no repeat reaches across.",
    ),
    _field(
        "mirostat",
        clipped_whole(0, 2),
        "a whole number, clipped to 0 to 2",
        MODEL_FILE + "0",
        "Mirostat of this version in place of penalties and filters; 0 for none.",
    ),
    _field(
        "mirostat_tau",
        any_number,
        _ANY,
        MODEL_FILE + "5",
        "Mirostat: the surprise to aim at, in bits.",
    ),
    _field(
        "mirostat_eta",
        any_number,
        _ANY,
        MODEL_FILE + "0.1",
        "Mirostat: how fast it learns.",
    ),
    _field(
        "min_keep",
        whole(0),
        _WHOLE_FROM_0,
        "0",
        "Tokens that the filters leave at least.",
    ),
    _field(
        "samplers",
        samplers,
        "a list of names, or a string of letters",
        MODEL_FILE + "llama.cpp's order",
        "The filters to run, in order; what is left out is not run, what llama.cpp"
        " does not know is skipped.",
    ),
    _field(
        "seed",
        _seed,
        f"a whole number from -1 to {SEED_RANDOM}",
        "-1",
        "Repeats a sampled answer; -1 and 4294967295 draw a fresh one.",
    ),
    _field(
        "logit_bias",
        readers.logit_bias(-BIAS_MAX, BIAS_MAX),
        f"pairs `[token, bias]` or an object; biases from {-BIAS_MAX:g} to"
        f" {BIAS_MAX:g} or false, at most {readers.BIASES_MAX}",
        "none",
        "Added to the logits of tokens, named by id or by text (then each token of"
        " it); false bans.",
    ),
    _field("ignore_eos", flag, _FLAG, "false", "Bans every token that ends an answer."),
)
"""How tokens are drawn."""

REQUEST: tuple[Field, ...] = (
    _field(
        "prompt",
        _as_given,
        "text, token ids, a mix of both in a list, an object with `prompt_string`, or"
        " a list of these",
        "required",
        "Continued exactly as written; a list without bare ids is several prompts.",
    ),
    _field(
        "n_predict",
        _n_predict,
        f"a whole number from -1 to {INT32_MAX}",
        "the server's `-n`, else -1",
        "Most tokens to generate; -1 is until the answer ends or the context is full,"
        " 0 generates none.",
        "max_completion_tokens",
        "max_tokens",
    ),
    _field(
        "n_cmpl",
        whole(1),
        "a whole number from 1 to the server's slots",
        "1",
        "Answers per prompt.",
        "n",
    ),
    _field("stream", flag, _FLAG, "false", "Sends the answer as server-sent events."),
    _field(
        "stop",
        _stops,
        f"a string or a list of at most {STOPS_MAX}",
        "none",
        "Texts that end the answer.",
    ),
    _field(
        "n_probs",
        _n_probs,
        f"a whole number up to {PROBABILITIES_MAX}",
        "0",
        "Adds that many of the likeliest tokens, with log-probabilities, to each"
        " token of the answer.",
        "logprobs",
    ),
    _field(
        "post_sampling_probs",
        flag,
        _FLAG,
        "false",
        "With `n_probs`: probabilities behind the samplers in place of the raw ones.",
    ),
    _field("grammar", readers.text, "a string", "none", "A GBNF grammar to follow."),
    _field(
        "json_schema",
        _as_given,
        "an object",
        "none",
        "A JSON Schema that the answer follows; `{}` is any JSON object.",
    ),
    _field(
        "id_slot",
        whole(-1),
        f"a whole number from -1 to {INT32_MAX}",
        "-1",
        "The slot to use, waited for where it is busy; taken modulo the number of"
        " slots. -1 for any.",
    ),
    _field("return_tokens", flag, _FLAG, "false", "Fills `tokens` of a whole answer."),
    _field(
        "return_progress",
        flag,
        _FLAG,
        "false",
        "Streams `prompt_progress` while the prompt is run.",
    ),
    _field(
        "timings_per_token", flag, _FLAG, "false", "Puts `timings` into every event."
    ),
    _field(
        "response_fields",
        texts(most=RESPONSE_FIELDS_MAX, most_chars=256),
        f"a list of at most {RESPONSE_FIELDS_MAX} strings",
        "all",
        'Keeps these fields of the final object; `"a/b"` picks one out of an object.',
    ),
    _field(
        "n_indent",
        whole(0),
        _WHOLE_FROM_0,
        "0",
        "Ends the answer at a new line with fewer leading blanks.",
    ),
    _field(
        "t_max_predict_ms",
        whole(-1, 2**63 - 1),
        "a whole number of milliseconds, -1 or above",
        "-1",
        "Ends the answer at the first new line after this time; 0 and below for none.",
    ),
    _field(
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
        range=_WHOLE_FROM_0,
        default="0",
        source=LLAMA,
        meaning="As `n_keep`.",
    ),
    Field(
        name="n_cache_reuse",
        read=whole(0),
        range=_WHOLE_FROM_0,
        default="0",
        source=LLAMA,
        meaning="Accepted: reuse of kept tokens never changes an answer and needs no"
        " setting.",
    ),
    Field(
        name="cache_prompt",
        read=flag,
        range=_FLAG,
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
}


def refusal(name: str, value: Any) -> str | None:
    """Why a field cannot be served with this value; None where it can."""
    refused = REFUSED.get(name)
    if refused is None or value is None or value is False or value in ("", [], {}):
        return None
    if any(value == v and not isinstance(value, bool) for v in refused.neutral):
        return None
    return f"{name} is {shown(value)}, and that is not supported: {refused.reason}"
