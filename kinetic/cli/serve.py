"""`kinetic serve`: load a model and answer requests."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Final

from kinetic.cli.flags import DEFAULTS, Command, Flag, whole
from kinetic.cli.model_flags import MODEL_FLAGS
from kinetic.cli.options import OLLAMA_PORT, serve_options
from kinetic.config import MIB

_log = logging.getLogger(__name__)


def _run(arguments: argparse.Namespace) -> int:
    from kinetic.model.engine.library import choose_library

    options = serve_options(arguments)
    choose_library(options.model, options.pooling)
    # The engine reads that choice when it is imported, so not before.
    from kinetic import app
    from kinetic.web.guard import is_this_computer

    if not options.api_keys and not is_this_computer(options.host):
        _log.warning(
            "listening on %s without --api-key: whoever reaches that address can use"
            " the model",
            options.host,
        )
    return app.serve(options)


def _bytes(mib: int) -> int:
    return mib * MIB


def _limit(count: int) -> int | None:
    return None if count < 0 else count


_SERVER: Final = (
    Flag("--host", "host", f"address to listen on [default: {DEFAULTS.host}]"),
    Flag(
        "--port",
        "port",
        f"port; 0 lets the system choose [default: {DEFAULTS.port}]",
        whole(0, 65535),
        # Left out, so that --ollama can tell whether a port was named.
        default=argparse.SUPPRESS,
    ),
    Flag(
        "--ollama",
        "ollama",
        f"listen where Ollama does, on port {OLLAMA_PORT}, unless --port says"
        " otherwise; its routes answer on every port",
        action="store_true",
    ),
    Flag("-a --alias NAME", "alias", "model id to show [default: file name]"),
    Flag(
        "-n --predict --n-predict N",
        "max_tokens",
        "most tokens of an answer whose request names no limit"
        " [default: -1, the context's end]",
        whole(-1, to=_limit),
    ),
    Flag(
        "--api-key KEY",
        "api_keys",
        "ask every route but health for this key; may be given several times",
        action="append",
    ),
    Flag("--api-key-file FILE", "api_key_file", "keys, one a line", Path),
    Flag(
        "--cors-origin ORIGIN",
        "cors_origins",
        'let web pages of this origin use the server ("*" for all); may be given'
        " several times",
        action="append",
    ),
    Flag(
        "--allowed-host NAME",
        "allowed_hosts",
        "answer to this name too, such as a proxy's, in Host headers; may be given"
        " several times",
        action="append",
    ),
    Flag(
        "--queue N",
        "line_limit",
        f"most requests that wait for a slot [default: {DEFAULTS.line_limit}]",
        whole(0),
    ),
    Flag(
        "--max-connections N",
        "max_connections",
        "most connections that are answered at once or stay open after an answer;"
        " idle ones give way to new ones [default: 256, or what fits `ulimit -n`]",
        whole(1),
    ),
    Flag(
        "-cram --cache-ram MIB",
        "cache_ram_bytes",
        "most memory for kept prompt states; 0 keeps none there"
        " [default: a quarter of what is free]",
        whole(0, to=_bytes),
    ),
    Flag(
        "--cache-disk MIB",
        "cache_disk_bytes",
        "most disk for kept prompt states, which hold conversations; 0 writes"
        " none [default: a tenth of what is free, at most 8192]",
        whole(0, to=_bytes),
    ),
    Flag(
        "--cache-dir FOLDER",
        "cache_dir",
        "folder for kept prompt states [default: states in the cache folder]",
        Path,
    ),
    Flag(
        "--timeout S",
        "request_timeout_s",
        "seconds a client has to send its request"
        f" [default: {DEFAULTS.request_timeout_s:.0f}]",
        whole(1, to=float),
    ),
    Flag(
        "--max-body MIB",
        "max_body_bytes",
        f"largest body of a request [default: {DEFAULTS.max_body_bytes // MIB}]",
        whole(1, to=_bytes),
    ),
    Flag(
        "--show-prompts",
        "show_prompts",
        "show prompts in /slots",
        action="store_true",
    ),
    Flag(
        "--sign-key FILE",
        "sign_key",
        "sign receipts with this key, which `kinetic keygen FILE` makes",
        Path,
    ),
)
_DRAFTS: Final = (
    Flag(
        "-md --model-draft --spec-draft-model FILE",
        "draft_model",
        "a smaller model with the same vocabulary that guesses too, where that pays",
        Path,
    ),
    Flag(
        "--draft-max --draft --draft-n --spec-draft-n-max N",
        "draft_max",
        "most tokens that are guessed and checked in one pass, where that pays;"
        f" 15 is the most a pass takes [default: {DEFAULTS.draft_max}]",
        whole(0),
    ),
    Flag(
        "--draft-min --draft-n-min --spec-draft-n-min N",
        "draft_min",
        "make no draft of fewer tokens [default: 0, what pays]",
        whole(0, to=lambda least: max(least, 1)),
    ),
    Flag(
        "--no-draft",
        "draft_max",
        "guess nothing; the same as --draft-max 0",
        action="store_const",
        const=0,
    ),
)
_ACCEPTED: Final = (
    Flag("--metrics", "metrics", "accepted; always on", action="store_true"),
    Flag("--slots", "slots", "accepted; always on", action="store_true"),
)

COMMAND: Final = Command(
    name="serve",
    help="load a model and answer requests",
    run=_run,
    flags=(
        ("model", MODEL_FLAGS),
        ("server", _SERVER),
        ("drafting (it never changes an answer)", _DRAFTS),
        ("server", _ACCEPTED),
    ),
)
