"""Files that cannot be served end with one clear line and a code that is not zero."""

import struct
import subprocess
import sys

import pytest

LIMIT_S = 60


def serve(*arguments):
    """Run `kinetic serve` to its end; its code and last line of standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "kinetic", "serve", "--port", "0", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, done.stderr.strip().splitlines()[-1]


@pytest.fixture
def altered(smollm2_path, tmp_path):
    """Writes a copy of the model's first bytes with one change."""

    def write(change, n_bytes=30_000_000):
        path = tmp_path / "model.gguf"
        with smollm2_path.open("rb") as file:
            data = bytearray(file.read(n_bytes))
        path.write_bytes(change(data))
        return path

    return write


def test_a_file_that_is_not_there(tmp_path):
    code, line = serve(tmp_path / "none.gguf")
    assert code == 1
    assert "is not a file" in line


def test_a_file_of_another_kind(tmp_path):
    path = tmp_path / "text.gguf"
    path.write_text("hello")
    code, line = serve(path)
    assert code == 1
    assert "is not a GGUF file" in line


@pytest.mark.parametrize("n_bytes", [3, 20, 500, 500_000, 30_000_000])
def test_a_file_that_is_cut_short(altered, n_bytes):
    code, line = serve(altered(bytes, n_bytes))
    assert code == 1
    assert line.startswith("kinetic: ")
    assert "model.gguf" in line


def test_an_unknown_architecture(altered):
    code, line = serve(altered(lambda d: d.replace(b"llama", b"xlama", 1)))
    assert code == 1
    assert line.startswith("kinetic: ")


def test_counts_beyond_reason(altered):
    def change(data):
        struct.pack_into("<Q", data, 8, 1 << 60)
        return bytes(data)

    code, line = serve(altered(change))
    assert code == 1
    assert line.startswith("kinetic: ")


def test_a_context_that_no_memory_holds(smollm2_path):
    code, line = serve(smollm2_path, "-c", 100_000_000, "-np", 4)
    assert code == 1
    assert "memory are free" in line


def test_a_port_in_use(smollm2_path):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [
                *(sys.executable, "-m", "kinetic", "serve", str(smollm2_path)),
                *("-c", "256", "-np", "1", "-t", "1", "--port", str(port)),
            ],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert done.returncode == 1
    assert "cannot listen on 127.0.0.1" in done.stderr.strip().splitlines()[-1]
