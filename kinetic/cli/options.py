"""From parsed flags to the one frozen options object, reading the files they name."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from kinetic.cli import values
from kinetic.cli.flags import DEFAULTS
from kinetic.config import ServeOptions
from kinetic.errors import ModelError
from kinetic.files import paths, store

OLLAMA_PORT: Final = 11434
"""Where clients of Ollama look for it."""


def serve_options(arguments: argparse.Namespace) -> ServeOptions:
    """The options of parsed flags. Raises ModelError for files that cannot be read."""
    given = vars(arguments)
    found = {f.name: given[f.name] for f in fields(ServeOptions) if f.name in given}
    found["model"] = _model_path(arguments.model_file or arguments.model_flag)
    if "ollama" in given:
        found |= _server(given)
    found["chat_template"] = _template(arguments.chat_template)
    if "draft_model" in given:
        values.check_drafts(arguments.draft_min, arguments.draft_max)
        found["draft_model"] = _draft_model(arguments.draft_model, arguments.draft_max)
    return ServeOptions(**found)


def _server(given: dict[str, Any]) -> dict[str, Any]:
    usual = OLLAMA_PORT if given["ollama"] else DEFAULTS.port
    return {
        "port": given.get("port", usual),
        "api_keys": _keys(given["api_keys"], given["api_key_file"]),
        "cors_origins": values.origins(given["cors_origins"]),
        "allowed_hosts": values.host_names(given["allowed_hosts"]),
    }


def _model_path(given: Path | None) -> Path:
    if given is not None:
        return store.locate(given)
    path = paths.default_model_path()
    if not path.exists():
        message = (
            "no model was named and the default one is not there: name a GGUF file,"
            " or run `make install`, which fetches it"
        )
        raise ModelError(message)
    return path


def _keys(given: list[str], file: Path | None) -> tuple[str, ...]:
    found = [key for text in given for key in text.split(",")]
    if file is not None:
        in_file = values.keys_in(_text(file))
        if not in_file:
            raise ModelError(f"{file} holds no key")
        found += in_file
    return values.keys(found)


def _template(path: Path | None) -> str | None:
    if path is None:
        return None
    text = _text(path)
    if not text.strip():
        raise ModelError(f"{path} holds no chat template: it is empty")
    return text


def _draft_model(given: Path | None, most: int) -> Path | None:
    if given is None:
        return None
    if most == 0:
        raise ModelError(
            f"--model-draft {given} has nothing to do where drafts are off"
        )
    return store.locate(given)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error
