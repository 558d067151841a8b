"""A job: what a slot is to do, as the prompt builder leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinetic.model.chat.calls import OutputFormat
    from kinetic.model.constraint import Constraint
    from kinetic.types import RequestAsRead, SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One answer to be made: a request's prompt and everything that shapes it."""

    request_id: str
    index: int
    """Number of the choice within the request."""
    prompt: tuple[int, ...]
    """At least one token id; shorter than the context."""
    sampling: SamplingParams
    max_tokens: int | None = None
    """Most tokens to draw; None is to the end of the context."""
    stops: tuple[str, ...] = ()
    output: OutputFormat | None = None
    """How the text is read; None is plain text."""
    visible_markers: tuple[str, ...] = ()
    """Control tokens that the reader of the text needs to see."""
    constraint: Constraint | None = None
    """What the answer is held to; each generation makes its own matcher."""
    n_logprobs: int | None = None
    """Alternatives to report per token; None reports nothing."""
    post_sampling_probs: bool = False
    """Report probabilities behind the sampler chain in place of raw ones."""
    prompt_logprobs: bool = False
    """Report the prompt's tokens too; nothing of the prompt is then reused."""
    ignore_eos: bool = False
    stop_at_newline_after_s: float | None = None
    """Time after which a new line ends the answer."""
    min_indent: int = 0
    """Leading blanks a line must keep for the answer to go on; 0 is off."""
    group: str | None = None
    """Jobs of one group have the same prompt: it is run once."""
    slot_id: int | None = None
    """The slot asked for; None leaves the choice to the scheduler."""
    progress: bool = False
    """Tell how far the prompt is, and with each piece how long it took."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What else /slots shows of the request; never changed, not read by the slot."""
    scope: tuple[str, ...] = ()
    """What else than tokens a kept prefix must share: digests of images."""
    is_prefill: bool = False
    """Only run the prompt; ends at once when somebody else needs the slot."""
    receipt: RequestAsRead | None = None
    """What a receipt tells of the request; None: no receipt is asked for."""
    arrived_s: float = 0.0
    """When the request came, on the monotonic clock."""
