"""What the actors need of an engine; `LlamaEngine` and the tests' fakes give it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    import numpy.typing as npt

    from kinetic.model.native.images import Prepared
    from kinetic.model.rows import Rows
    from kinetic.model.tiles import Pixels


class Engine(Protocol):
    """The native context behind plain calls.

    Thread: one at a time; the Decoder's once the server runs.
    """

    n_ctx: int
    """Positions of one sequence."""
    n_sequences: int
    n_batch: int
    """Most rows of one pass."""

    def decode(
        self, rows: Sequence[Rows], *, copy: bool = True
    ) -> list[npt.NDArray[np.float32]]:
        """Run one pass; one [n_logits, n_vocab] float32, read-only, per part.

        Without `copy` they are good until the next pass.
        """

    def parts(self, n_tokens: int) -> tuple[tuple[int, int], ...]:
        """The passes of an input that becomes a vector, as (first, end)."""

    def embed(self, rows: Rows, *, is_last: bool) -> npt.NDArray[np.float32] | None:
        """Run one of an input's parts; its vector, float32, read-only, at the end."""

    def cut(self, sequence: int, n_keep: int) -> None:
        """Drop a sequence's memory from position `n_keep` on."""

    def snapshot(self, sequence: int) -> bytes:
        """A copy of a sequence's memory."""

    def restore(self, sequence: int, state: bytes) -> bool:
        """Replace a sequence's memory; False, and empty, when it does not fit."""

    def close_context(self) -> None:
        """Free the context; the model stays for those who read its vocabulary."""


class PictureEncoder(Protocol):
    """What turns pictures into vectors; `Projector` gives it."""

    def prepared(self, pixels: Pixels) -> AbstractContextManager[Prepared]:
        """Lend a picture as the encoder wants it; any thread."""

    def encode(
        self, picture: Prepared, tile: int, go_on: Callable[[], bool]
    ) -> npt.NDArray[np.float32] | None:
        """The vectors of a tile; None where `go_on` said no. One thread at a time."""
