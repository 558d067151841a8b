"""The two log lines of a request: counts, times and ends, never any text."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence

from kinetic.actors.messages import Failed, Finished, Job, SinkEvent
from kinetic.web.service import ClientGone

_log = logging.getLogger(__name__)


class Journal:
    """Follows one request from its jobs to its end."""

    def __init__(self, route: str, jobs: Sequence[Job], *, stream: bool) -> None:
        self._id = jobs[0].request_id
        self._route = route
        self._began_s = time.monotonic()
        self._ends: Counter[str] = Counter()
        self._n_cached = 0
        self._n_generated = 0
        self._queued_s = 0.0
        self._n_prompt = sum(len(job.prompt) for job in jobs)
        _log.info(
            "%s begins: %s, choices %d, prompt tokens %d%s",
            self._id,
            route,
            len(jobs),
            self._n_prompt,
            ", streamed" if stream else "",
        )

    def saw(self, events: Sequence[SinkEvent]) -> None:
        """Take what the request's stream told."""
        for event in events:
            if isinstance(event, Finished):
                self._ends[event.finish.reason] += 1
                self._n_cached += event.usage.n_cached
                self._n_generated += event.usage.n_generated
                self._queued_s = max(self._queued_s, event.timings.queued_s)
            elif isinstance(event, Failed):
                gone = isinstance(event.error, ClientGone)
                self._ends["client gone" if gone else type(event.error).__name__] += 1

    def end(self) -> None:
        """The request is over, however it ended."""
        _log.info(
            "%s ends: %s, cached tokens %d, answer tokens %d, queued %.3f s, %.3f s",
            self._id,
            ", ".join(sorted(self._ends)) or "given up",
            self._n_cached,
            self._n_generated,
            self._queued_s,
            time.monotonic() - self._began_s,
        )
