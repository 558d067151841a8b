from kinetic.web.llama_server import handlers, vector_handlers

ROUTES = [*handlers.ROUTES, *vector_handlers.ROUTES]

__all__ = ["ROUTES"]
