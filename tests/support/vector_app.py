"""A scripted inside that makes vectors: what an input is can be read off its vector."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kinetic.actors.messages import Failed, VectorMade
from kinetic.errors import InputTooLong, KineticError
from kinetic.types import RankRequest, VectorJob, VectorRequest
from tests.support.web_app import Script

N_CTX = 8

Floats = npt.NDArray[np.float32]


def tokens_of(text: str) -> tuple[int, ...]:
    """One token for each character."""
    return tuple(map(ord, text))


def vector_of(tokens: tuple[int, ...]) -> Floats:
    """A vector [4] of no special length."""
    first, last = tokens[0], tokens[-1]
    return np.array([first, last, len(tokens), 1.0], np.float32)


@dataclass
class VectorScript(Script):
    """Answers vector jobs at once; `hold` leaves them open until they are cancelled."""

    vector: Callable[[tuple[int, ...]], Floats] = vector_of
    failure: KineticError | None = None
    """What every input but the first ends with."""
    hold: bool = False
    kind: str = "embedding"
    asked: list[VectorRequest | RankRequest] = field(default_factory=list)
    submitted: list[VectorJob] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    """A job was handed over."""

    def parts(self) -> dict[str, Any]:
        if self.kind == "embedding":
            return {"vector_inputs": self.texts}
        if self.kind == "rerank":
            return {"pair_inputs": self.pairs}
        return {}

    def texts(self, request: VectorRequest) -> VectorJob:
        self.asked.append(request)
        inputs = [i if isinstance(i, tuple) else tokens_of(i) for i in request.inputs]
        for i, tokens in enumerate(inputs):
            if len(tokens) > N_CTX and not request.truncate:
                where = f"{request.param}[{i}]" if request.is_list else request.param
                raise InputTooLong(n_prompt=len(tokens), n_ctx=N_CTX, param=where)
        cut = tuple(tokens[:N_CTX] for tokens in inputs)
        return VectorJob(request_id=request.request_id, inputs=cut)

    def pairs(self, request: RankRequest) -> VectorJob:
        self.asked.append(request)
        inputs = tuple(tokens_of(f"{request.query}|{d}") for d in request.documents)
        return VectorJob(request_id=request.request_id, inputs=inputs)

    def submit_vectors(self, job: VectorJob, sink: Any) -> None:
        self.submitted.append(job)
        self.came.set()
        self._sinks[job.request_id] = sink
        if self.hold:
            return
        for i, tokens in enumerate(job.inputs):
            if i and self.failure is not None:
                sink.put(Failed(index=i, error=self.failure))
            else:
                sink.put(VectorMade(index=i, vector=self.vector(tokens)))

    def cancel(self, request_id: str, error: KineticError) -> None:
        self.cancelled.append(error)
        (job,) = (j for j in self.submitted if j.request_id == request_id)
        for i in range(len(job.inputs)):
            self._sinks[request_id].put(Failed(index=i, error=error))
