"""Which file of a repository is meant: pure decisions over names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kinetic.errors import HubError
from kinetic.files.store import (
    has_quant,
    is_projector,
    model_stem,
    quant_of,
    shard_names,
    split_tag,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFERRED = ("Q4_K_M", "Q8_0")
"""Taken, in this order, where no quantisation is named, as llama.cpp does."""

_REPO = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file as the hub lists it."""

    path: str
    """Relative, with slashes, inside the repository."""
    size_bytes: int
    sha256: str | None
    """Of a file in large-file storage, which is where models are."""
    blob_id: str | None = None
    """Git's own SHA-1 of a file that is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a user asked for."""

    repo: str
    """"OWNER/NAME"."""
    tag: str | None = None
    """A quantisation or a file's name."""


def parse_reference(text: str, endpoint: str) -> Wanted:
    """Read "OWNER/NAME[:QUANT]", or the address of the repository's page.

    Raises HubError for anything else.
    """
    bare = text.strip().removeprefix(endpoint.rstrip("/") + "/").rstrip("/")
    repo, tag = split_tag(bare)
    if _REPO.fullmatch(repo) is None or ".." in repo or tag == "":
        raise HubError(
            f"{text} names no repository: it must be OWNER/NAME or OWNER/NAME:QUANT"
        )
    return Wanted(repo=repo, tag=None if tag in {None, "latest"} else tag)


def is_safe(path: str) -> bool:
    """Whether a path from the hub stays inside the folder it is put into."""
    parts = PurePosixPath(path).parts
    if path.startswith("/") or "\\" in path or "\0" in path:
        return False
    return bool(parts) and all(part not in {"..", "."} for part in parts)


def choose(files: Sequence[HubFile], wanted: Wanted) -> tuple[HubFile, ...]:
    """The files to fetch: one, or all parts of a split model in order.

    Raises HubError, whose text lists what there is, when nothing or too much fits.
    """
    models = _models(files)
    if not models:
        raise HubError(
            f"{wanted.repo} holds no GGUF file; repositories of GGUF files often end in"
            " -GGUF"
        )
    if wanted.tag is not None:
        found = [m for m in models if _fits(m[0], wanted.tag)]
        if not found:
            raise HubError(f"{wanted.repo} has no {wanted.tag}; it has {_menu(models)}")
    else:
        found = _preferred(models)
    if len(found) > 1:
        raise HubError(
            f"{wanted.repo} has several such files: name one of {_menu(found)}"
        )
    return found[0]


def _models(files: Sequence[HubFile]) -> list[tuple[HubFile, ...]]:
    """Each model's files; split models that are not whole are left out."""
    by_path = {f.path: f for f in files}
    found = []
    for file in sorted(files, key=lambda f: f.path):
        if not file.path.endswith(".gguf") or not is_safe(file.path):
            continue
        names = shard_names(file.path)
        if names[0] == file.path and all(name in by_path for name in names):
            found.append(tuple(by_path[name] for name in names))
    return found


def _fits(first: HubFile, tag: str) -> bool:
    name = PurePosixPath(first.path).name
    whole = {first.path.casefold(), name.casefold(), model_stem(name).casefold()}
    if tag.casefold() in whole:
        return True
    return has_quant(first.path, tag) and not is_projector(name)


def _preferred(models: list[tuple[HubFile, ...]]) -> list[tuple[HubFile, ...]]:
    usual = [m for m in models if not is_projector(m[0].path)] or models
    if len(usual) == 1:
        return usual
    for quant in PREFERRED:
        found = [m for m in usual if has_quant(m[0].path, quant)]
        if found:
            return found
    return usual


def _menu(models: Sequence[tuple[HubFile, ...]]) -> str:
    """Quantisations, or names where they do not tell the files apart, with sizes."""
    tags = [quant_of(m[0].path) for m in models]
    if None in tags or len(set(tags)) < len(tags):
        tags = [m[0].path for m in models]
    sizes = [sum(f.size_bytes for f in m) for m in models]
    return ", ".join(
        f"{tag} ({size / 1e9:.2f} GB)" for tag, size in zip(tags, sizes, strict=True)
    )
