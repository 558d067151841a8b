"""The whole program: every command in one parser, and what errors come to."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Final

from kinetic import __version__, log
from kinetic.cli import doctor, keygen, models, pull, serve, verify_receipt
from kinetic.errors import KineticError

_log = logging.getLogger(__name__)

COMMANDS: Final = (
    serve.COMMAND,
    doctor.COMMAND,
    pull.COMMAND,
    models.LIST,
    models.REMOVE,
    verify_receipt.COMMAND,
    keygen.COMMAND,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the process's exit code."""
    arguments = parser().parse_args(argv)
    log.set_up(verbose=getattr(arguments, "verbose", False))
    try:
        return int(arguments.run(arguments))
    except KineticError as error:
        print(f"kinetic: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        # Of a file or the system, wherever that was; it says itself which and why.
        _log.debug("ended by", exc_info=True)
        print(f"kinetic: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="kinetic",
        description="A local LLM server: one GGUF model, three APIs, every answer"
        " exactly what its request would get alone.",
    )
    top.add_argument("--version", action="version", version=f"kinetic {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return top
