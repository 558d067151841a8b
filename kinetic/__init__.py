"""Kinetic: a local server for one GGUF model, exact whatever is batched or cached."""

__version__ = "0.1.0"
