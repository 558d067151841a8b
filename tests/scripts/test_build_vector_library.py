from __future__ import annotations

from pathlib import Path

import pytest

from scripts import build_vector_library


def folder(path: Path, *names: str) -> Path:
    path.mkdir(parents=True)
    for name in names:
        (path / name).write_text(f"{path.name} {name}")
    return path


def test_the_library_replaces_the_engines_own_in_a_folder_of_its_own(tmp_path):
    engine = tmp_path / "engine"
    folder(engine / "lib", "libllama.so", "libggml-cpu.so", "libggml-cpu.so.0.1")
    built = folder(tmp_path / "built", "libggml-cpu.so.0.2", "key.json")
    (built / "libggml-cpu.so").symlink_to("libggml-cpu.so.0.2")
    for _ in range(2):
        made = build_vector_library.install(built, engine)
    assert sorted(file.name for file in made.iterdir()) == [
        "libggml-cpu.so",
        "libggml-cpu.so.0.2",
        "libllama.so",
        "version",
    ]
    assert (made / "libggml-cpu.so").read_text() == "built libggml-cpu.so.0.2"
    assert (engine / "lib" / "libggml-cpu.so").read_text() == "lib libggml-cpu.so"
    assert sorted(file.name for file in engine.iterdir()) == ["lib", "lib_vectors"]


def test_a_build_without_the_library_is_no_library(tmp_path):
    with pytest.raises(SystemExit, match="holds no libggml-cpu"):
        build_vector_library.copy_library(folder(tmp_path / "a", "x"), tmp_path)


def test_our_flags_stand_last_and_so_win():
    flags = build_vector_library.cmake_flags({"CMAKE_ARGS": "-DGGML_OPENMP=ON -DX=1"})
    assert flags[:2] == ("-DGGML_OPENMP=ON", "-DX=1")
    assert flags[-1] == "-DGGML_OPENMP=OFF"
    assert "-DGGML_LLAMAFILE=ON" in flags
