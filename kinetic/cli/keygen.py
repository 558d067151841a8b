"""What `kinetic keygen` does; apart from the rest, which brings the engine along."""

from __future__ import annotations

from pathlib import Path

from kinetic.receipts import signing


def keygen(file: Path) -> str:
    """Make a signing key; what to tell of it. Raises ReceiptError."""
    key = signing.generate(file).public_key
    return (
        f"{file}: the secret key; whoever has it can sign as you\n"
        f"public key:  {key.hex}\n"
        f"fingerprint: {key.fingerprint}\n"
        f"kinetic serve --sign-key {file} signs receipts with it"
    )
