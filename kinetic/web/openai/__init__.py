from kinetic.web.openai.handlers import ROUTES

__all__ = ["ROUTES"]
