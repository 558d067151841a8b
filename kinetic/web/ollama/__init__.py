from kinetic.web.ollama.handlers import ROUTES

__all__ = ["ROUTES"]
