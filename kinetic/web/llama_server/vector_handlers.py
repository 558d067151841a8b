"""The handler of /embedding: read, have it answered, write."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kinetic.web.base import ApiHandler
from kinetic.web.http import body as json_body
from kinetic.web.llama_server.embedding import Wanted, embedding_json, read_embedding
from kinetic.web.llama_server.handlers import NativeHandler
from kinetic.web.vector_handler import VectorHandler

if TYPE_CHECKING:
    from kinetic.types import VectorJob


class EmbeddingHandler(NativeHandler, VectorHandler):
    """POST /embedding: vectors, from an embedding model."""

    id_prefix = "embedding-"

    async def post(self) -> None:
        """Answer with the vectors of each input."""
        arrived_s = time.monotonic()
        service, body = self.service, self.request.body
        self.check_kind("embedding")

        def prepare() -> tuple[Wanted, VectorJob]:
            # Off the loop: a body of many megabytes takes a while to parse and check.
            wanted = read_embedding(
                json_body.parse(body),
                service.info,
                request_id=self.request_id,
                arrived_s=arrived_s,
            )
            return wanted, service.build_vectors(wanted.request)

        wanted, job = await service.run(prepare)
        await self.answer(job, lambda vectors: embedding_json(wanted, vectors))


ROUTES: list[tuple[str, type[ApiHandler]]] = [
    ("/embedding", EmbeddingHandler),
    ("/embeddings", EmbeddingHandler),
]
