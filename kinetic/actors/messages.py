"""All messages between actors, in sections by receiver; the last one is the client's.

Commands are imperatives, events are past tense. Messages are frozen and hold only
immutable contents (arrays are read-only): nobody changes what was received. What a
slot is to do, a `Job`, is made by the prompt builder and declared in model/job.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kinetic.model.job import (
    ImageSpan,
    Job as Job,  # noqa: PLC0414 - handed on to web
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from kinetic.actors.drafting import Ask, Passes
    from kinetic.errors import KineticError
    from kinetic.model.draft_model import ModelGuess
    from kinetic.types import (
        Finish,
        OutputPiece,
        Timings,
        TokenLogprob,
        Usage,
        VectorJob,
    )


class Sink(Protocol):
    """Carries a request's output to whoever asked; `put` is safe from any thread."""

    def put(self, event: SinkEvent) -> None:
        """Hand over an event; never blocks and never raises."""


class VectorSink(Protocol):
    """Carries a request's vectors; `put` is safe from any thread."""

    def put(self, event: VectorEvent) -> None:
        """Hand over an event; never blocks and never raises."""


# --- Scheduler ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Make these answers; every one of them ends exactly once at the sink."""

    jobs: tuple[Job, ...]
    sink: Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitVectors:
    """Make these vectors; every input ends exactly once at the sink."""

    job: VectorJob
    sink: VectorSink


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """An input is done; without a vector it failed, or was dropped."""

    serial: int
    vector: npt.NDArray[np.float32] | None
    """[n_vector] float32, read-only; [n_tokens, n_vector] where nothing is pooled."""
    error: KineticError | None
    seconds: float
    """Spent in the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Drop what waits of a request, end what runs: the client is gone, or `error`."""

    request_id: str
    error: KineticError
    """Told at the sink, where somebody may still listen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDone:
    """A group's prompt stands in a slot; its other members may start from it."""

    slot_id: int
    group: str
    start: PromptState


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotIdle:
    """A slot ended its generation and holds these tokens."""

    slot_id: int
    tokens: npt.NDArray[np.int32]
    n_prompt: int
    """How many of the tokens were run as a prompt."""
    can_cut: bool = True
    """Whether the memory may be cut shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """What the Cache found for a job that waits for its answer; None: nothing."""

    slot_id: int
    kept: KeptState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepIdle:
    """Keep what idle slots hold and is not kept yet, if they are idle long enough."""

    now_s: float
    least_idle_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Take no more requests and end those that wait; running ones go on."""


SchedulerMessage = (
    Submit
    | SubmitVectors
    | Embedded
    | Cancel
    | PromptDone
    | SlotIdle
    | Matched
    | KeepIdle
    | Drain
)


# --- Slot ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptState:
    """A sequence behind its whole prompt: the memory and the last row's logits."""

    state: bytes
    tokens: npt.NDArray[np.int32]
    logits: npt.NDArray[np.float32]
    """[n_vocab] float32, read-only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptState:
    """A kept sequence state, to be put back and built on."""

    state: bytes
    tokens: npt.NDArray[np.int32]
    n_prompt: int
    """How many of the tokens were run as a prompt."""
    n_keep: int
    """How many leading tokens the prompt may build on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Make this answer."""

    job: Job
    sink: Sink
    n_keep: int = 0
    """Leading tokens of the slot's own memory to build on."""
    start: PromptState | None = None
    """The prompt as a member of the same group has run it."""
    kept: KeptState | None = None
    """A state to put back first; `n_keep` is then its own."""
    share: bool = False
    """Tell the scheduler the prompt's state once it is run."""
    keep: bool = False
    """Have the Cache keep what the slot holds before it is overwritten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepHeld:
    """Have the Cache keep what the idle slot holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Yield:
    """End a prefill where it is: a real request, or a newer prefill, has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logits:
    """Rows that were asked for; `is_last` when the feed is done and an answer due."""

    serial: int
    rows: npt.NDArray[np.float32]
    """[n_rows, n_vocab] float32, read-only."""
    n_past: int
    """Tokens of the sequence that have been run."""
    is_last: bool
    passes: Passes
    """What is known of the passes that the rows came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """The feed is dropped; the sequence holds `n_past` tokens."""

    serial: int
    n_past: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A kept state is in place, or did not fit and the sequence is empty."""

    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedFailed:
    """The engine failed; the sequence is empty."""

    serial: int
    error: KineticError


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTaken:
    """A copy of the sequence's memory as it was when it was asked for."""

    purpose: str
    state: bytes
    n_past: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """What the draft model would go on with."""

    serial: int
    guess: ModelGuess


SlotMessage = (
    Begin
    | KeepHeld
    | Yield
    | Cancel
    | Logits
    | Withdrawn
    | Restored
    | FeedFailed
    | SnapshotTaken
    | Proposed
)


# --- Decoder ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Run these tokens behind what the sequence holds; answered by Logits."""

    slot_id: int
    serial: int
    """Grows by one per feed of a slot; stale answers are told by it."""
    first: int
    """How many tokens the sequence must hold."""
    position: int
    """Of the first token; less than `first` behind pictures with axes."""
    tokens: npt.NDArray[np.int32]
    n_logits: int
    """How many of the last tokens want logits."""
    is_step: bool
    """Generated tokens (run whole, first), not a prompt (run in chunks)."""
    images: tuple[ImageSpan, ...] = ()
    """Those among the tokens, whole and in order; counted as `first` is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Keep the sequence's first `n_keep` tokens."""

    slot_id: int
    n_keep: int
    position: int
    """Of the first token that goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """Replace the sequence's memory; answered by Restored."""

    slot_id: int
    state: bytes
    n_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeSnapshot:
    """Copy the sequence's memory; answered by SnapshotTaken."""

    slot_id: int
    purpose: str
    """Handed back with the answer: "keep" or "share"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Propose:
    """Ask the draft model how the slot's text goes on; answered by Proposed."""

    slot_id: int
    serial: int
    """Grows by one per question of a slot."""
    ask: Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw:
    """Drop what the slot has waiting, it owes no answer; answered by Withdrawn."""

    slot_id: int
    serial: int
    """The slot's newest feed: tells answers to earlier ones apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed:
    """Run this input for its vector; answered by Embedded."""

    serial: int
    """Grows by one per input; stale messages are told by it."""
    tokens: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropEmbed:
    """Run no more of an input; if it is not done yet, Embedded follows at once."""

    serial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Run a pass; the Decoder's word to itself, so that others are heard between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedStep:
    """Run the next part of the input; the Decoder's word to itself, as Step is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeStep:
    """Go on with a picture; the Decoder's word to itself, as Step is."""

    serial: int
    """Grows by one per picture; stale messages are told by it."""


DecoderMessage = (
    Feed
    | Cut
    | Restore
    | TakeSnapshot
    | Propose
    | Withdraw
    | Embed
    | DropEmbed
    | Step
    | EmbedStep
    | EncodeStep
)


# --- Cache --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Find a state that a prompt can build on; answered by Matched."""

    slot_id: int
    scope: tuple[str, ...]
    prompt: npt.NDArray[np.int32]
    n_have: int
    """What the chosen slot holds of the prompt already."""
    images: tuple[ImageSpan, ...] = ()
    """The prompt's; no kept state is used up to inside one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Keep a sequence's state."""

    scope: tuple[str, ...]
    tokens: npt.NDArray[np.int32]
    n_prompt: int
    state: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesMeasured:
    """How fast the engine was just now; zeros say nothing."""

    prompt_tokens_per_s: float = 0.0
    restore_bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWritten:
    """A state's file is written (`name`), or could not be (None)."""

    state_id: int
    name: str | None


CacheMessage = Match | Keep | RatesMeasured | StateWritten


# --- Metrics ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheChanged:
    """What the Cache holds now, and what it did since start."""

    n_states: int
    memory_bytes: int
    disk_bytes: int
    n_hits: int
    n_misses: int
    n_kept: int
    n_evicted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassDone:
    """One decode call."""

    seconds: float
    n_rows: int
    n_sequences: int
    n_prompt_rows: int
    n_max_tokens: int
    """The longest sequence in the pass."""
    n_held: int = 0
    """Tokens that all sequences together hold behind the pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChanged:
    """How many requests run and wait now."""

    n_running: int
    n_waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSent:
    """An HTTP response is complete, or its client is gone."""

    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDropped:
    """A job ended without a slot: "cancelled", "overloaded" or "stopping"."""

    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationStarted:
    """A request got its slot; `slot` is what /slots shows of it."""

    slot_id: int
    job: Job
    n_cached: int
    queued_s: float = 0.0
    """From arrival to the slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationMoved:
    """A running generation's progress, told now and then."""

    slot_id: int
    n_prompt_done: int
    """Prompt tokens that stand, reused ones included."""
    n_generated: int
    timings: Timings
    """Up to now."""
    has_new_line: bool = False
    """The text has at least two lines."""
    n_drafted: int = 0
    n_accepted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationEnded:
    """A generation is over; `outcome` is a finish reason, "cancelled" or "failed"."""

    slot_id: int
    outcome: str
    usage: Usage
    timings: Timings
    n_prompt_done: int
    """Prompt tokens that stand; fewer than all where it ended before its text."""
    has_new_line: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorsStarted:
    """The first input of a request is run."""

    queued_s: float
    """From arrival to now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDone:
    """An input became a vector."""

    n_tokens: int
    seconds: float
    """Spent in the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorsEnded:
    """A request for vectors is over: "vectors", "cancelled" or "failed"."""

    outcome: str
    n_running: int
    """Requests that are still being worked on."""


MetricsMessage = (
    CacheChanged
    | PassDone
    | LineChanged
    | ResponseSent
    | JobDropped
    | GenerationStarted
    | GenerationMoved
    | GenerationEnded
    | VectorsStarted
    | InputDone
    | VectorsEnded
)


# --- Receipt ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An answer is complete: make its receipt, and tell the sink its end."""

    job: Job
    sink: Sink
    finished: Finished
    """The end as it is without a receipt."""
    tokens: tuple[int, ...]
    """Everything drawn, the end-of-generation token included."""
    pieces: tuple[OutputPiece, ...]
    """Everything delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digested:
    """The model file's digest is known, or why it is not; one of the two is given."""

    sha256: str = ""
    error: KineticError | None = None


ReceiptMessage = Record | Digested | Cancel


# --- The request's sink -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A choice has its slot and its prompt will be run."""

    index: int
    slot_id: int
    n_prompt: int
    n_cached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMoved:
    """How far a choice's prompt is; told from its start on, where it was asked for."""

    index: int
    n_done: int
    """Prompt tokens that stand, reused ones included."""
    seconds: float
    """Since the slot was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptScored:
    """The prompt's tokens with their log-probabilities; the first has none."""

    index: int
    tokens: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of a choice's output."""

    index: int
    pieces: tuple[OutputPiece, ...]
    tokens: tuple[int, ...]
    """Ids of the tokens drawn since the last delta."""
    logprobs: tuple[TokenLogprob, ...] = ()
    """One entry per token whose text is now out, if asked for."""
    n_generated: int = 0
    """Tokens drawn so far."""
    timings: Timings | None = None
    """Up to this piece, where it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A choice is complete; nothing follows for its index."""

    index: int
    finish: Finish
    usage: Usage
    timings: Timings
    slot_id: int
    receipt: Mapping[str, Any] | None = None
    """The answer's receipt as JSON, where one was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A choice ended by an error; nothing follows for its index."""

    index: int
    error: KineticError


SinkEvent = Started | PromptMoved | PromptScored | Delta | Finished | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorMade:
    """An input's vector; nothing follows for its index."""

    index: int
    vector: npt.NDArray[np.float32]
    """[n_vector] float32, read-only; [n_tokens, n_vector] where nothing is pooled."""


VectorEvent = VectorMade | Failed
