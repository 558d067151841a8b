"""The model files that `kinetic pull` keeps, found by the names people give them.

Files lie at `<cache>/models/OWNER/NAME/<path in the repository>`; a file put straight
into the models folder is found too. Nothing here touches the network.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinetic.errors import ModelError
from kinetic.files import paths

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SHARD = re.compile(r"-(\d{5})-of-(\d{5})(?=\.gguf$)")
_QUANT = re.compile(
    r"(?<![A-Za-z0-9])((?:UD-)?I?Q\d+_[A-Za-z0-9_]+|MXFP4(?:_MOE)?|BF16|F16|F32|FP16)"
    r"(?![A-Za-z0-9_])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """A model in the store: one file, or the parts of one that was split."""

    repo: str
    """"OWNER/NAME", or "" for a file without a repository."""
    files: tuple[Path, ...]
    """The first one is what is loaded."""

    @property
    def path(self) -> Path:
        """What `kinetic serve` loads."""
        return self.files[0]

    @property
    def stem(self) -> str:
        """The file's name without its extension and its part number."""
        return model_stem(self.path.name)

    @property
    def name(self) -> str:
        """A name that `find` takes and that says where the file is from."""
        if not self.repo:
            return self.stem
        return f"{self.repo}:{quant_of(self.path.name) or self.stem}"

    @property
    def size_bytes(self) -> int:
        """Bytes on disk."""
        return sum(file.stat().st_size for file in self.files)

    def answers_to(self, name: str) -> bool:
        """Whether a name, whose case does not matter, means this model.

        A name is the repository, its last part or the file, with or without
        ":QUANT"; ":latest" says nothing.
        """
        if name.casefold() in {self.name.casefold(), self.stem.casefold()}:
            return True
        base, tag = split_tag(name)
        known = {self.repo, self.repo.rpartition("/")[2], self.stem, self.path.name}
        if base.casefold() not in {text.casefold() for text in known if text}:
            return False
        if tag is None or tag.casefold() == "latest":
            return True
        return has_quant(self.path.name, tag) or tag.casefold() in {
            self.stem.casefold(),
            self.path.name.casefold(),
        }


def split_tag(name: str) -> tuple[str, str | None]:
    """Split "base:tag"; the tag is None where there is none."""
    base, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        return name, None
    return base, tag


def has_quant(file_name: str, quant: str) -> bool:
    """Whether a file's name says that it is stored in `quant`, whatever its case.

    "Q4_K" is not "Q4_K_M", and "Q4_0" is not "IQ4_0".
    """
    pattern = rf"(?<![A-Za-z0-9]){re.escape(quant)}(?![A-Za-z0-9_])"
    return re.search(pattern, file_name, re.IGNORECASE) is not None


def quant_of(file_name: str) -> str | None:
    """The quantisation that a file's name tells, as it is written there."""
    found = _QUANT.findall(file_name)
    return found[-1] if found else None


def model_stem(file_name: str) -> str:
    """A file's name without ".gguf" and without the number of a split file's part."""
    return _SHARD.sub("", file_name).removesuffix(".gguf")


def shards(path: Path) -> tuple[Path, ...]:
    """Every part of a split model of which `path` is the first; else `path` alone.

    Raises ModelError when `path` is another part than the first, or a part is missing.
    """
    match = _SHARD.search(path.name)
    if match is None:
        return (path,)
    if int(match[1]) != 1:
        raise ModelError(f"{path.name} is part {int(match[1])}: name the first part")
    parts = tuple(path.with_name(name) for name in shard_names(path.name))
    for part in parts:
        if not part.is_file():
            raise ModelError(f"{path.name} is one of {len(parts)}: no {part.name}")
    return parts


def shard_names(file_name: str) -> tuple[str, ...]:
    """The names of all parts of a split file, of which one is given; else that name."""
    match = _SHARD.search(file_name)
    if match is None:
        return (file_name,)
    n_parts = int(match[2])
    numbered = (f"-{n:05d}-of-{n_parts:05d}" for n in range(1, n_parts + 1))
    return tuple(_SHARD.sub(number, file_name) for number in numbered)


def is_projector(file_name: str) -> bool:
    """Whether a file goes with a model and is none itself."""
    return "mmproj" in file_name.lower()


def stored_models(root: Path | None = None) -> list[StoredModel]:
    """Every whole model in the store, by name."""
    root = paths.cache_dir("models") if root is None else root
    found = []
    for path in sorted(root.rglob("*.gguf")) if root.is_dir() else []:
        try:
            files = shards(path)
        except ModelError:
            continue
        folders = path.relative_to(root).parts[:-1]
        repo = "/".join(folders[:2]) if len(folders) > 1 else ""
        found.append(StoredModel(repo=repo, files=files))
    return sorted(found, key=lambda model: model.name.casefold())


def holding(path: Path) -> StoredModel:
    """The model whose first file is `path`; raises ModelError if it is not stored."""
    for model in stored_models():
        if model.path == path:
            return model
    raise ModelError(f"{path} is not in {paths.cache_dir('models')}")


def find(name: str, root: Path | None = None) -> StoredModel:
    """The one model that a name means.

    Raises ModelError, whose text lists what there is to choose from, when there is
    none or more than one.
    """
    models = stored_models(root)
    found = [m for m in models if m.answers_to(name)]
    exact = [m for m in found if name.casefold() == m.name.casefold()]
    found = exact or [m for m in found if not is_projector(m.path.name)] or found
    if len(found) == 1:
        return found[0]
    if found:
        raise ModelError(f"{name} may mean {_listed(found)}: name one of them")
    owner = "/" in split_tag(name)[0]
    hint = f"`kinetic pull {name}` fetches it" if owner else "`kinetic list` shows all"
    raise ModelError(f"{name} is no file and no pulled model; {hint}")


def _listed(models: Sequence[StoredModel]) -> str:
    names = [m.name for m in models]
    if len(set(names)) < len(names):
        names = [str(m.path) for m in models]
    return ", ".join(names)


def locate(given: Path) -> Path:
    """The file that the command line's MODEL means: a path as it is, or a name.

    Raises ModelError when it is neither.
    """
    text = str(given)
    try:
        is_there = given.exists()
    except OSError as error:  # below a folder that is not ours, or a name too long
        raise ModelError(f"cannot read {given}: {error.strerror}") from error
    if is_there or given.is_absolute() or text.startswith("."):
        return given
    try:
        return find(text).path
    except ModelError:
        if text.endswith(".gguf") and "/" in text:
            return given
        raise
