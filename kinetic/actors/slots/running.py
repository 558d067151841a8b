"""One generation as its slot knows it: what is drawn, its stage, and what has room."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kinetic.actors.slots.stages import Prompting

if TYPE_CHECKING:
    from kinetic.actors.drafting.drafter import Drafter
    from kinetic.actors.messages import Job, PromptState
    from kinetic.actors.slots.drawing import TokenSource
    from kinetic.actors.slots.stages import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCopy:
    """The prompt as it was run here, until its state is copied for others."""

    serial: int
    """Of the question."""
    group: str
    start: PromptState
    """Without its state yet."""


@dataclass(slots=True, kw_only=True)
class Running:
    """The generation that a slot is making. Thread: the slot's."""

    job: Job
    generation: int
    n_ctx: int
    """Positions of the slot's sequence."""
    source: TokenSource
    share: bool
    """The prompt's state is for others too."""
    lead: int | None
    """How many drawn tokens may wait to become text; None: any number."""
    stage: Stage = field(default_factory=Prompting)
    copy: PromptCopy | None = None
    drafter: Drafter | None = None
    n_drawn: int = 0
    n_spoken: int = 0
    """Tokens drawn whose text is made, where that is told."""

    @property
    def room(self) -> int:
        """How many more tokens the answer may have; at least one while it runs."""
        room = self.n_ctx - len(self.job.prompt)
        if self.job.max_tokens is not None:
            room = min(room, self.job.max_tokens)
        return room - self.n_drawn
