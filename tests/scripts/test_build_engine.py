from __future__ import annotations

import threading
from pathlib import Path

import pytest

from scripts import build_engine

X86 = """\
processor\t: 0
model name\t: Some Processor 9000
cpu MHz\t\t: 1234.5
flags\t\t: fpu avx2 avx512f

processor\t: 1
model name\t: Some Processor 9000
cpu MHz\t\t: 4321.0
flags\t\t: fpu avx512f avx2
"""
ARM = """\
processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd i8mm
CPU implementer\t: 0x41
CPU part\t: 0xd4f
"""


def key(environment: dict[str, str], cpuinfo: str) -> str:
    flags = build_engine.cmake_flags(environment)
    return build_engine.build_key(flags, environment, cpuinfo)[0]


def test_the_exact_flags_stand_last_and_so_win():
    flags = build_engine.cmake_flags({"CMAKE_ARGS": "-DGGML_CUDA=ON  -DGGML_OPENMP=ON"})
    assert flags == (
        "-DGGML_CUDA=ON -DGGML_OPENMP=ON -DGGML_LLAMAFILE=OFF -DGGML_OPENMP=OFF"
    )


def test_a_processor_is_its_models_and_instructions_not_its_speed():
    assert build_engine.describe_processor(X86) == {
        "model name": ["Some Processor 9000"],
        "flags": ["avx2", "avx512f", "fpu"],
    }
    assert build_engine.describe_processor(ARM) == {
        "Features": ["asimd", "fp", "i8mm"],
        "CPU implementer": ["0x41"],
        "CPU part": ["0xd4f"],
    }


def test_a_system_without_cpuinfo_is_described_all_the_same():
    assert set(build_engine.describe_processor("")) == {"platform"}


def test_the_key_stays_while_nothing_that_matters_changes():
    slower = X86.replace("1234.5", "800.0")
    assert key({"LANG": "C"}, X86) == key({"LANG": "de"}, slower)


@pytest.mark.parametrize(
    ("environment", "cpuinfo"),
    [
        ({"CMAKE_ARGS": "-DGGML_CUDA=ON"}, X86),
        ({"CC": "clang"}, X86),
        ({}, X86.replace("avx512f", "avx512f amx")),
        ({}, X86.replace("9000", "9001")),
        ({}, ARM),
        ({}, ""),
    ],
)
def test_the_key_changes_with_whatever_changes_the_machine_code(environment, cpuinfo):
    assert key(environment, cpuinfo) != key({}, X86)


def test_the_key_is_a_plain_folder_name_with_the_version_in_it():
    name = key({}, X86)
    assert name.startswith("llama_cpp_python-0.3.36-")
    assert Path(name).name == name


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (
            "  [12/345] /usr/bin/c++ -O3 -o src/x.dir/a.cpp.o -c /tmp/v/src/unicode.cpp",
            "[12/345] src/unicode.cpp",
        ),
        (
            "[  7%] Building C object ggml/src/CMakeFiles/ggml-base.dir/ggml-quants.c.o",
            "[7%] ggml-base.dir/ggml-quants.c",
        ),
        ("[100%] Built target llama", "[100%]"),
        ("-- Configuring done", None),
        ("", None),
    ],
)
def test_the_compilers_progress_is_read_from_ninja_and_make(line, step):
    assert build_engine.read_build_step(line) == step


def test_the_compiler_gets_no_flags_of_the_make_above_and_uses_all_cores(tmp_path):
    outer = {"MAKEFLAGS": "-j1 --jobserver", "MAKELEVEL": "1", "PATH": "/bin"}
    inner = build_engine.build_environment(outer, tmp_path)
    assert inner["PATH"] == "/bin"
    assert inner["TMPDIR"] == str(tmp_path)
    assert int(inner["CMAKE_BUILD_PARALLEL_LEVEL"]) >= 1
    assert not {"MAKEFLAGS", "MAKELEVEL"} & set(inner)


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """Stands in for pip's compile: writes a wheel, or fails halfway."""

    class Compiler:
        n_runs = 0
        fails = False
        started = threading.Event()
        released = threading.Event()

        def run(self, command, *, env, **_):
            self.n_runs += 1
            assert "-DGGML_LLAMAFILE=OFF" in env["CMAKE_ARGS"]
            folder = Path(command[command.index("--wheel-dir") + 1])
            (folder / "engine.whl").write_bytes(b"half")
            self.started.set()
            assert self.released.wait(10)
            if self.fails:
                raise SystemExit(1)
            (folder / "engine.whl").write_bytes(b"whole")

    made = Compiler()
    made.released.set()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build_engine, "run_logged", made.run)
    monkeypatch.setattr(build_engine, "fetch_source", lambda: None)
    return made


def test_a_wheel_is_built_once(compiler):
    first = build_engine.find_or_build()
    assert first.read_bytes() == b"whole"
    assert build_engine.find_or_build() == first
    assert compiler.n_runs == 1


def test_a_build_that_fails_leaves_nothing_that_looks_finished(compiler, tmp_path):
    compiler.fails = True
    with pytest.raises(SystemExit):
        build_engine.find_or_build()
    assert list(tmp_path.rglob("*.whl")) == []
    compiler.fails = False
    assert build_engine.find_or_build().read_bytes() == b"whole"


def test_two_builds_at_once_compile_once(compiler):
    compiler.released.clear()
    wheels = []
    threads = [
        threading.Thread(target=lambda: wheels.append(build_engine.find_or_build()))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    assert compiler.started.wait(10)
    compiler.released.set()
    for thread in threads:
        thread.join(10)
    assert len(wheels) == 2
    assert wheels[0] == wheels[1]
    assert compiler.n_runs == 1
