"""Following a re-run token by token, beside what the receipt says."""

from __future__ import annotations

import itertools
import math
import queue
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kinetic.actors.messages import (
    Delta,
    Failed,
    Finished,
    PromptMoved,
    SinkEvent,
)
from kinetic.errors import InternalError, KineticError
from kinetic.receipts.record import OutputRecord
from kinetic.receipts.verify import Difference, Rerun
from kinetic.types import (
    CallPiece,
    ContentPiece,
    OutputPiece,
    ReasoningPiece,
    SamplingParams,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kinetic.actors.system import ActorSystem
    from kinetic.model.job import Job
    from kinetic.model.vocab import Vocab

SILENCE_S: Final = 600.0
"""How long the engine may say nothing, not even that a piece of a prompt is run."""

_names = itertools.count()


class Differs(KineticError):
    """A re-run is stopped: the rest of it is of no use."""


class _Sink:
    """Hands events over to whoever waits for them."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[SinkEvent] = queue.SimpleQueue()

    def put(self, event: SinkEvent) -> None:
        """Take an event; any thread."""
        self._events.put(event)

    def events(self) -> Iterator[SinkEvent]:
        """Everything up to the end; raises InternalError when nothing comes."""
        while True:
            try:
                event = self._events.get(timeout=SILENCE_S)
            except queue.Empty:
                message = f"the engine gave no sign for {SILENCE_S:.0f} s"
                raise InternalError(message) from None
            yield event
            if isinstance(event, Finished | Failed):
                return


class Follower:
    """Runs jobs and compares. Thread: one; it waits for the actors'."""

    def __init__(
        self, system: ActorSystem, vocab: Vocab, progress: Callable[[int], None]
    ) -> None:
        self._system = system
        self._vocab = vocab
        self._progress = progress

    def follow(self, job: Job, recorded: tuple[int, ...]) -> Rerun:
        """Run a job until it ends or draws another token than was recorded.

        `progress` is told how many tokens of prompt and answer stand. Raises what the
        job ends with when it fails.
        """
        drawn: list[int] = []
        pieces: list[OutputPiece] = []
        at: int | None = None
        for event in self._run(job):
            if isinstance(event, PromptMoved):
                self._progress(event.n_done)
            elif isinstance(event, Delta) and at is None:
                drawn += event.tokens
                pieces += event.pieces
                at = first_difference(recorded, drawn)
                if at is not None:
                    self._system.cancel(job.request_id, Differs("of no use any more"))
                self._progress(len(job.prompt) + len(drawn))
            elif isinstance(event, Failed) and at is None:
                raise event.error
            elif isinstance(event, Finished) and at is None:
                output = _output(tuple(drawn), pieces, event)
                return Rerun(prompt_tokens=job.prompt, output=output)
        if at is None:
            raise InternalError("the re-run ended without an end")
        return Rerun(
            prompt_tokens=job.prompt,
            difference=self._difference(job, recorded, drawn, at),
        )

    def _run(self, job: Job) -> Iterator[SinkEvent]:
        sink = _Sink()
        self._system.submit((job,), sink)
        try:
            yield from sink.events()
        finally:
            self._system.forget(job.request_id, job.index)

    def _difference(
        self, job: Job, recorded: tuple[int, ...], drawn: list[int], at: int
    ) -> Difference:
        """Both tokens with the probabilities that the model's raw logits give them."""
        theirs = recorded[at] if at < len(recorded) else None
        logprobs = self._logprobs(job, tuple(drawn[:at]))
        return Difference(
            at=at,
            recorded=self._shown(theirs, logprobs),
            drawn=self._shown(drawn[at], logprobs),
        )

    def _logprobs(self, job: Job, before: tuple[int, ...]) -> dict[int, float]:
        """The log-probability of every token after the prompt and `before`."""
        look = replace(
            job,
            request_id=new_name(),
            prompt=(*job.prompt, *before),
            sampling=SamplingParams(temperature=0),
            max_tokens=1,
            stops=(),
            output=None,
            constraint=None,
            n_logprobs=self._vocab.n_tokens,
        )
        for event in self._run(look):
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Delta) and event.logprobs:
                return {token: p for token, _, p in event.logprobs[0].top}
        return {}

    def _shown(self, token: int | None, logprobs: dict[int, float]) -> str:
        if token is None:
            return "none, the answer ends there"
        if token >= self._vocab.n_tokens:
            return f"{token}, which the model does not have"
        text = self._vocab.full_piece(token).decode("utf-8", "replace")
        p = math.exp(logprobs.get(token, -math.inf))
        return f"{token} {text!r} (p = {p:.6g})"


def new_name() -> str:
    """A request id for a run of our own."""
    return f"rerun-{next(_names)}"


def first_difference(recorded: tuple[int, ...], drawn: list[int]) -> int | None:
    """Where what was drawn leaves what was recorded, going on after it included."""
    pairs = itertools.zip_longest(recorded[: len(drawn)], drawn)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), None)


def _output(
    tokens: tuple[int, ...], pieces: list[OutputPiece], end: Finished
) -> OutputRecord:
    return OutputRecord(
        tokens=tokens,
        content="".join(p.text for p in pieces if isinstance(p, ContentPiece)),
        reasoning="".join(p.text for p in pieces if isinstance(p, ReasoningPiece)),
        tool_calls=tuple(p.call for p in pieces if isinstance(p, CallPiece)),
        finish=end.finish,
    )
