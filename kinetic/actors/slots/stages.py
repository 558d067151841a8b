"""What a slot's generation waits for, one frozen value at a time.

    Restoring -> Prompting -> Stepping -> Spent -> Closing
                                 |  ^
                                 v  |
                    Guessing, Lagging, Renewing

Any stage may go to Closing, where a cancel, an error or the text's end asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinetic.actors.messages import KeptState, PromptState


@dataclass(frozen=True, slots=True)
class Restoring:
    """For a state to be put back: Restored."""

    state: PromptState | KeptState


@dataclass(frozen=True, slots=True)
class Prompting:
    """For the prompt to be run: Logits, the last of several."""


@dataclass(frozen=True, slots=True)
class Stepping:
    """For the rows of a step: Logits."""

    drafted: tuple[int, ...] = ()
    """What the feed's tokens but the first are: guessed, to be checked."""


@dataclass(frozen=True, slots=True)
class Guessing:
    """For the draft model: Proposed."""

    token: int
    """To be fed, and what is guessed after it."""
    most: int
    """Guesses that there may be."""


@dataclass(frozen=True, slots=True)
class Lagging:
    """For the text to come nearer: Spoken."""

    tokens: tuple[int, ...]
    """Drawn last; the last of them is to be fed."""


@dataclass(frozen=True, slots=True)
class Renewing:
    """For a constraint that met a limit to be compiled again: Renewed."""

    drafted: tuple[int, ...]
    """Guesses whose rows wait to be drawn from."""


@dataclass(frozen=True, slots=True)
class Spent:
    """For the text's end, since nothing more is drawn: TextEnded."""


@dataclass(frozen=True, slots=True)
class Closing:
    """For the Decoder to let go: Withdrawn."""


Stage = (
    Restoring | Prompting | Stepping | Guessing | Lagging | Renewing | Spent | Closing
)
