"""Pictures on their way to vectors: the Decoder's part.

    a feed stands before a picture -> a thread decodes and resizes it -> EncodeStep
        -> some nodes of the encoder's graph -> EncodeStep -> ... -> the vectors

The encoder runs in a thread of its own, since the library calls back in the middle of
its work and cannot be left there. It computes only while the Decoder waits for it: the
two take turns, so that streams go on between pieces and threads never fight for the
processors.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kinetic.actors.messages import EncodeStep
from kinetic.errors import InternalError
from kinetic.model.vision.pictures import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import numpy as np
    import numpy.typing as npt

    from kinetic.model.engine.api import PictureEncoder
    from kinetic.model.job import Picture
    from kinetic.model.native.images import Prepared

    Vectors = tuple[npt.NDArray[np.float32], ...]

_log = logging.getLogger(__name__)

KEPT_BYTES: Final = 128 << 20
"""Most memory for vectors of pictures that were seen before."""

PIECE_S: Final = 0.01
"""About how long the encoder computes before others have a turn. A node of its graph
is never cut, so that one of a large picture may take longer."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A picture is encoded; or it failed, or nobody wanted it any more."""

    digest: str
    vectors: Vectors = ()
    error: InternalError | None = None


class PictureRun:
    """Encodes one picture at a time and keeps the vectors of the last ones.

    Thread: the Decoder's. `tell_me` tells the Decoder a message, from any thread.
    """

    def __init__(
        self,
        encoder: PictureEncoder | None,
        tell_me: Callable[[EncodeStep], None],
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._encoder = encoder
        self._tell_me = tell_me
        self._limit = kept_bytes
        self._kept: OrderedDict[str, Vectors] = OrderedDict()
        self._n_kept_bytes = 0
        self._running: _Encoding | None = None
        self._serial = 0

    def vectors(self, picture: Picture) -> Vectors | None:
        """A picture's vectors; where they are not at hand, it is begun if none is."""
        found = self._kept.get(picture.digest)
        if found is not None:
            self._kept.move_to_end(picture.digest)
            return found
        if self._running is None:
            if self._encoder is None:
                raise InternalError("a picture for a server without a projector")
            self._serial += 1
            step = EncodeStep(serial=self._serial)
            self._running = _Encoding(
                self._encoder, picture, lambda: self._tell_me(step)
            )
        return None

    def step(self, message: EncodeStep, wanted: Collection[str]) -> Ended | None:
        """Have the next piece computed; its end, or None while there is more.

        A picture that is not `wanted` is given up.
        """
        running = self._running
        if running is None or message.serial != self._serial:
            return Ended("")
        if running.picture.digest not in wanted:
            running.drop()
        if not running.advance():
            return None
        self._running = None
        ended = running.ended()
        if ended.vectors:
            self._keep(ended)
        return ended

    def _keep(self, ended: Ended) -> None:
        self._kept[ended.digest] = ended.vectors
        self._n_kept_bytes += _size(ended.vectors)
        while self._n_kept_bytes > self._limit:
            _, gone = self._kept.popitem(last=False)
            self._n_kept_bytes -= _size(gone)

    def close(self) -> None:
        """End what runs, and wait for its thread."""
        if self._running is not None:
            self._running.drop()
            self._running.close()
            self._running = None


def _size(vectors: Vectors) -> int:
    return sum(tile.nbytes for tile in vectors)


class _Encoding:
    """One picture's thread, and the turns that it and the Decoder take."""

    def __init__(
        self, encoder: PictureEncoder, picture: Picture, tell_ready: Callable[[], None]
    ) -> None:
        self.picture = picture
        self._encoder = encoder
        self._tell_ready = tell_ready
        self._vectors: Vectors = ()
        self._error: InternalError | None = None
        self._is_dropped = False
        self._is_ready = False
        self._has_ended = False
        self._turn = threading.Semaphore(0)  # the encoder may compute
        self._over = threading.Semaphore(0)  # the Decoder may go on
        self._until_s = 0.0
        self._began_s = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="encoder", daemon=True)
        self._thread.start()

    # --- The Decoder's thread -------------------------------------------------------

    def drop(self) -> None:
        """Give the work up; it ends at the next piece."""
        self._is_dropped = True

    def advance(self) -> bool:
        """Give the encoder a turn and wait until it is over; True at the end."""
        self._turn.release()
        self._over.acquire()
        return self._has_ended

    def ended(self) -> Ended:
        """What became of it."""
        return Ended(self.picture.digest, self._vectors, self._error)

    def close(self) -> None:
        """Wait for the thread; the work must have been dropped."""
        self._turn.release()
        self._thread.join()

    # --- The encoder's thread -------------------------------------------------------

    def _work(self) -> None:
        try:
            with self._encoder.prepared(decode(self.picture.data)) as prepared:
                self._say_ready()
                self._wait()
                self._encode(prepared)
        except Exception as error:  # noqa: BLE001 - told to whoever waits for it
            _log.exception("a picture could not be encoded")
            message = str(error) if isinstance(error, InternalError) else ""
            self._error = InternalError(message or "a picture could not be encoded")
        finally:
            self._has_ended = True
            self._over.release()
            # Where it ended before its first turn, the Decoder is not waiting for it.
            self._say_ready()

    def _say_ready(self) -> None:
        if not self._is_ready:
            self._is_ready = True
            self._tell_ready()

    def _encode(self, prepared: Prepared) -> None:
        found = []
        for tile in range(len(prepared.tiles)):
            if self._is_dropped:
                return
            vectors = self._encoder.encode(prepared, tile, self._go_on)
            if vectors is None:
                return
            found.append(vectors)
        self._vectors = tuple(found)
        seconds = time.monotonic() - self._began_s
        _log.debug("a picture of %d tiles took %.2f s", len(found), seconds)

    def _go_on(self) -> bool:
        """Between two pieces of the graph: let others have their turn now and then."""
        if time.monotonic() >= self._until_s and not self._is_dropped:
            self._over.release()
            self._wait()
        return not self._is_dropped

    def _wait(self) -> None:
        self._turn.acquire()
        self._until_s = time.monotonic() + PIECE_S
