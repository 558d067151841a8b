"""The two log lines of a request: counts, times and ends, never any text."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence

from kinetic.actors.messages import Failed, Finished, Job
from kinetic.errors import ClientGone, KineticError

_log = logging.getLogger(__name__)


class Journal:
    """Follows one request from its jobs to the end of the last of them.

    What became of a job is known to the actors alone: a client that leaves reads no
    end, and its answer goes on for as long as a pass takes. So ends are seen as they
    are told, in any thread, one at a time.
    """

    def __init__(self, route: str, jobs: Sequence[Job], *, streamed: bool) -> None:
        self._id = jobs[0].request_id
        self._began_s = time.monotonic()
        self._n_open = len(jobs)
        self._ends: Counter[str] = Counter()
        self._n_cached = 0
        self._n_generated = 0
        self._queued_s = 0.0
        self._is_known = True
        _log.info(
            "%s begins: %s, choices %d, prompt tokens %d%s",
            self._id,
            route,
            len(jobs),
            sum(len(job.prompt) for job in jobs),
            ", streamed" if streamed else "",
        )

    def saw(self, end: Finished | Failed) -> None:
        """Take a job's end, and tell the request's with the last one."""
        if isinstance(end, Finished):
            self._ends[end.finish.reason] += 1
        else:
            self._ends[_name(end.error)] += 1
        if end.usage is None or end.timings is None:
            self._is_known = False
        else:
            self._n_cached += end.usage.n_cached
            self._n_generated += end.usage.n_generated
            self._queued_s = max(self._queued_s, end.timings.queued_s)
        self._n_open -= 1
        if self._n_open == 0:
            self._tell()

    def never_began(self, error: KineticError) -> None:
        """No job was handed over."""
        self._ends[_name(error)] += 1
        self._tell()

    def _tell(self) -> None:
        figures = (
            f"cached tokens {self._n_cached}, answer tokens {self._n_generated},"
            f" queued {self._queued_s:.3f} s"
        )
        _log.info(
            "%s ends: %s, %s, %.3f s",
            self._id,
            ", ".join(sorted(self._ends)),
            figures if self._is_known else "tokens unknown",
            time.monotonic() - self._began_s,
        )


def _name(error: KineticError) -> str:
    return "client gone" if isinstance(error, ClientGone) else type(error).__name__
