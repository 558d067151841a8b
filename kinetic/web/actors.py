"""The door to the actors, as the web sees it: what it may ask, what it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinetic.actors.messages import Job, Sink, VectorSink
    from kinetic.errors import KineticError
    from kinetic.types import VectorJob


class SlotShown(Protocol):
    """One slot as it may be shown: its present or last request."""

    @property
    def slot_id(self) -> int:
        """From 0 on."""

    @property
    def is_processing(self) -> bool:
        """Whether it makes an answer now."""

    @property
    def job(self) -> Job | None:
        """None before the first request."""

    @property
    def n_cached(self) -> int:
        """Prompt tokens that were reused."""

    @property
    def n_prompt_done(self) -> int:
        """Prompt tokens that stand, reused ones included."""

    @property
    def n_generated(self) -> int:
        """Tokens drawn; told now and then while the answer is made."""

    @property
    def n_drafted(self) -> int:
        """Tokens that were guessed and checked for the answer."""

    @property
    def n_accepted(self) -> int:
        """How many of the guessed tokens are in the answer."""

    @property
    def has_new_line(self) -> bool:
        """Whether the answer has at least two lines."""

    @property
    def task(self) -> int:
        """Counts the generations of the server from 0; -1 before the first."""


class Shown(Protocol):
    """What the actors show of themselves at one moment; never changed."""

    @property
    def slots(self) -> Sequence[SlotShown]:
        """By their number."""

    @property
    def n_idle(self) -> int:
        """Slots that serve nobody."""


class Actors(Protocol):
    """The door to the actors."""

    def submit(self, jobs: tuple[Job, ...], sink: Sink) -> None:
        """Have answers made; each job ends exactly once at the sink."""

    def submit_vectors(self, job: VectorJob, sink: VectorSink) -> None:
        """Have vectors made; each input ends exactly once at the sink."""

    def cancel(self, request_id: str, error: KineticError) -> None:
        """Drop a request."""

    def forget(self, request_id: str, index: int) -> None:
        """A sink saw the end of a job or input."""

    @property
    def view(self) -> Shown:
        """The slots now."""

    def count_response(self, status: int) -> None:
        """An HTTP response is complete."""

    def metrics_page(self) -> bytes:
        """All metrics now, in Prometheus' text format."""
