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
    from kinetic.model.engine.build_choice import choose_library

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


_SERVER: Final = {
    Flag("--host", "host"): f"address to listen on [default: {DEFAULTS.host}]",
    Flag("--port", "port", whole(0, 65535), default=argparse.SUPPRESS): (
        f"port; 0 lets the system choose [default: {DEFAULTS.port}]"
    ),
    Flag("--ollama", "ollama", action="store_true"): (
        f"listen where Ollama does, on port {OLLAMA_PORT}, unless --port says"
        " otherwise; its routes answer on every port"
    ),
    Flag("-a --alias NAME", "alias"): "model id to show [default: file name]",
    Flag("-n --predict --n-predict N", "max_tokens", whole(-1, to=_limit)): (
        "most tokens of an answer whose request names no limit"
        " [default: -1, the context's end]"
    ),
    Flag("--api-key KEY", "api_keys", action="append"): (
        "ask every route but health for this key; may be given several times"
    ),
    Flag("--api-key-file FILE", "api_key_file", Path): "keys, one a line",
    Flag("--cors-origin ORIGIN", "cors_origins", action="append"): (
        'let web pages of this origin use the server ("*" for all); may be given'
        " several times"
    ),
    Flag("--allowed-host NAME", "allowed_hosts", action="append"): (
        "answer to this name too, such as a proxy's, in Host headers; may be given"
        " several times"
    ),
    Flag("--queue N", "line_limit", whole(0)): (
        f"most requests that wait for a slot [default: {DEFAULTS.line_limit}]"
    ),
    Flag("--max-connections N", "max_connections", whole(1)): (
        "most connections that are answered at once or stay open after an answer;"
        " idle ones give way to new ones [default: 256, or what fits `ulimit -n`]"
    ),
    Flag("-cram --cache-ram MIB", "cache_ram_bytes", whole(0, to=_bytes)): (
        "most memory for kept prompt states; 0 keeps none there"
        " [default: a quarter of what is free]"
    ),
    Flag("--cache-disk MIB", "cache_disk_bytes", whole(0, to=_bytes)): (
        "most disk for kept prompt states, which hold conversations; 0 writes"
        " none [default: a tenth of what is free, at most 8192]"
    ),
    Flag("--cache-dir FOLDER", "cache_dir", Path): (
        "folder for kept prompt states [default: states in the cache folder]"
    ),
    Flag("--timeout S", "request_timeout_s", whole(1, to=float)): (
        "seconds a client has to send its request"
        f" [default: {DEFAULTS.request_timeout_s:.0f}]"
    ),
    Flag("--max-body MIB", "max_body_bytes", whole(1, to=_bytes)): (
        f"largest body of a request [default: {DEFAULTS.max_body_bytes // MIB}]"
    ),
    Flag("--show-prompts", "show_prompts", action="store_true"): (
        "show prompts in /slots"
    ),
    Flag("--sign-key FILE", "sign_key", Path): (
        "sign receipts with this key, which `kinetic keygen FILE` makes"
    ),
}
_DRAFTS: Final = {
    Flag("-md --model-draft --spec-draft-model FILE", "draft_model", Path): (
        "a smaller model with the same vocabulary that guesses too, where that pays"
    ),
    Flag("--draft-max --draft --draft-n --spec-draft-n-max N", "draft_max", whole(0)): (
        "most tokens that are guessed and checked in one pass, where that pays;"
        f" 15 is the most a pass takes [default: {DEFAULTS.draft_max}]"
    ),
    Flag(
        "--draft-min --draft-n-min --spec-draft-n-min N",
        "draft_min",
        whole(0, to=lambda least: max(least, 1)),
    ): "make no draft of fewer tokens [default: 0, what pays]",
    Flag("--no-draft", "draft_max", action="store_const", const=0): (
        "guess nothing; the same as --draft-max 0"
    ),
}
_ACCEPTED: Final = {
    Flag("--metrics", "metrics", action="store_true"): "accepted; always on",
    Flag("--slots", "slots", action="store_true"): "accepted; always on",
}

COMMAND: Final = Command(
    name="serve",
    help="load a model and answer requests",
    run=_run,
    groups=(
        ("model", MODEL_FLAGS),
        ("server", _SERVER),
        ("drafting (it never changes an answer)", _DRAFTS),
        ("server", _ACCEPTED),
    ),
)
