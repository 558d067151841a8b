"""From an OpenAI body to a GenerationRequest. Pure: every 4xx about fields is here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.types import ChatInput, ConstraintSpec, GenerationRequest, TextInput
from kinetic.web.fields import constraints
from kinetic.web.fields.readers import shown
from kinetic.web.fields.sampling import ModelFacts, sampling_params
from kinetic.web.fields.tables import Field, FieldReader, misspelt
from kinetic.web.openai.fields import (
    ACCEPTED,
    CHAT,
    CHAT_ONLY,
    COMPLETIONS,
    PROMPTS_MAX,
    REFUSED,
    TEXT_ONLY,
    TOTAL_CHOICES_MAX,
    Refused,
)
from kinetic.web.openai.messages import read_messages
from kinetic.web.openai.tools import (
    ToolChoice,
    read_function_call,
    read_functions,
    read_tool_choice,
    read_tools,
)

_CHAT = FieldReader.of(CHAT)
_COMPLETIONS = FieldReader.of(COMPLETIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, and how its answer is to be written."""

    request: GenerationRequest
    stream: bool = False
    include_usage: bool = False
    has_functions: bool = False
    """Tools came in their old form, in which calls are then answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What a request gets before anyone reads it."""

    request_id: str
    arrived_s: float
    """On the monotonic clock."""


def read_chat(body: Mapping[str, Any], facts: ModelFacts, arrival: Arrival) -> Asked:
    """Read a body of /v1/chat/completions.

    Raises RequestError naming field, value and limit.
    """
    _check_names(body, CHAT, TEXT_ONLY, "/v1/completions")
    values = _CHAT.read(body)
    if "messages" not in values:
        raise RequestError("messages is missing", param="messages")
    messages = read_messages(values["messages"], has_vision=facts.has_vision)
    tools, choice, is_old = _tools(values)
    constraint = _constraint(values)
    if constraint is not None and choice.kind in {"required", "function"}:
        message = (
            f"{constraint.param} cannot be combined with a tool_choice that forces a"
            " call"
        )
        param = "function_call" if is_old else "tool_choice"
        raise RequestError(message, param=param)
    inputs = ChatInput(
        messages=messages,
        tools=tools,
        tool_choice=choice.kind,
        function_name=choice.name,
        allowed_tools=choice.allowed,
        # The old form has room for one call.
        parallel_tool_calls=not is_old and values.get("parallel_tool_calls", False),
        template_kwargs=_template_kwargs(values),
        split_reasoning=values.get("reasoning_format") != "none",
    )
    common = _Common(values, facts, arrival, constraint, _chat_logprobs(values))
    return replace(common.asked((inputs,)), has_functions=is_old)


def _tools(
    values: Mapping[str, Any],
) -> tuple[tuple[Mapping[str, Any], ...], ToolChoice, bool]:
    """The tools, which of them are wanted, and whether the old form was used."""
    old = [name for name in ("functions", "function_call") if values.get(name)]
    new = [name for name in ("tools", "tool_choice") if values.get(name)]
    # Alone these say nothing: they are defaults that clients send.
    if old == ["function_call"] and values["function_call"] in ("auto", "none"):
        old = []
    if not old:
        tools = read_tools(values.get("tools"))
        return tools, read_tool_choice(values.get("tool_choice"), tools), False
    if new:
        message = f"{old[0]} cannot stand beside {new[0]}, which is its newer form"
        raise RequestError(message, param=old[0])
    functions = read_functions(values.get("functions"))
    choice = read_function_call(values.get("function_call"), functions)
    return functions, choice, True


def read_completion(
    body: Mapping[str, Any], facts: ModelFacts, arrival: Arrival
) -> Asked:
    """Read a body of /v1/completions.

    Raises RequestError naming field, value and limit.
    """
    _check_names(body, COMPLETIONS, CHAT_ONLY, "/v1/chat/completions")
    values = _COMPLETIONS.read(body)
    if "prompt" not in values:
        raise RequestError("prompt is missing", param="prompt")
    prompts = read_prompts(values["prompt"])
    _check_best_of(values)
    common = _Common(
        values, facts, arrival, _constraint(values), values.get("logprobs")
    )
    return common.asked(prompts)


def _check_best_of(values: Mapping[str, Any]) -> None:
    n: int = values.get("n", 1)
    best_of: int = values.get("best_of", n)
    if best_of < n:
        message = f"best_of is {best_of} and n is {n}: best_of must be at least n"
        raise RequestError(message, param="best_of")
    if best_of > n:
        message = (
            f"best_of is {best_of} and n is {n}: no answers are made to be thrown away"
        )
        raise UnsupportedFeature(message, param="best_of")


# --- Names --------------------------------------------------------------------------


def _check_names(
    body: Mapping[str, Any], own: Sequence[Field], others: Sequence[Field], route: str
) -> None:
    """Refuse what would change the answer and is not served, and near misses.

    Any other name nobody knows is let pass: clients send extras of their own.
    """
    known = {spelling for field in own for spelling in field.spellings}
    elsewhere = {field.name for field in others} - known
    for name, value in body.items():
        if name in known or name in ACCEPTED:
            continue
        if name in elsewhere:
            refused = REFUSED.get(name, Refused(f"a field of {route}", (1,)))
        elif name in REFUSED:
            refused = REFUSED[name]
        else:
            if meant := misspelt(name, known):
                message = f"{shown(name)} is no field; did you mean {meant}?"
                raise RequestError(message, param=name)
            continue
        if not refused.is_neutral(value):
            message = f"{name} is not supported: {refused.reason}"
            raise UnsupportedFeature(message, param=name)


# --- Prompts ------------------------------------------------------------------------


def read_prompts(value: Any) -> tuple[TextInput, ...]:
    """The prompts of a completion: text or token ids, one or several.

    Raises RequestError naming the item that is wrong.
    """
    if isinstance(value, str):
        return (TextInput(prompt=value),)
    if not isinstance(value, list):
        message = (
            "prompt must be a string, a list of strings, a list of token ids or a list"
            f" of such lists, not {shown(value)}"
        )
        raise RequestError(message, param="prompt")
    if not value:
        raise RequestError("prompt must not be an empty list", param="prompt")
    if _is_id(value[0]):
        return (TextInput(prompt=_token_ids(value, "prompt")),)
    if len(value) > PROMPTS_MAX:
        message = f"prompt holds {len(value)} prompts; at most {PROMPTS_MAX} are taken"
        raise RequestError(message, param="prompt")
    return tuple(_one_of_several(value, i) for i in range(len(value)))


def _one_of_several(prompts: list[Any], i: int) -> TextInput:
    prompt, where = prompts[i], f"prompt[{i}]"
    if isinstance(prompts[0], str):
        if not isinstance(prompt, str):
            message = f"{where} must be a string as prompt[0] is, not {shown(prompt)}"
            raise RequestError(message, param=where)
        return TextInput(prompt=prompt)
    if not isinstance(prompt, list):
        message = f"{where} must be a list of token ids, not {shown(prompt)}"
        raise RequestError(message, param=where)
    if not prompt:
        message = f"{where} is empty; a prompt of ids needs at least one"
        raise RequestError(message, param=where)
    return TextInput(prompt=_token_ids(prompt, where))


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _token_ids(values: list[Any], where: str) -> tuple[int, ...]:
    for i, value in enumerate(values):
        if not _is_id(value):
            at = f"{where}[{i}]"
            raise RequestError(f"{at} must be a token id, not {shown(value)}", param=at)
    return tuple(values)


# --- Parts of a request -------------------------------------------------------------


def _chat_logprobs(values: Mapping[str, Any]) -> int | None:
    count: int = values.get("top_logprobs", 0)
    if values.get("logprobs"):
        return count
    if count:
        message = f"top_logprobs is {count}, which needs logprobs to be true"
        raise RequestError(message, param="top_logprobs")
    return None


def _constraint(values: Mapping[str, Any]) -> ConstraintSpec | None:
    given: dict[str, ConstraintSpec | None] = {}
    if "response_format" in values:
        found = constraints.response_format(values["response_format"])
        given["response_format"] = found
    if "json_schema" in values:
        schema = values["json_schema"]
        given["json_schema"] = constraints.json_of(schema, param="json_schema")
    if "grammar" in values:
        given["grammar"] = constraints.gbnf(values["grammar"])
    return constraints.only_one(given)


_THINKING = {"enabled": True, "disabled": False}
_TEMPLATE_OWN = ("messages", "tools")


def _template_kwargs(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Variables for the template; `chat_template_kwargs` win over the short forms."""
    found: dict[str, Any] = {}
    effort = values.get("reasoning_effort")
    if effort is not None:
        found["reasoning_effort"] = effort
        if effort == "none":
            found["enable_thinking"] = False
    if "thinking" in values:
        found["enable_thinking"] = _thinking(values["thinking"])
    if "enable_thinking" in values:
        found["enable_thinking"] = values["enable_thinking"]
    given = values.get("chat_template_kwargs", {})
    for name in _TEMPLATE_OWN:
        if name in given:
            where = f"chat_template_kwargs.{name}"
            message = f"{where} must be given as {name}, a field of its own"
            raise RequestError(message, param=where)
    thinking = given.get("enable_thinking")
    if thinking is not None and not isinstance(thinking, bool):
        where = "chat_template_kwargs.enable_thinking"
        message = f"{where} must be true or false, not {shown(thinking)}"
        raise RequestError(message, param=where)
    return {**found, **given}


def _thinking(value: Any) -> bool:
    kind = value.get("type") if isinstance(value, dict) else value
    if isinstance(kind, str) and kind in _THINKING:
        kind = _THINKING[kind]
    if not isinstance(kind, bool):
        message = (
            'thinking must be {"type": "enabled"}, {"type": "disabled"}, true or false,'
            f" not {shown(kind)}"
        )
        raise RequestError(message, param="thinking")
    if isinstance(value, dict) and value.get("budget_tokens") is not None:
        message = "thinking.budget_tokens is not supported: reasoning has no limit"
        raise UnsupportedFeature(message, param="thinking.budget_tokens")
    return kind


@dataclass(frozen=True, slots=True)
class _Common:
    """What both routes make of their fields in the same way."""

    values: Mapping[str, Any]
    facts: ModelFacts
    arrival: Arrival
    constraint: ConstraintSpec | None
    n_logprobs: int | None

    def asked(self, inputs: Sequence[ChatInput | TextInput]) -> Asked:
        """The whole request."""
        values, constraint = self.values, self.constraint
        stream = values.get("stream", False)
        include_usage = self._include_usage(stream=stream)
        ignore_eos = values.get("ignore_eos", False)
        if ignore_eos and constraint is not None:
            message = (
                f"ignore_eos cannot be combined with {constraint.param}, behind whose"
                " end nothing may follow"
            )
            raise RequestError(message, param="ignore_eos")
        self._check_count(len(inputs) * values.get("n", 1))
        most_ms = values.get("t_max_predict_ms", -1)
        request = GenerationRequest(
            request_id=self.arrival.request_id,
            inputs=tuple(inputs),
            sampling=sampling_params(values, self.facts),
            n=values.get("n", 1),
            max_tokens=self._max_tokens(),
            stops=values.get("stop", ()),
            constraint=constraint,
            n_logprobs=self.n_logprobs,
            echo=values.get("echo", False),
            ignore_eos=ignore_eos,
            stop_at_newline_after_s=most_ms / 1000 if most_ms > 0 else None,
            min_indent=values.get("n_indent", 0),
            slot_id=self._slot_id(),
            receipt=values.get("receipt", False),
            arrived_s=self.arrival.arrived_s,
        )
        return Asked(request=request, stream=stream, include_usage=include_usage)

    def _check_count(self, n_choices: int) -> None:
        """Refuse what the line could never take, in place of "try again"."""
        at_once = self.facts.n_at_once
        most = TOTAL_CHOICES_MAX
        if at_once is not None:
            most = min(most, at_once)
        if n_choices > most:
            message = (
                f"n times the number of prompts is {n_choices}; at most {most} choices"
                " are made at once"
            )
            raise RequestError(message, param="n")

    def _include_usage(self, *, stream: bool) -> bool:
        options = self.values.get("stream_options")
        if options is None:
            return False
        if not stream:
            message = "stream_options is given, and stream is not true"
            raise RequestError(message, param="stream_options")
        wanted = options.get("include_usage")
        if wanted is not None and not isinstance(wanted, bool):
            where = "stream_options.include_usage"
            message = f"{where} must be true or false, not {shown(wanted)}"
            raise RequestError(message, param=where)
        if options.get("continuous_usage_stats"):
            where = "stream_options.continuous_usage_stats"
            message = f"{where} is not supported: usage comes in a last chunk"
            raise UnsupportedFeature(message, param=where)
        return bool(wanted)

    def _max_tokens(self) -> int | None:
        """The limit; None is the end of the context."""
        most: int | None = self.values.get("max_tokens")
        predict: int | None = self.values.get("n_predict")
        if most is not None and predict is not None and most != predict:
            message = f"n_predict and max_tokens differ: one says {min(most, predict)}"
            raise RequestError(message, param="n_predict")
        given = predict if most is None else most
        return self.facts.max_tokens if given is None else given

    def _slot_id(self) -> int | None:
        slot: int = self.values.get("id_slot", -1)
        last = self.facts.n_slots - 1
        if slot > last:
            message = f"id_slot is {slot}; slots are 0 to {last}"
            raise RequestError(message, param="id_slot")
        return None if slot < 0 else slot
