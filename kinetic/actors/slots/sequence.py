"""A slot's side of its sequence: what is fed, what stands, what is owed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kinetic.actors.base import tell
from kinetic.actors.messages import (
    Cut,
    Feed,
    Propose,
    Restore,
    TakeSnapshot,
    Withdraw,
)
from kinetic.model.job import position_of

if TYPE_CHECKING:
    from collections.abc import Sequence as Tokens

    import numpy.typing as npt
    import pykka

    from kinetic.actors.base import KineticActor
    from kinetic.actors.messages import Ask
    from kinetic.model.job import ImageSpan


class Sequence:
    """The tokens of one sequence as its slot knows them, told to the Decoder.

    Thread: the slot's. `tokens` is everything fed; the engine's memory holds a prefix
    of it, and all of it once nothing `is_owed`.
    """

    def __init__(self, slot_id: int, decoder: pykka.ActorRef[KineticActor]) -> None:
        self._slot_id = slot_id
        self._decoder = decoder
        self.tokens: list[int] = []
        self.images: tuple[ImageSpan, ...] = ()
        """Pictures of the prompt that the tokens begin with."""
        self.n_prompt = 0
        """How many of the tokens were fed as a prompt; the rest were generated."""
        self.serial = 0
        """Of the newest question: whatever answers an earlier one comes too late."""
        self.is_owed = False
        """Something is fed, or put back, and not answered yet."""
        self.is_restored = False
        """The memory was put back from a state and not emptied since."""

    def feed_prompt(
        self,
        prompt: Tokens[int],
        n_keep: int,
        *,
        all_rows: bool,
        images: tuple[ImageSpan, ...] = (),
    ) -> None:
        """Keep `n_keep` leading tokens and run the rest of a prompt after them.

        No picture reaches over `n_keep`.
        """
        # What is kept is the same in this prompt, its pictures included.
        self.images = images
        self.cut(n_keep)
        self.tokens = list(prompt)
        self.n_prompt = len(prompt)
        n_rows = len(prompt) - n_keep
        self._feed(prompt[n_keep:], n_keep, n_rows if all_rows else 1, is_step=False)

    def feed_step(self, tokens: Tokens[int]) -> None:
        """Run generated tokens; every one wants logits."""
        first = len(self.tokens)
        self.tokens.extend(tokens)
        self._feed(tokens, first, len(tokens), is_step=True)

    def _feed(
        self, tokens: Tokens[int], first: int, n_logits: int, *, is_step: bool
    ) -> None:
        self.is_owed = True
        feed = Feed(
            slot_id=self._slot_id,
            serial=self._next(),
            first=first,
            position=position_of(self.images, first),
            tokens=frozen(tokens),
            n_logits=n_logits,
            is_step=is_step,
            images=tuple(span for span in self.images if span.first >= first),
        )
        tell(self._decoder, feed)

    def cut(self, n_keep: int) -> None:
        """Keep the first `n_keep` tokens; nothing may be owed."""
        if len(self.tokens) > n_keep:
            del self.tokens[n_keep:]
            self.n_prompt = min(self.n_prompt, n_keep)
            position = position_of(self.images, n_keep)
            cut = Cut(slot_id=self._slot_id, n_keep=n_keep, position=position)
            tell(self._decoder, cut)
        if n_keep == 0:
            self.is_restored = False

    def restore(
        self,
        tokens: npt.NDArray[np.int32],
        n_prompt: int,
        state: bytes,
        images: tuple[ImageSpan, ...] = (),
    ) -> None:
        """Put a kept state in place of everything; answered by Restored.

        `images` are those of the prompt that it is for: what else the state holds is
        cut off before anything is run.
        """
        self.images = images
        self.tokens = [int(token) for token in tokens]
        self.n_prompt = n_prompt
        self.is_owed = True
        self.is_restored = True
        restore = Restore(
            slot_id=self._slot_id,
            serial=self._next(),
            state=state,
            n_tokens=len(self.tokens),
        )
        tell(self._decoder, restore)

    def take_snapshot(self) -> int:
        """Have the memory copied as it is now; the serial of SnapshotTaken."""
        serial = self._next()
        tell(self._decoder, TakeSnapshot(slot_id=self._slot_id, serial=serial))
        return serial

    def ask(self, ask: Ask) -> None:
        """Have the draft model guess; answered by Proposed."""
        propose = Propose(slot_id=self._slot_id, serial=self._next(), ask=ask)
        tell(self._decoder, propose)

    def withdraw(self) -> None:
        """Take back whatever was asked and not answered; answered by Withdrawn."""
        tell(self._decoder, Withdraw(slot_id=self._slot_id, serial=self._next()))

    def _next(self) -> int:
        self.serial += 1
        return self.serial

    def settle(self, n_past: int) -> None:
        """The memory holds `n_past` tokens and nothing is owed."""
        del self.tokens[n_past:]
        self.n_prompt = min(self.n_prompt, n_past)
        self.is_owed = False
        if n_past == 0:
            self.is_restored = False

    def held(self) -> npt.NDArray[np.int32]:
        """The tokens as a read-only array."""
        return frozen(self.tokens)


def frozen(tokens: Tokens[int]) -> npt.NDArray[np.int32]:
    """Token ids as a read-only int32 array."""
    array = np.array(tokens, np.int32)
    array.flags.writeable = False
    return array
