"""A path or address that cannot be used is named, and no other is blamed."""

import os
import socket
import subprocess
import sys

import pytest

from tests.support import tiny_models
from tests.support.server import ServerProcess

LIMIT_S = 50


def run(*arguments):
    """Run a command to its end; its code and the lines of standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "kinetic", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, done.stderr.strip().splitlines()


@pytest.fixture(params=["below a file", "a name too long", "a folder"])
def bad(request, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    return {
        "below a file": file / "x.gguf",
        "a name too long": tmp_path / ("n" * 300),
        "a folder": tmp_path,
    }[request.param]


SERVE = ("serve", "--port", "0", "-c", "64", "-np", "1", "-t", "1")


@pytest.mark.parametrize(
    "flag",
    ["-m", "--mmproj", "-md", "--chat-template-file", "--api-key-file", "--sign-key"],
)
def test_a_file_that_cannot_be_read_is_named(flag, bad):
    model = () if flag == "-m" else (tiny_models.qwen3(),)
    code, lines = run(*SERVE, *model, flag, bad)
    assert code == 1
    assert lines[-1].startswith("kinetic: ")
    assert str(bad) in lines[-1]
    assert "listen" not in lines[-1]
    assert not any("Traceback" in line for line in lines)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("doctor",), 1),
        (("verify-receipt", os.devnull, "--public-key"), 2),
        (("keygen",), 1),
    ],
)
def test_every_command_names_it(command, code, bad):
    found, lines = run(*command, bad)
    assert found == code
    assert lines[-1].startswith("kinetic: ")
    assert str(bad) in lines[-1]
    assert not any("Traceback" in line for line in lines)


def test_a_model_that_cannot_be_looked_for_says_nothing_of_a_receipt(tmp_path):
    code, lines = run("verify-receipt", os.devnull, "-m", tmp_path / ("n" * 300))
    assert code == 2
    assert "File name too long" in lines[-1]


def test_a_folder_for_states_that_cannot_be_used_is_named_and_the_server_serves(
    tmp_path,
):
    file = tmp_path / "file"
    file.write_text("x")
    for folder in (file, file / "x", tmp_path / ("n" * 300)):
        flags = ("-c", "64", "-np", "1", "-t", "1", "--cache-dir", str(folder))
        with ServerProcess(tiny_models.qwen3(), *flags) as process:
            process.wait_until_serving()
            assert process.stop() == 0
        (line,) = [line for line in process.log if "WARNING" in line]
        assert str(folder) in line


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.name.invalid", "n" * 70])
def test_an_address_that_cannot_be_used_is_named_before_anything_is_loaded(host):
    code, lines = run(*SERVE, tiny_models.qwen3(), "--host", host, "--api-key", "k")
    assert code == 1
    assert lines[-1].startswith(f"kinetic: cannot listen on {host}:0: ")
    assert not any("loads" in line for line in lines)


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, lines = run("serve", tiny_models.qwen3(), "--port", port)
    assert code == 1
    assert lines == [
        f"kinetic: cannot listen on 127.0.0.1:{port}: Address already in use"
    ]
