"""`kinetic verify-receipt`: run the answers of receipts again."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kinetic.cli.flags import Command, Flag
from kinetic.cli.model_flags import VERBOSE, engine_flags
from kinetic.config import BenchOptions
from kinetic.errors import KineticError
from kinetic.files import store

if TYPE_CHECKING:
    from kinetic.cli.verifying import VerifyOptions


def _run(arguments: argparse.Namespace) -> int:
    from kinetic.cli.verifying import verify_files
    from kinetic.receipts.verify import Outcome

    # As argparse ends on flags that cannot be; 1 would say that an answer differs.
    code = 2
    try:
        options = _options(arguments)
        code = int(Outcome.UNDECIDED)
        return verify_files(options, print)
    except KineticError as error:
        print(f"kinetic: {error}", file=sys.stderr)
        return code


def _options(arguments: argparse.Namespace) -> VerifyOptions:
    from kinetic.cli.verifying import VerifyOptions, pin_of

    pin = pin_of(arguments.public_key, arguments.key)
    model = None if arguments.model_flag is None else store.locate(arguments.model_flag)
    return VerifyOptions(
        files=tuple(arguments.files),
        pin=pin,
        anyway=arguments.anyway,
        url=arguments.url,
        api_key=arguments.api_key,
        bench=BenchOptions(
            model=model,
            n_ctx=arguments.n_ctx,
            n_parallel=arguments.n_parallel or _SLOTS,
            n_threads=arguments.n_threads,
            n_batch=arguments.n_batch,
            n_gpu_layers=arguments.n_gpu_layers,
        ),
    )


_SLOTS: Final = BenchOptions().n_parallel

_RECEIPT: Final = {
    Flag("FILE", "files", nargs="+"): (
        "receipts, whole responses that hold some, or JSON lines of either; - is"
        " standard input"
    ),
    Flag("-m --model FILE", "model_flag", Path): (
        "the model file [default: looked for among the files that are here]"
    ),
    Flag("--public-key KEY", "public_key"): (
        "ask for this key's signature: 64 hex digits, or a file that holds them"
    ),
    Flag("--key FINGERPRINT", "key"): "ask for the signature of this key",
    Flag("--anyway", "anyway", action="store_true"): (
        "run it also where engine or plan are not the receipt's: agreement then"
        " proves it, a difference proves nothing"
    ),
    Flag("--url URL", "url"): (
        "ask this running server instead of loading the model: its word is then"
        " what you have"
    ),
    Flag("--api-key KEY", "api_key"): "the key of that server",
}
_ENGINE: Final = engine_flags(context="what the receipts take", slots=str(_SLOTS))

COMMAND: Final = Command(
    name="verify-receipt",
    help="run the answers of receipts again and compare every token",
    description="Exit codes: 0 every receipt is proven, 1 one differs, 2 no receipt"
    " or altered, 3 made by another model, 4 signature wrong or missing, 5 cannot"
    " be told on this machine.",
    run=_run,
    flags=_RECEIPT,
    groups=(("engine", {**_ENGINE, **VERBOSE}),),
)
