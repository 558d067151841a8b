"""What the routes for vectors of all three APIs do alike."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kinetic.errors import ClientGone
from kinetic.web.base import ApiHandler
from kinetic.web.http.written import dumps

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kinetic.types import VectorJob

_log = logging.getLogger(__name__)


class VectorHandler(ApiHandler):
    """Has vectors made and answers with them in one body."""

    async def answer(
        self,
        job: VectorJob,
        write: Callable[[list[npt.NDArray[np.float32]]], object],
    ) -> None:
        """Run a request's inputs and send what `write` makes of the vectors.

        A client that goes away ends its inputs and gets nothing. Raises what an input
        failed with.
        """
        began_s = time.monotonic()
        _log.info(
            "%s begins: %s, inputs %d, tokens %d",
            job.request_id,
            self.request.path,
            len(job.inputs),
            job.n_tokens,
        )
        end = "given up"
        try:
            with self.open_vectors(job) as call:
                vectors = await call.vectors()
            # Off the loop: a hundred thousand numbers take a while to write.
            body = await self.service.run(lambda: dumps(write(vectors)))
            self.send_text(body)
            end = "vectors"
        except ClientGone:
            end = "client gone"
        except Exception as error:
            end = type(error).__name__
            raise
        finally:
            seconds = time.monotonic() - began_s
            _log.info("%s ends: %s, %.3f s", job.request_id, end, seconds)

    def send_text(self, body: str) -> None:
        """Answer with JSON that is written already."""
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.write(body)
