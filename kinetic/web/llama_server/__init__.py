from kinetic.web.llama_server.handlers import ROUTES

__all__ = ["ROUTES"]
