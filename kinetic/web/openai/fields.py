"""The fields of the two OpenAI routes that are not sampling, and the fields refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kinetic.web.fields import readers
from kinetic.web.fields.readers import flag, mapping, one_of, text, whole
from kinetic.web.fields.sampling import DRAWING, SAMPLING
from kinetic.web.fields.tables import LLAMA, OPENAI, RECEIPT, Field

CHOICES_MAX = 16
PROMPTS_MAX = 64
TOTAL_CHOICES_MAX = 128
ALTERNATIVES_MAX = 20


def _as_given(value: object) -> object:
    """A field whose form is checked where it is put to use."""
    return value


LIMITS: tuple[Field, ...] = (
    Field(
        name="max_tokens",
        read=readers.count,
        range="a whole number from 0 on",
        default="the server's `-n`, else until the answer ends or the context is full",
        source=OPENAI,
        meaning="Most tokens to generate; 0 generates none, what the context does not"
        " hold is cut to it.",
        aliases=("max_completion_tokens",),
    ),
    Field(
        name="n_predict",
        read=readers.count_or_all,
        range="a whole number from -1 on",
        default="as `max_tokens`",
        source=LLAMA,
        meaning="The same as `max_tokens`, with -1 for no limit; not beside it.",
    ),
    Field(
        name="n",
        read=whole(1, CHOICES_MAX),
        range=f"a whole number from 1 to {CHOICES_MAX}",
        default="1",
        source=OPENAI,
        meaning="How many answers; the k-th, from 0, is exactly what `seed` + k alone"
        " would give.",
    ),
    Field(
        name="stop",
        read=readers.stops,
        range=f"a string or a list of at most {readers.STOPS_MAX} strings, each of 1 to"
        f" {readers.STOP_CHARS_MAX} characters",
        default="none",
        source=OPENAI,
        meaning="Ends the answer before the first of them in its visible text;"
        " reasoning and calls are not searched.",
    ),
    Field(
        name="t_max_predict_ms",
        read=whole(-1),
        range="a whole number from -1 to 2147483647",
        default="-1",
        source=LLAMA,
        meaning="Ends the answer at the first new line after so many milliseconds; -1"
        " or 0 for none.",
    ),
    Field(
        name="n_indent",
        read=whole(0),
        range="a whole number from 0 to 2147483647",
        default="0",
        source=LLAMA,
        meaning="Ends the answer before a line with fewer leading blanks; 0 for none.",
    ),
)

SHAPE: tuple[Field, ...] = (
    Field(
        name="response_format",
        read=mapping,
        range="an object with a type",
        default="none",
        source=OPENAI,
        meaning='`{"type": "json_object"}` for any JSON object,'
        ' `{"type": "json_schema", "json_schema": {"schema": {…}}}` for JSON of that'
        ' schema, `{"type": "text"}` for none.',
    ),
    Field(
        name="json_schema",
        read=mapping,
        range="an object, the schema",
        default="none",
        source=LLAMA,
        meaning="The short form of `response_format` with a schema.",
    ),
    Field(
        name="grammar",
        read=text,
        range="a string, a GBNF grammar",
        default="none",
        source=LLAMA,
        meaning="The answer follows it; an empty string is none. Not beside"
        " `response_format`.",
    ),
)

DELIVERY: tuple[Field, ...] = (
    Field(
        name="stream",
        read=flag,
        range="true or false",
        default="false",
        source=OPENAI,
        meaning="Sends the answer as server-sent events.",
    ),
    Field(
        name="stream_options",
        read=mapping,
        range='an object such as {"include_usage": true}',
        default="none",
        source=OPENAI,
        meaning="`include_usage` adds a last chunk with the token counts. Only with"
        " `stream`.",
    ),
    Field(
        name="id_slot",
        read=whole(-1),
        range="a whole number from -1 to the last slot",
        default="-1",
        source=LLAMA,
        meaning="The slot to answer in; -1 lets the server choose.",
    ),
    RECEIPT,
)

CHAT_ONLY: tuple[Field, ...] = (
    Field(
        name="messages",
        read=_as_given,
        range="a list of at least one message",
        default="required",
        source=OPENAI,
        meaning="The conversation; see Messages.",
    ),
    Field(
        name="logprobs",
        read=flag,
        range="true or false",
        default="false",
        source=OPENAI,
        meaning="Adds each token's log-probability under the raw logits.",
    ),
    Field(
        name="top_logprobs",
        read=whole(0, ALTERNATIVES_MAX),
        range=f"a whole number from 0 to {ALTERNATIVES_MAX}",
        default="0",
        source=OPENAI,
        meaning="How many of the likeliest tokens to tell beside each; above 0 only"
        " with `logprobs`.",
    ),
    Field(
        name="tools",
        read=_as_given,
        range="a list of function definitions",
        default="none",
        source=OPENAI,
        meaning="Functions that the model may call; see Tools.",
    ),
    Field(
        name="tool_choice",
        read=_as_given,
        range='"auto", "none", "required", or an object that names a function or the'
        " allowed ones",
        default='"auto"',
        source=OPENAI,
        meaning="Whether the model may, must not or must call, or which function it"
        " must.",
    ),
    Field(
        name="functions",
        read=_as_given,
        range="a list of functions",
        default="none",
        source=OPENAI,
        meaning="The old form of `tools`; calls are then answered in the old form too.",
    ),
    Field(
        name="function_call",
        read=_as_given,
        range='"auto", "none" or an object with a function\'s name',
        default='"auto"',
        source=OPENAI,
        meaning="The old form of `tool_choice`, beside `functions`.",
    ),
    Field(
        name="parallel_tool_calls",
        read=flag,
        range="true or false",
        default="false",
        source=OPENAI,
        meaning="Lets one answer hold several calls. The default is llama-server's.",
    ),
    Field(
        name="chat_template_kwargs",
        read=mapping,
        range="an object",
        default="none",
        source=LLAMA,
        meaning='Variables for the chat template, such as `{"enable_thinking": true}`.',
    ),
    Field(
        name="reasoning_effort",
        read=one_of("none", "minimal", "low", "medium", "high", "xhigh", "max"),
        range='"none", "minimal", "low", "medium", "high", "xhigh" or "max"',
        default="the template's",
        source=OPENAI,
        meaning="A variable for the chat template; `none` also sets `enable_thinking`"
        " to false.",
    ),
    Field(
        name="enable_thinking",
        read=flag,
        range="true or false",
        default="the template's",
        source="Qwen's API",
        meaning="The same variable in `chat_template_kwargs`.",
    ),
    Field(
        name="thinking",
        read=_as_given,
        range='{"type": "enabled"}, {"type": "disabled"}, true or false',
        default="the template's",
        source="DeepSeek's API",
        meaning="Sets `enable_thinking`.",
    ),
    Field(
        name="reasoning_format",
        read=one_of("auto", "deepseek", "deepseek-legacy", "none"),
        range='"auto", "deepseek", "deepseek-legacy" or "none"',
        default='"auto"',
        source=LLAMA,
        meaning="`none` leaves reasoning and its tags in the content; the others put it"
        " into `reasoning_content`.",
    ),
)

TEXT_ONLY: tuple[Field, ...] = (
    Field(
        name="prompt",
        read=_as_given,
        range="a string, a list of strings, a list of token ids, or a list of such"
        f" lists; at most {PROMPTS_MAX} prompts",
        default="required",
        source=OPENAI,
        meaning="Continued exactly as written; an empty one starts from the model's"
        " first token.",
    ),
    Field(
        name="logprobs",
        read=whole(0, ALTERNATIVES_MAX),
        range=f"a whole number from 0 to {ALTERNATIVES_MAX}",
        default="none",
        source=OPENAI,
        meaning="Adds each token's log-probability under the raw logits, and that many"
        " of the likeliest tokens.",
    ),
    Field(
        name="echo",
        read=flag,
        range="true or false",
        default="false",
        source=OPENAI,
        meaning="Puts the prompt before the answer; with `logprobs` its tokens are"
        " scored too.",
    ),
    Field(
        name="best_of",
        read=whole(1, CHOICES_MAX),
        range="as many as `n`",
        default="`n`",
        source=OPENAI,
        meaning="Accepted as `n`: no answers are made to be thrown away.",
    ),
)

COMMON: tuple[Field, ...] = (*LIMITS, *SAMPLING, *DRAWING, *SHAPE, *DELIVERY)
CHAT: tuple[Field, ...] = (*CHAT_ONLY, *COMMON)
COMPLETIONS: tuple[Field, ...] = (*TEXT_ONLY, *COMMON)

ACCEPTED: tuple[str, ...] = (
    "model",
    "models",
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "prediction",
    "verbosity",
    "cache_prompt",
    "n_cache_reuse",
    "n_keep",
    "n_discard",
    "timings_per_token",
    "return_progress",
    "backend_sampling",
    "sse_ping_interval",
    "provider",
    "route",
    "session_id",
    "chat_id",
    "request_id",
    "priority",
)
"""Fields that change no answer: taken in any form, and not looked at."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A field that would change the answer and is not served."""

    reason: str
    neutral: tuple[object, ...] = ()
    """Values that ask for nothing, beside null, false, "", [] and {}."""
    asks_empty: bool = False
    """{} asks for it, with nothing but defaults."""

    def is_neutral(self, value: object) -> bool:
        """Whether a value asks for nothing; true is not 1."""
        if value is None or value is False or value in ("", []):
            return True
        if value == {}:
            return not self.asks_empty
        return any(
            value == neutral and isinstance(value, bool) == isinstance(neutral, bool)
            for neutral in self.neutral
        )


REFUSED: Mapping[str, Refused] = {
    "audio": Refused("this server makes no audio"),
    "modalities": Refused("this server answers in text", (["text"],)),
    "web_search_options": Refused("this server searches nothing", asks_empty=True),
    "moderation": Refused("this server moderates nothing"),
    "suffix": Refused("text is continued at its end only"),
    "n_probs": Refused("/completion's; use logprobs and top_logprobs", (0,)),
    "post_sampling_probs": Refused("/completion's; logprobs are of the raw logits"),
    "adaptive_target": Refused("this sampler is not served", (-1,)),
    "adaptive_decay": Refused("this sampler is not served", (0.9,)),
    "top_a": Refused("this sampler is not served", (0, 1)),
    "tfs_z": Refused("this sampler is not served", (1,)),
    "lora": Refused("no adapters are served"),
    "grammar_lazy": Refused("grammars hold from the first token on"),
    "grammar_triggers": Refused("grammars hold from the first token on"),
    "preserved_tokens": Refused("the template says which markers are read"),
    "add_generation_prompt": Refused(
        "the answer always begins a turn of its own", (True,)
    ),
    "continue_final_message": Refused(
        "end the messages with an assistant message to have it continued"
    ),
    "reasoning_budget_tokens": Refused("reasoning has no limit of its own", (-1,)),
    "thinking_budget_tokens": Refused("reasoning has no limit of its own", (-1,)),
    "thinking_budget": Refused("reasoning has no limit of its own", (-1,)),
    "min_tokens": Refused("use ignore_eos or logit_bias", (0,)),
    "stop_token_ids": Refused("use stop"),
    "bad_words": Refused("use logit_bias"),
    "allowed_token_ids": Refused("use logit_bias or grammar"),
    "include_stop_str_in_output": Refused("the answer ends before a stop string"),
    "use_beam_search": Refused("answers are sampled"),
    "length_penalty": Refused("answers are sampled", (1,)),
    "truncate_prompt_tokens": Refused("prompts are never cut"),
    "prompt_logprobs": Refused("use echo and logprobs of /v1/completions"),
    "skip_special_tokens": Refused("control tokens are never text", (True,)),
    "guided_json": Refused("use response_format"),
    "guided_regex": Refused("use grammar"),
    "guided_choice": Refused("use grammar"),
    "guided_grammar": Refused("use grammar"),
    "structured_outputs": Refused("use response_format or grammar"),
    "chat_template": Refused("set --chat-template-file when starting the server"),
    "documents": Refused("put documents into the messages"),
    "stop_sequences": Refused("use stop"),
    "max_new_tokens": Refused("use max_tokens"),
    "max_output_tokens": Refused("use max_tokens"),
    "num_predict": Refused("use max_tokens"),
    "num_ctx": Refused("the context's length is set with -c when starting the server"),
    "temp": Refused("use temperature"),
    "typical": Refused("use typical_p", (1,)),
    "rep_pen": Refused("use repeat_penalty", (1,)),
    "format": Refused("use response_format"),
    "options": Refused("give the options as fields of their own"),
    "think": Refused("use chat_template_kwargs or reasoning_effort"),
    "reasoning": Refused("use chat_template_kwargs or reasoning_effort"),
    "system": Refused("use a message of role system"),
    "instructions": Refused("use a message of role system"),
    "input": Refused("use messages or prompt"),
}
