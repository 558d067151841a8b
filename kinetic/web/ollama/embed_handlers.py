"""The handlers of /api/embed and /api/embeddings: read, have it answered, write."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kinetic.errors import UnsupportedFeature
from kinetic.web.base import ApiHandler
from kinetic.web.ollama import embed
from kinetic.web.ollama.handlers import OllamaHandler, other_route
from kinetic.web.ollama.names import check_name
from kinetic.web.vector_handler import VectorHandler

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from kinetic.types import ModelInfo, VectorJob

_UNKNOWN = 'model "{}" not found, try pulling it first'


class EmbedHandler(OllamaHandler, VectorHandler):
    """POST /api/embed: vectors of unit length."""

    async def post(self) -> None:
        """Answer with a vector for each text."""
        arrived_s = time.monotonic()
        service = self.service
        info = service.info

        def prepare() -> tuple[str, embed.Wanted, VectorJob | None]:
            # Off the loop: a body of many megabytes takes a while to parse and check.
            body = self.body()
            model = self.model_of(body)
            if info.kind != "embedding":
                message = f'"{model}" does not support embeddings'
                raise UnsupportedFeature(f"{message}: {other_route(info.kind)}")
            wanted, job = self.read(body, info, arrived_s), None
            if wanted.request is not None:
                job = service.build_vectors(wanted.request)
            return model, wanted, job

        model, wanted, job = await service.run(prepare)
        if job is None:
            self.send_json(self.written(wanted, None, [], model, 0.0))
            return
        await self.answer(
            job,
            lambda vectors: self.written(
                wanted, job, vectors, model, time.monotonic() - arrived_s
            ),
        )

    def model_of(self, body: Mapping[str, Any]) -> str:
        """A missing name is an unknown one here."""
        return check_name(body, self.names, is_needed=False, unknown=_UNKNOWN)

    def read(
        self, body: Mapping[str, Any], info: ModelInfo, arrived_s: float
    ) -> embed.Wanted:
        """Read this route's body; raises RequestError."""
        return embed.read_embed(
            body, info, request_id=self.request_id, arrived_s=arrived_s
        )

    def written(
        self,
        wanted: embed.Wanted,
        job: VectorJob | None,
        vectors: Sequence[npt.NDArray[np.float32]],
        model: str,
        seconds: float,
    ) -> dict[str, Any]:
        """This route's answer."""
        return embed.embed_json(wanted, job, vectors, model=model, seconds=seconds)


class EmbeddingsHandler(EmbedHandler):
    """POST /api/embeddings, the older route: one vector, as the model gives it."""

    def model_of(self, body: Mapping[str, Any]) -> str:
        """A missing name is said to be missing."""
        return check_name(body, self.names, unknown=_UNKNOWN)

    def read(
        self, body: Mapping[str, Any], info: ModelInfo, arrived_s: float
    ) -> embed.Wanted:
        """Read the prompt; raises RequestError."""
        return embed.read_embeddings(
            body, info, request_id=self.request_id, arrived_s=arrived_s
        )

    def written(
        self,
        wanted: embed.Wanted,  # noqa: ARG002 - nothing is made of the vector
        job: VectorJob | None,  # noqa: ARG002
        vectors: Sequence[npt.NDArray[np.float32]],
        model: str,  # noqa: ARG002 - not told here
        seconds: float,  # noqa: ARG002
    ) -> dict[str, Any]:
        """The vector alone."""
        return embed.embeddings_json(vectors)


ROUTES: list[tuple[str, type[ApiHandler]]] = [
    ("/api/embed", EmbedHandler),
    ("/api/embeddings", EmbeddingsHandler),
]
