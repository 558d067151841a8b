"""One generation as its slot knows it: what is drawn, drafted and has room."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinetic.actors.drafting import Drafter
    from kinetic.actors.drawing import TokenSource
    from kinetic.actors.messages import Job, KeptState, PromptState


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
    start: PromptState | None
    """The prompt as another one has run it, until it is put back; or as it is run here,
    until its state is copied for others."""
    copy_serial: int = field(default=0, init=False)
    """Of the question that has its state copied; 0: none is open."""
    kept: KeptState | None
    """What is being put back."""
    lead: int | None
    """How many drawn tokens may wait to become text; None: any number."""
    is_prompt_done: bool = False
    drafter: Drafter | None = None
    drafted: tuple[int, ...] = ()
    """What the last feed's tokens but the first are: guessed, to be checked."""
    unfed: tuple[int, int] | None = None
    """A token that waits for drafts, and how many there may be."""
    n_drawn: int = 0
    n_spoken: int = 0
    """Tokens drawn whose text is made, where that is told."""
    unspoken: tuple[int, ...] = ()
    """Tokens whose feed waits until more text is made, as `lead` asks."""

    @property
    def room(self) -> int:
        """How many more tokens the answer may have; at least one while it runs."""
        room = self.n_ctx - len(self.job.prompt)
        if self.job.max_tokens is not None:
            room = min(room, self.job.max_tokens)
        return room - self.n_drawn
