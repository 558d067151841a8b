"""The handlers of /v1/embeddings and /v1/rerank: read, have it answered, write."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kinetic.web.base import ApiHandler
from kinetic.web.http import body as json_body
from kinetic.web.openai.embeddings import Wanted, embeddings_json, read_embeddings
from kinetic.web.openai.rerank import Ranking, read_rerank, rerank_json
from kinetic.web.vector_handler import VectorHandler

if TYPE_CHECKING:
    from kinetic.types import VectorJob


class EmbeddingsHandler(VectorHandler):
    """POST /v1/embeddings."""

    id_prefix = "embd-"

    async def post(self) -> None:
        """Answer with a vector for each input."""
        arrived_s = time.monotonic()
        service, body = self.service, self.request.body
        service.check_kind("embedding")

        def prepare() -> tuple[Wanted, VectorJob]:
            # Off the loop: a body of many megabytes takes a while to parse and check.
            wanted = read_embeddings(
                json_body.parse(body),
                service.info,
                request_id=self.request_id,
                arrived_s=arrived_s,
            )
            return wanted, service.build_vectors(wanted.request)

        wanted, job = await service.run(prepare)
        model = service.info.id
        await self.answer(
            job, lambda vectors: embeddings_json(wanted, job, vectors, model=model)
        )


class RerankHandler(VectorHandler):
    """POST /v1/rerank."""

    id_prefix = "rerank-"

    async def post(self) -> None:
        """Answer with the documents by their relevance."""
        arrived_s = time.monotonic()
        service, body = self.service, self.request.body
        service.check_kind("rerank")

        def prepare() -> tuple[Ranking, VectorJob]:
            ranking = read_rerank(
                json_body.parse(body),
                service.info,
                request_id=self.request_id,
                arrived_s=arrived_s,
            )
            return ranking, service.build_pairs(ranking.request)

        ranking, job = await service.run(prepare)
        model = service.info.id
        await self.answer(
            job, lambda vectors: rerank_json(ranking, job, vectors, model=model)
        )


ROUTES: list[tuple[str, type[ApiHandler]]] = [
    # Without /v1 this path is llama-server's, whose vectors are of another shape.
    ("/v1/embeddings", EmbeddingsHandler),
    ("/v1/rerank", RerankHandler),
    ("/v1/reranking", RerankHandler),
    ("/rerank", RerankHandler),
    ("/reranking", RerankHandler),
    # Cohere's second version differs in what it does not send.
    ("/v2/rerank", RerankHandler),
]
