"""How /completion's tokens are drawn: llama-server's fields, defaults and ranges.

Where llama-server clips a value, so does this; where it refuses one, a 400 names the
field, the value and the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinetic.web.fields import readers
from kinetic.web.fields.readers import (
    BREAKERS_RANGE,
    INT32_MAX,
    Unfit,
    breakers,
    flag,
    number,
    whole,
)
from kinetic.web.fields.sampling import MODEL_FILE
from kinetic.web.fields.tables import LLAMA, Field

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


def _seed(value: Any) -> int | None:
    found: int = whole(-1, SEED_RANDOM)(value)
    return None if found in {-1, SEED_RANDOM} else found


def _dry_base(value: Any) -> float:
    found: float = number(-FLOAT_MAX, FLOAT_MAX)(value)
    return found if found >= 1 else 1.75


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


ANY = "a number"
WHOLE_FROM_0 = f"a whole number from 0 to {INT32_MAX}"
FLAG = "true or false"
any_number = number(-FLOAT_MAX, FLOAT_MAX)


def native_field(
    name: str,
    read: readers.Reader,
    range_: str,
    default: str,
    meaning: str,
    *aliases: str,
) -> Field:
    """A field that is llama-server's in name and meaning."""
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
    native_field(
        "temperature",
        clipped(0, FLOAT_MAX),
        "a number, clipped to 0 and above",
        MODEL_FILE + "0.8",
        "Divides the logits; 0 always takes the likeliest token.",
    ),
    native_field(
        "dynatemp_range",
        any_number,
        ANY,
        "0",
        "Lets the temperature vary by this much either way; 0 for none.",
    ),
    native_field(
        "dynatemp_exponent",
        any_number,
        ANY,
        "1",
        "How the varying temperature follows the entropy.",
    ),
    native_field(
        "top_k",
        clipped_whole(0, INT32_MAX),
        "a whole number, clipped to 0 and above",
        MODEL_FILE + "40",
        "Keeps that many of the likeliest tokens; 0 keeps all.",
    ),
    native_field(
        "top_p",
        clipped(0, 1),
        _number(0, 1),
        MODEL_FILE + "0.95",
        "Keeps the likeliest tokens that together reach this share.",
    ),
    native_field(
        "min_p",
        clipped(0, 1),
        _number(0, 1),
        MODEL_FILE + "0.05",
        "Drops tokens less likely than this share of the likeliest one.",
    ),
    native_field(
        "top_n_sigma",
        any_number,
        ANY,
        "-1",
        "Keeps tokens within so many standard deviations of the best logit; below 0"
        " for none.",
    ),
    native_field(
        "typical_p", any_number, ANY, "1", "Locally typical sampling; 1 for none."
    ),
    native_field(
        "xtc_probability",
        clipped(0, 1),
        _number(0, 1),
        MODEL_FILE + "0",
        "XTC: the chance of dropping the likeliest tokens.",
    ),
    native_field(
        "xtc_threshold",
        clipped(0, 1),
        _number(0, 1),
        MODEL_FILE + "0.1",
        "XTC: how likely a token must be to be dropped.",
    ),
    native_field(
        "repeat_last_n",
        whole(-1),
        f"a whole number from -1 to {INT32_MAX}",
        MODEL_FILE + "64",
        "Window of the penalties in tokens; 0 for none, -1 for the whole context"
        " (older versions of llama-server took it).",
    ),
    native_field(
        "repeat_penalty",
        number(1e-6, FLOAT_MAX),
        "a number above 0",
        MODEL_FILE + "1",
        "Weakens tokens seen in the window; 1 for none.",
    ),
    native_field(
        "frequency_penalty",
        any_number,
        ANY,
        "0",
        "Taken from a token's logit for each time it is seen in the window.",
    ),
    native_field(
        "presence_penalty",
        any_number,
        ANY,
        "0",
        "Taken once from the logit of a token seen in the window.",
    ),
    native_field(
        "dry_multiplier",
        any_number,
        ANY,
        "0",
        "Strength of the DRY repetition penalty; 0 for none.",
    ),
    native_field(
        "dry_base",
        _dry_base,
        "a number; below 1 it is 1.75",
        "1.75",
        "DRY: how fast the penalty grows with the repeat's length.",
    ),
    native_field(
        "dry_allowed_length",
        whole(0),
        WHOLE_FROM_0,
        "2",
        "DRY: the longest repeat, in tokens, that costs nothing.",
    ),
    native_field(
        "dry_penalty_last_n",
        whole(-1),
        f"a whole number from -1 to {INT32_MAX}",
        "-1",
        "DRY: window in tokens; 0 for none, -1 for the whole context.",
    ),
    native_field(
        "dry_sequence_breakers",
        breakers,
        BREAKERS_RANGE,
        '`["\\n", ":", "\\"", "*"]`',
        "DRY: texts that no repeat reaches across.",
    ),
    native_field(
        "mirostat",
        clipped_whole(0, 2),
        "a whole number, clipped to 0 to 2",
        MODEL_FILE + "0",
        "Mirostat of this version in place of penalties and filters; 0 for none.",
    ),
    native_field(
        "mirostat_tau",
        any_number,
        ANY,
        MODEL_FILE + "5",
        "Mirostat: the surprise to aim at, in bits.",
    ),
    native_field(
        "mirostat_eta",
        any_number,
        ANY,
        MODEL_FILE + "0.1",
        "Mirostat: how fast it learns.",
    ),
    native_field(
        "min_keep",
        whole(0),
        WHOLE_FROM_0,
        "0",
        "Tokens that the filters leave at least.",
    ),
    native_field(
        "samplers",
        samplers,
        "a list of names, or a string of letters",
        MODEL_FILE + "llama.cpp's order",
        "The filters to run, in order; what is left out is not run, what llama.cpp"
        " does not know is skipped.",
    ),
    native_field(
        "seed",
        _seed,
        f"a whole number from -1 to {SEED_RANDOM}",
        "-1",
        "Repeats a sampled answer; -1 and 4294967295 draw a fresh one.",
    ),
    native_field(
        "logit_bias",
        readers.logit_bias(-BIAS_MAX, BIAS_MAX),
        f"pairs `[token, bias]` or an object; biases from {-BIAS_MAX:g} to"
        f" {BIAS_MAX:g} or false, at most {readers.BIASES_MAX}",
        "none",
        "Added to the logits of tokens, named by id or by text (then each token of"
        " it); false bans.",
    ),
    native_field(
        "ignore_eos", flag, FLAG, "false", "Bans every token that ends an answer."
    ),
)
"""How tokens are drawn."""
