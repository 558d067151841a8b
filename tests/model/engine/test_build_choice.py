"""Which build of the engine a model is run with, chosen before it is imported."""

import subprocess
import sys

import pytest

from kinetic.model.engine import build_choice
from tests.support import tiny_models


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """An engine's package with libraries for vectors; nothing is set."""
    folder = tmp_path / build_choice.FOLDER
    folder.mkdir()
    (folder / build_choice.VERSION_FILE).write_text(build_choice.engine_version())
    monkeypatch.setattr(build_choice, "engine_folder", lambda: tmp_path)
    for name in (build_choice.LIB_PATH, build_choice.TILES):
        # Set first, so that what is chosen here is undone afterwards.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return tmp_path


def chosen(monkeypatch, model, pooling=None):
    build_choice.choose_library(model, pooling)
    import os

    return os.environ.get(build_choice.LIB_PATH), os.environ.get(build_choice.TILES)


@pytest.mark.parametrize(
    "model", [tiny_models.bert_encoder, tiny_models.qwen3_reranker]
)
def test_models_for_vectors_get_the_libraries_for_them(engine, monkeypatch, model):
    assert chosen(monkeypatch, model()) == (str(engine / build_choice.FOLDER), "1")


def test_a_generator_gets_them_only_when_it_is_to_pool(engine, monkeypatch):
    model = tiny_models.qwen3()
    assert chosen(monkeypatch, model) == (None, None)
    assert chosen(monkeypatch, model, "last")[0] == str(engine / build_choice.FOLDER)


def test_what_the_user_has_set_stays(engine, monkeypatch):
    monkeypatch.setenv(build_choice.LIB_PATH, "/mine")
    monkeypatch.setenv(build_choice.TILES, "0")
    assert chosen(monkeypatch, tiny_models.bert_encoder()) == ("/mine", "0")


def test_without_such_libraries_the_engines_own_are_used(engine, monkeypatch):
    (engine / build_choice.FOLDER / build_choice.VERSION_FILE).unlink()
    assert build_choice.vector_library() is None
    assert chosen(monkeypatch, tiny_models.bert_encoder())[0] is None


def test_libraries_of_another_release_are_not_used(engine, monkeypatch):
    (engine / build_choice.FOLDER / build_choice.VERSION_FILE).write_text("0.3.35")
    assert chosen(monkeypatch, tiny_models.bert_encoder())[0] is None


@pytest.mark.parametrize("content", [None, b"", b"no model"])
def test_a_file_that_cannot_be_read_changes_nothing(
    engine, monkeypatch, tmp_path, content
):
    model = tmp_path / "m.gguf"
    if content is not None:
        model.write_bytes(content)
    assert chosen(monkeypatch, model) == (None, None)


def test_choosing_does_not_import_the_engine():
    code = (
        "import sys; from pathlib import Path; from kinetic.model.engine import build_choice;"
        " build_choice.choose_library(Path('/nowhere'), None); build_choice.engine_folder();"
        " sys.exit('llama_cpp' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
