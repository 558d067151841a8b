"""Values that every layer shares: plain frozen data, no behaviour, no imports of ours.

Words: a *request* is what a client sent, a *prompt* its token ids, a *generation* one
request's life in a slot, a *delta* a piece of its output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call the model made, read from its text."""

    id: str
    """Nine ASCII letters or digits, or the model's own id."""
    name: str
    """A function of the request's tools."""
    arguments: str
    """A JSON object as text, keys in the model's order."""


@dataclass(frozen=True, slots=True)
class ContentPiece:
    """Text of the visible answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    """Text the model thought before it answered."""

    text: str


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A whole tool call; `index` counts the calls of one answer from 0."""

    index: int
    call: ToolCall


OutputPiece = ContentPiece | ReasoningPiece | CallPiece


DEFAULT_SAMPLERS = (
    "penalties",
    "dry",
    "top_n_sigma",
    "top_k",
    "typ_p",
    "top_p",
    "min_p",
    "xtc",
    "temperature",
)
"""The filters in llama.cpp's default order, by llama-server's names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How a token is drawn. Names, meanings and defaults are llama-server's.

    Values are checked where a request is read; here they are only carried.
    """

    seed: int = 0
    """0 to 2**32 - 2, already drawn when the client gave none."""
    temperature: float = 0.8
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    repeat_last_n: int = 64
    """Window of the penalties in tokens; 0 is off, -1 the whole context."""
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    """Window of DRY in tokens; 0 is off, -1 the whole context."""
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    min_keep: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Pairs of token id and what is added to its logit; -inf bans it."""
    samplers: tuple[str, ...] = DEFAULT_SAMPLERS


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """A token with its log-probability under the model's raw logits."""

    token_id: int
    piece: bytes
    """The token's bytes as they stand in the answer; may be part of a character."""
    logprob: float
    """Natural logarithm, finite: log 0 is given as the lowest float32."""
    top: tuple[tuple[int, bytes, float], ...] = ()
    """The likeliest tokens as (id, bytes, logprob), most likely first."""


class Outcome(StrEnum):
    """How what had a slot, or was run for vectors, can end."""

    EOS = "eos"
    """The model ended its answer."""
    STOP = "stop"
    """A stop string."""
    LIMIT = "limit"
    CALLS = "calls"
    """A tool call is complete."""
    VECTORS = "vectors"
    """All vectors of a request are made."""
    CANCELLED = "cancelled"
    FAILED = "failed"


class Refusal(StrEnum):
    """Why a request can end without a slot."""

    CANCELLED = "cancelled"
    OVERLOADED = "overloaded"
    """The line was full."""
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Why an answer ended; exactly one per generation."""

    reason: Outcome
    """EOS, STOP, LIMIT or CALLS."""
    stop_string: str | None = None
    context_full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one generation."""

    n_prompt: int
    """All prompt tokens, reused ones included."""
    n_cached: int
    """Prompt tokens that were not computed again."""
    n_generated: int
    """Tokens drawn, the end-of-generation token included."""
    n_drafts: int = 0
    """Passes that checked drafted tokens."""
    n_drafted: int = 0
    n_accepted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Wall-clock times of one generation, in seconds."""

    queued_s: float
    """From arrival to the slot."""
    prompt_s: float
    """From the slot to the first token."""
    predicted_s: float
    """From the first token to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintSpec:
    """What an answer is to be held to, as the client gave it."""

    kind: str
    """"json_object" (any JSON object), "json_schema" or "gbnf"."""
    source: str = ""
    """A schema as JSON text, or a grammar; "" where the kind says it all."""
    param: str = "response_format"
    """The request's field, for errors."""
    prefix_think: tuple[str, str] | None = None
    """Think tags: one whole block of reasoning may come before the constrained part."""
    think_open: bool = False
    """The prompt ended inside a think block: free text up to its end comes first."""
    strict: bool = False
    """Refuse a schema that cannot be held wholly while decoding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatInput:
    """A conversation, schema-checked but not yet rendered."""

    messages: tuple[Mapping[str, Any], ...]
    """OpenAI's. A picture is a part {"type": "image", "source": a data URL or base64,
    "where": message and part, for errors}."""
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str = "auto"
    """"auto", "none", "required" or "function" (then `function_name` says which)."""
    function_name: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    """Which of the tools may be called, all of which the model sees; None: each."""
    parallel_tool_calls: bool = False
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    split_reasoning: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TextInput:
    """Text, token ids, or a mix, continued exactly as written."""

    prompt: str | tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """What a request says of its answers and each of its jobs carries unchanged."""

    request_id: str
    sampling: SamplingParams
    max_tokens: int | None = None
    """Most tokens to draw; None is to the end of the context."""
    stops: tuple[str, ...] = ()
    n_logprobs: int | None = None
    """Alternatives to report per token; None reports nothing."""
    post_sampling_probs: bool = False
    """Report probabilities after the sampler chain in place of raw ones."""
    ignore_eos: bool = False
    stop_at_newline_after_s: float | None = None
    """Time after which a new line ends the answer."""
    min_indent: int = 0
    """Leading blanks a line must keep for the answer to go on; 0 is off."""
    slot_id: int | None = None
    """The slot asked for; None leaves the choice to the scheduler."""
    progress: bool = False
    """Tell how far the prompt is, and with each piece how long it took."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What else the API shows of the request, such as in /slots; never changed, not
    read by the slot."""
    arrived_s: float = 0.0
    """When the request came, on the monotonic clock."""

    def carried(self) -> dict[str, Any]:
        """These options by their names, for whoever else has them."""
        return {each.name: getattr(self, each.name) for each in fields(AnswerOptions)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest(AnswerOptions):
    """What a client asks for, in no API's words; what the prompt builder takes."""

    inputs: tuple[ChatInput | TextInput, ...]
    """One prompt each; choices are numbered prompt by prompt, `n` of each."""
    n: int = 1
    constraint: ConstraintSpec | None = None
    echo: bool = False
    """The answer repeats the prompt; with `n_logprobs` it is scored too."""
    prefill: bool = False
    """Only run the prompt, up to just before the last word, which may still grow."""
    receipt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAsRead:
    """What a receipt tells of a request beyond what its job holds."""

    inputs: ChatInput | TextInput
    """The one that the job's prompt was made of."""
    constraint: ConstraintSpec | None
    rendered_at: datetime | None
    """What the chat template took for the present, in the server's time zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRequest:
    """Texts that are to become vectors, in no API's words."""

    request_id: str
    inputs: tuple[str | tuple[int, ...], ...]
    """Texts, which get the model's markers around them, or token ids as they are."""
    param: str = "input"
    """What the client calls them."""
    is_list: bool = True
    """Errors name an item of a list, or the one text."""
    truncate: bool = False
    """Cut the end of what is too long; else it is refused."""
    arrived_s: float = 0.0
    """When the request came, on the monotonic clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRequest:
    """Documents that are to be scored against a query."""

    request_id: str
    query: str
    documents: tuple[str, ...]
    param: str = "documents"
    """What the client calls them."""
    truncate: bool = False
    """Cut the end of a document that does not fit with the query; else refuse it."""
    arrived_s: float = 0.0
    """When the request came, on the monotonic clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorJob:
    """Inputs ready to be run, one vector or score for each."""

    request_id: str
    inputs: tuple[tuple[int, ...], ...]
    """Checked token ids, at least one each, none longer than the context."""
    n_numbers: int = 0
    """How many numbers the answer has."""
    arrived_s: float = 0.0
    """When the request came, on the monotonic clock."""

    @property
    def n_tokens(self) -> int:
        """Tokens of all inputs together."""
        return sum(map(len, self.inputs))

    @property
    def n_bytes(self) -> int:
        """About what the request holds in memory while it is open.

        A token id is a Python integer and its place in a tuple, a number a float32;
        each input has its entries with the actors and at the sink beside them.
        """
        return 600 * len(self.inputs) + 40 * self.n_tokens + 4 * self.n_numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """What there is to say about the served model and how it is run."""

    id: str
    """The file's name without its extension, or the alias."""
    path: str
    kind: str
    """"text", "embedding" or "rerank"."""
    architecture: str
    description: str
    ftype: str
    n_params: int
    size_bytes: int
    n_vocab: int
    n_embd: int
    n_ctx_train: int
    n_ctx: int
    """Context of one slot, in tokens."""
    n_slots: int
    vocab_type: int
    created: int
    """The file's modification time, Unix seconds."""
    metadata: Mapping[str, str]
    sampling: SamplingParams
    """Defaults of requests: the file's recommended sampling over llama-server's."""
    chat_template: str
    template_caps: Mapping[str, bool]
    knows_thinking: bool
    bos_token: str
    eos_token: str
    plan: str
    plan_reason: str
    n_draft: int = 0
    """Most tokens of a draft; 0: nothing is drafted."""
    drafting: str = ""
    """What is drafted from, or why nothing is."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """What the server is made of: names of packages and their versions."""
    has_vision: bool = False
    projector_path: str = ""
    """The file that pictures are read with; "" without one."""
    pooling: str = "none"
    """How token vectors become one: "none", "mean", "cls", "last" or "rank"."""
    n_vector: int = 0
    """Length of an embedding model's vectors."""
    gives_probabilities: bool = False
    """A ranking model's scores are probabilities, not the head's raw output."""
