"""From llama-server's bodies to typed values. Pure: every 4xx about fields is here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.types import ConstraintSpec, GenerationRequest, TextInput
from kinetic.web.fields import constraints
from kinetic.web.fields.readers import flag, shown
from kinetic.web.fields.sampling import ModelFacts, sampling_params
from kinetic.web.fields.tables import Field, FieldReader
from kinetic.web.llama_server.fields import COMPLETION, refusal

PROMPTS_MAX = 64
ANSWERS_MAX = 128

TEXTS_MAX = 10_000
"""Texts among token ids: each is tokenised on its own, whatever its length."""

DETOKENIZED_MAX = 2_000_000
"""Ids that are made text at once: some seconds, and hundreds of megabytes."""

_COMPLETION = FieldReader.of(COMPLETION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A request, and how its answer is to be written."""

    request: GenerationRequest
    is_list: bool
    """Several answers were asked for: they come as an array."""
    stream: bool = False
    return_tokens: bool = False
    return_progress: bool = False
    timings_per_token: bool = False
    response_fields: tuple[str, ...] = ()
    ping_s: float | None = 30.0
    """Silence of a stream after which a comment line is sent; None: never."""


def read_completion(
    body: Mapping[str, Any], facts: ModelFacts, *, request_id: str, arrived_s: float
) -> Completion:
    """Read a body of /completion.

    Raises RequestError naming field, value and limit. Unknown fields are let pass,
    as llama-server does.
    """
    for name, value in body.items():
        if message := refusal(name, value):
            raise UnsupportedFeature(message, param=name)
    values = _COMPLETION.read(body)
    if "prompt" not in values:
        raise RequestError("prompt is missing", param="prompt")
    prompts = read_prompts(values["prompt"])
    n = _n(values, facts, len(prompts))
    stream = values.get("stream", False)
    progress = values.get("return_progress", False)
    per_token = values.get("timings_per_token", False)
    ping = values.get("sse_ping_interval", 30)
    most_ms = values.get("t_max_predict_ms", -1)
    request = GenerationRequest(
        request_id=request_id,
        inputs=prompts,
        sampling=sampling_params(values, facts),
        n=n,
        max_tokens=_max_tokens(values, facts),
        stops=values.get("stop", ()),
        constraint=_constraint(values),
        n_logprobs=values.get("n_probs") or None,
        post_sampling_probs=values.get("post_sampling_probs", False),
        ignore_eos=values.get("ignore_eos", False),
        stop_at_newline_after_s=most_ms / 1000 if most_ms > 0 else None,
        min_indent=values.get("n_indent", 0),
        slot_id=_slot_id(values, facts),
        progress=stream and (progress or per_token),
        settings=_settings(values),
        receipt=values.get("receipt", False),
        arrived_s=arrived_s,
    )
    return Completion(
        request=request,
        is_list=len(prompts) * n > 1,
        stream=stream,
        return_tokens=values.get("return_tokens", False),
        return_progress=progress,
        timings_per_token=per_token,
        response_fields=values.get("response_fields", ()),
        ping_s=float(ping) if ping > 0 else None,
    )


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """What generation_settings shows and the engine does not need."""
    return {
        "n_keep": values.get("n_keep", 0),
        "n_discard": values.get("n_discard", 0),
        "stream": values.get("stream", False),
        "grammar": values.get("grammar", ""),
        "timings_per_token": values.get("timings_per_token", False),
    }


# --- Prompts ------------------------------------------------------------------------


def read_prompts(value: Any) -> tuple[TextInput, ...]:
    """The prompts: one where text or a list with bare ids is given, else a list.

    Raises RequestError naming the item that is wrong.
    """
    if not isinstance(value, list) or any(_is_id(item) for item in value):
        return (_prompt(value, "prompt"),)
    if not value:
        raise RequestError("prompt must not be an empty list", param="prompt")
    if len(value) > PROMPTS_MAX:
        message = f"prompt holds {len(value)} prompts; at most {PROMPTS_MAX} are taken"
        raise RequestError(message, param="prompt")
    return tuple(_prompt(item, f"prompt[{i}]") for i, item in enumerate(value))


def _prompt(value: Any, where: str) -> TextInput:
    if isinstance(value, dict) and "prompt_string" in value:
        if value.get("multimodal_data"):
            message = f"{where}.multimodal_data: this route reads text only"
            raise UnsupportedFeature(message, param=where)
        return _prompt(value["prompt_string"], f"{where}.prompt_string")
    return TextInput(prompt=read_mixed(value, where))


def read_mixed(value: Any, where: str) -> str | tuple[int | str, ...]:
    """Text, token ids, or both in a list; raises RequestError."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        message = f"{where} must be text or a list of token ids, not {shown(value)}"
        raise RequestError(message, param=where)
    for i, item in enumerate(value):
        if not isinstance(item, str) and not _is_id(item):
            at = f"{where}[{i}]"
            message = f"{at} must be a token id or text, not {shown(item)}"
            raise RequestError(message, param=at)
    n_texts = sum(isinstance(item, str) for item in value)
    if n_texts > TEXTS_MAX:
        message = f"{where} holds {n_texts} texts; at most {TEXTS_MAX} are taken"
        raise RequestError(message, param=where)
    return tuple(value)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# --- Parts of a request -------------------------------------------------------------


def _n(values: Mapping[str, Any], facts: ModelFacts, n_prompts: int) -> int:
    n: int = values.get("n_cmpl", 1)
    if n > facts.n_slots:
        message = f"n_cmpl is {n}; it must be from 1 to the {facts.n_slots} slots"
        raise RequestError(message, param="n_cmpl")
    most = min(ANSWERS_MAX, facts.n_at_once or ANSWERS_MAX)
    if n * n_prompts > most:
        message = (
            f"n_cmpl times the number of prompts is {n * n_prompts}; at most"
            f" {most} answers are made at once"
        )
        raise RequestError(message, param="n_cmpl")
    return n


def _max_tokens(values: Mapping[str, Any], facts: ModelFacts) -> int | None:
    given: int | None = values.get("n_predict")
    if given is None:
        return facts.max_tokens
    return None if given < 0 else given


def _slot_id(values: Mapping[str, Any], facts: ModelFacts) -> int | None:
    slot: int = values.get("id_slot", -1)
    return None if slot < 0 else slot % facts.n_slots


def _constraint(values: Mapping[str, Any]) -> ConstraintSpec | None:
    given: dict[str, ConstraintSpec | None] = {}
    if values.get("grammar"):
        given["grammar"] = constraints.gbnf(values["grammar"])
    if "json_schema" in values:
        schema = values["json_schema"]
        # Nothing in it asks for any object, as llama-server reads it.
        asked = {"type": "object"} if schema == {} else schema
        given["json_schema"] = constraints.json_of(asked, param="json_schema")
    found = constraints.only_one(given)
    if found is not None and values.get("ignore_eos"):
        message = (
            f"ignore_eos cannot be combined with {found.param}, behind whose end"
            " nothing may follow"
        )
        raise RequestError(message, param="ignore_eos")
    return found


# --- Small endpoints ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenize:
    """A body of /tokenize."""

    content: str | tuple[int | str, ...]
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


def _flag(name: str, default: str) -> Field:
    return Field(
        name=name,
        read=flag,
        range="true or false",
        default=default,
        source="llama-server",
        meaning="",
    )


_TOKENIZE = FieldReader.of(
    (
        _flag("add_special", "false"),
        _flag("parse_special", "true"),
        _flag("with_pieces", "false"),
    )
)


def read_tokenize(body: Mapping[str, Any]) -> Tokenize:
    """Read a body of /tokenize; without content there is nothing to tokenise."""
    values = _TOKENIZE.read(body)
    content = body.get("content")
    return Tokenize(
        content="" if content is None else read_mixed(content, "content"), **values
    )


def read_detokenize(body: Mapping[str, Any], facts: ModelFacts) -> tuple[int, ...]:
    """The ids of a body of /detokenize; raises RequestError for unknown ones."""
    tokens = body.get("tokens")
    if tokens is None:
        return ()
    if not isinstance(tokens, list):
        message = f"tokens must be a list of token ids, not {shown(tokens)}"
        raise RequestError(message, param="tokens")
    if len(tokens) > DETOKENIZED_MAX:
        message = f"tokens holds {len(tokens)} ids; at most {DETOKENIZED_MAX} are read"
        raise RequestError(message, param="tokens")
    for i, token in enumerate(tokens):
        if not _is_id(token) or not 0 <= token < facts.n_tokens:
            at = f"tokens[{i}]"
            message = (
                f"{at} must be a token id from 0 to {facts.n_tokens - 1}, not"
                f" {shown(token)}"
            )
            raise RequestError(message, param=at)
    return tuple(tokens)
