"""Every path the server answers, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tornado import web

from kinetic.web import llama_server, ollama, openai, prefill
from kinetic.web.common import HealthHandler, NotFoundHandler, ReceiptKeyHandler

if TYPE_CHECKING:
    from kinetic.web.base import ApiHandler
    from kinetic.web.service import Service

Route = tuple[str, type["ApiHandler"]]


def all_routes() -> list[Route]:
    """Path and handler of every route."""
    return [
        ("/health", HealthHandler),
        ("/v1/health", HealthHandler),
        ("/v1/receipts/key", ReceiptKeyHandler),
        ("/receipts/key", ReceiptKeyHandler),
        *openai.ROUTES,
        *prefill.ROUTES,
        *ollama.ROUTES,
        *llama_server.ROUTES,
    ]


def application(service: Service) -> web.Application:
    """The Tornado application; unknown paths get a JSON 404."""
    named = {"service": service}
    routes = all_routes()
    paths = tuple(path for path, _ in routes)
    handlers = [web.url(path, handler, named) for path, handler in routes]
    return web.Application(
        handlers,
        default_handler_class=NotFoundHandler,
        default_handler_args={**named, "paths": paths},
        compress_response=False,
    )
