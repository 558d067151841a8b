"""Logging as operators read it: one line a record, on standard error."""

from __future__ import annotations

import logging
import sys


def set_up(*, verbose: bool = False) -> None:
    """Send records to standard error; `verbose` shows the engine's own words too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("kinetic").setLevel(logging.DEBUG if verbose else logging.INFO)
    # Tornado's line per request says less than ours does.
    logging.getLogger("tornado.access").setLevel(logging.ERROR)
    logging.getLogger("pykka").setLevel(logging.CRITICAL)
