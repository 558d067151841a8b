"""The fields of sampling, and what they and the model's defaults come to.

All three APIs take them under the same names.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields as dataclass_fields, replace
from typing import Any

from kinetic.errors import RequestError, about
from kinetic.types import SamplingParams
from kinetic.web.fields import readers
from kinetic.web.fields.readers import Bias, number, shown, whole
from kinetic.web.fields.tables import LLAMA, OPENAI, Field

MODEL_FILE = "the model file's, else "

SAMPLING: tuple[Field, ...] = (
    Field(
        name="temperature",
        read=number(0, 100),
        range="a number from 0 to 100",
        default=MODEL_FILE + "0.8",
        source=OPENAI,
        meaning="Divides the logits; 0 always takes the likeliest token.",
    ),
    Field(
        name="top_p",
        read=number(0, 1),
        range="a number from 0 to 1",
        default=MODEL_FILE + "0.95",
        source=OPENAI,
        meaning="Keeps the likeliest tokens that together reach this share; 1 keeps"
        " all.",
    ),
    Field(
        name="top_k",
        read=whole(-readers.INT32_MAX),
        range="a whole number from -2147483647 to 2147483647",
        default=MODEL_FILE + "40",
        source=LLAMA,
        meaning="Keeps that many of the likeliest tokens; 0 or below keeps all.",
    ),
    Field(
        name="min_p",
        read=number(0, 1),
        range="a number from 0 to 1",
        default=MODEL_FILE + "0.05",
        source=LLAMA,
        meaning="Drops tokens less likely than this share of the likeliest one; 0"
        " keeps all.",
    ),
    Field(
        name="typical_p",
        read=number(0, 1),
        range="a number from 0 to 1",
        default="1",
        source=LLAMA,
        meaning="Locally typical sampling; 1 for none.",
    ),
    Field(
        name="top_n_sigma",
        read=number(-1, 1000),
        range="a number from -1 to 1000",
        default="-1",
        source=LLAMA,
        meaning="Keeps tokens within so many standard deviations of the best logit; 0"
        " or below for none.",
    ),
    Field(
        name="xtc_probability",
        read=number(0, 1),
        range="a number from 0 to 1",
        default=MODEL_FILE + "0",
        source=LLAMA,
        meaning="XTC: with this chance, drops every token at least `xtc_threshold`"
        " likely but the least likely of them.",
    ),
    Field(
        name="xtc_threshold",
        read=number(0, 1),
        range="a number from 0 to 1",
        default=MODEL_FILE + "0.1",
        source=LLAMA,
        meaning="See `xtc_probability`; above 0.5 it does nothing.",
    ),
    Field(
        name="repeat_penalty",
        read=number(0.01, 100),
        range="a number from 0.01 to 100",
        default=MODEL_FILE + "1",
        source=LLAMA,
        meaning="Divides positive and multiplies negative logits of tokens seen in the"
        " window; 1 for none.",
        aliases=("repetition_penalty",),
    ),
    Field(
        name="presence_penalty",
        read=number(-2, 2),
        range="a number from -2 to 2",
        default="0",
        source=OPENAI,
        meaning="Taken once from the logit of a token seen in the window.",
    ),
    Field(
        name="frequency_penalty",
        read=number(-2, 2),
        range="a number from -2 to 2",
        default="0",
        source=OPENAI,
        meaning="Taken from a token's logit for each time it is seen in the window.",
    ),
    Field(
        name="repeat_last_n",
        read=whole(-1),
        range="a whole number from -1 to 2147483647",
        default=MODEL_FILE + "64",
        source=LLAMA,
        meaning="Window of the three penalties in tokens, the prompt's included; 0 for"
        " none, -1 for the whole context.",
    ),
    Field(
        name="dry_multiplier",
        read=number(0, 100),
        range="a number from 0 to 100",
        default="0",
        source=LLAMA,
        meaning="Strength of the DRY repetition penalty; 0 for none.",
    ),
    Field(
        name="dry_base",
        read=number(1, 100),
        range="a number from 1 to 100",
        default="1.75",
        source=LLAMA,
        meaning="DRY: how fast the penalty grows with the repeat's length.",
    ),
    Field(
        name="dry_allowed_length",
        read=whole(0),
        range="a whole number from 0 to 2147483647",
        default="2",
        source=LLAMA,
        meaning="DRY: the longest repeat, in tokens, that costs nothing.",
    ),
    Field(
        name="dry_penalty_last_n",
        read=whole(-1),
        range="a whole number from -1 to 2147483647",
        default="-1",
        source=LLAMA,
        meaning="DRY: window in tokens; 0 for none, -1 for the whole context.",
    ),
    Field(
        name="dry_sequence_breakers",
        read=readers.breakers,
        range=readers.BREAKERS_RANGE,
        default='`["\\n", ":", "\\"", "*"]`',
        source=LLAMA,
        meaning="DRY: texts that no repeat reaches across.",
    ),
    Field(
        name="mirostat",
        read=readers.one_of(0, 1, 2),
        range="0, 1 or 2",
        default=MODEL_FILE + "0",
        source=LLAMA,
        meaning="Mirostat of this version in place of penalties and filters; 0 for"
        " none.",
    ),
    Field(
        name="mirostat_tau",
        read=number(0, 100),
        range="a number from 0 to 100",
        default=MODEL_FILE + "5",
        source=LLAMA,
        meaning="Mirostat: the surprise to aim at, in bits.",
    ),
    Field(
        name="mirostat_eta",
        read=number(0, 1),
        range="a number from 0 to 1",
        default=MODEL_FILE + "0.1",
        source=LLAMA,
        meaning="Mirostat: how fast it learns.",
    ),
    Field(
        name="dynatemp_range",
        read=number(0, 100),
        range="a number from 0 to 100",
        default="0",
        source=LLAMA,
        meaning="Lets the temperature vary by this much either way with the"
        " distribution's entropy; 0 for none.",
    ),
    Field(
        name="dynatemp_exponent",
        read=number(0, 100),
        range="a number from 0 to 100",
        default="1",
        source=LLAMA,
        meaning="How the varying temperature follows the entropy.",
    ),
    Field(
        name="min_keep",
        read=whole(0),
        range="a whole number from 0 to 2147483647",
        default="0",
        source=LLAMA,
        meaning="Tokens that typical_p, top_p, min_p and XTC leave at least.",
    ),
    Field(
        name="samplers",
        read=readers.samplers,
        range="a list of sampler names, or their letters in one string",
        default=MODEL_FILE + "llama.cpp's order",
        source=LLAMA,
        meaning="The filters to run, in order; what is left out is not run.",
    ),
)
"""Fields that `SamplingParams` holds under the same names, checked one by one."""

DRAWING: tuple[Field, ...] = (
    Field(
        name="seed",
        read=readers.seed,
        range=f"a whole number from -1 to {readers.SEED_MAX}",
        default="-1",
        source=OPENAI,
        meaning="Repeats a sampled answer; -1 draws a fresh one.",
    ),
    Field(
        name="logit_bias",
        read=readers.logit_bias(),
        range="an object of token to bias, or a list of such pairs; biases from -100 to"
        f" 100 or false, at most {readers.BIASES_MAX}",
        default="none",
        source=OPENAI,
        meaning="Added to the logits of tokens, named by id or by text (then each token"
        " of it); -100 and false ban.",
    ),
    Field(
        name="ignore_eos",
        read=readers.flag,
        range="true or false",
        default="false",
        source=LLAMA,
        meaning="Bans every token that ends an answer.",
    ),
)
"""Fields of sampling that take more than copying."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What reading a request needs to know of the served model."""

    n_tokens: int
    """Size of the vocabulary."""
    tokenize: Callable[[str], Sequence[int]]
    """Token ids of text without markers; for logit biases that name tokens by text."""
    detokenize: Callable[[Sequence[int]], bytes]
    """Text of token ids that are known to be the vocabulary's; for echoed prompts."""
    piece: Callable[[int], bytes]
    """Bytes of one token as it stands inside a text."""
    sampling: SamplingParams
    """What fields that are not given default to."""
    ends: Sequence[int] = ()
    """Tokens that end an answer, which `ignore_eos` bans."""
    n_slots: int = 1
    n_at_once: int | None = None
    """Answers that the slots and the waiting line hold together; None: no bound."""
    max_tokens: int | None = None
    """The server's own limit of an answer whose request names none."""
    has_vision: bool = False


def sampling_params(values: Mapping[str, Any], facts: ModelFacts) -> SamplingParams:
    """What the fields of SAMPLING and DRAWING ask for, over the model's defaults.

    A seed that is not given is drawn here, so that everything later is determined.
    """
    known = {f.name for f in dataclass_fields(SamplingParams)} - {"seed", "logit_bias"}
    given = {name: value for name, value in values.items() if name in known}
    drawn = values.get("seed")
    if drawn is None:
        drawn = secrets.randbelow(readers.SEED_MAX + 1)
    biases = bias_by_id(values.get("logit_bias", ()), facts)
    return replace(facts.sampling, **given, seed=drawn, logit_bias=biases)


def bias_by_id(
    biases: Sequence[Bias], facts: ModelFacts
) -> tuple[tuple[int, float], ...]:
    """Biases by token id: texts become their tokens, several biases of one add up.

    Raises RequestError for ids that the model has not, and texts of no tokens.
    """
    sums: dict[int, float] = {}
    for key, bias in biases:
        if isinstance(key, str):
            with about("logit_bias"):
                tokens = facts.tokenize(key)
            if not tokens:
                message = f"logit_bias names {shown(key)}, which is no token"
                raise RequestError(message, param="logit_bias")
        elif 0 <= key < facts.n_tokens:
            tokens = (key,)
        else:
            message = (
                f"logit_bias names token id {shown(key)}; ids are 0 to"
                f" {facts.n_tokens - 1}"
            )
            raise RequestError(message, param="logit_bias")
        for token in tokens:
            sums[token] = sums.get(token, 0.0) + bias
    return tuple(sorted(sums.items()))
