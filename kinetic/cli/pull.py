"""`kinetic pull`: fetch a model from the hub."""

from __future__ import annotations

import argparse
from typing import Final

from kinetic.cli.flags import Command, Flag
from kinetic.files import store


def _run(arguments: argparse.Namespace) -> int:
    from kinetic.hub.pull import pull

    path = pull(arguments.reference)
    print(f"{path}\nkinetic serve {store.holding(path).name} serves it")
    return 0


COMMAND: Final = Command(
    name="pull",
    help="fetch a GGUF model from the Hugging Face hub; no other command"
    " fetches anything",
    run=_run,
    flags={
        Flag("REPO[:QUANT]", "reference"): (
            "such as owner/name-GGUF:Q4_K_M [default of QUANT: Q4_K_M, then Q8_0];"
            " HF_TOKEN opens private repositories, HF_ENDPOINT names a mirror"
        )
    },
)
