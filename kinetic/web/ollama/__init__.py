from kinetic.web.ollama import embed_handlers, handlers

ROUTES = [*handlers.ROUTES, *embed_handlers.ROUTES]

__all__ = ["ROUTES"]
