"""`kinetic keygen`: make a key to sign receipts with."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from kinetic.cli.flags import Command, Flag


def _run(arguments: argparse.Namespace) -> int:
    from kinetic.receipts import signing

    file = arguments.file
    key = signing.generate(file).public_key
    print(
        f"{file}: the secret key; whoever has it can sign as you\n"
        f"public key:  {key.hex}\n"
        f"fingerprint: {key.fingerprint}\n"
        f"kinetic serve --sign-key {file} signs receipts with it"
    )
    return 0


COMMAND: Final = Command(
    name="keygen",
    help="make a key that `kinetic serve --sign-key` signs receipts with",
    run=_run,
    flags={Flag("FILE", "file", Path): "where the secret key is to be written"},
)
