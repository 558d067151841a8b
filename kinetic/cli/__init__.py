from kinetic.cli.program import main

__all__ = ["main"]
