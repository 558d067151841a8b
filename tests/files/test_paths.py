from __future__ import annotations

from pathlib import Path

import pytest

from kinetic.files import paths


def test_the_cache_follows_the_xdg_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert paths.cache_dir("models") == tmp_path / "kinetic" / "models"


@pytest.mark.parametrize("value", [None, "", "relative/folder"])
def test_without_an_absolute_variable_the_cache_is_in_the_home(
    monkeypatch, tmp_path, value
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if value is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert paths.cache_dir("logs") == tmp_path / ".cache" / "kinetic" / "logs"


def test_naming_a_folder_does_not_make_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    paths.cache_dir("models")
    assert list(tmp_path.iterdir()) == []


def test_the_default_model_is_the_one_that_install_fetches(smollm2_path: Path):
    assert paths.default_model_path() == smollm2_path
    with smollm2_path.open("rb") as file:
        assert file.read(4) == b"GGUF"
