"""The whole command line."""

import json
import subprocess
import sys
from dataclasses import fields

import pytest

from kinetic.cli.options import serve_options
from kinetic.cli.program import COMMANDS, parser
from kinetic.config import ServeOptions

HEAVY = {"numpy", "tornado", "pykka", "llama_cpp", "jinja2", "PIL", "nacl", "tqdm"}
LOOK = """
import contextlib, io, json, sys
from kinetic.cli.program import main
with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
    main(sys.argv[1:])
print(json.dumps([said.getvalue(), sorted(sys.modules)]))
"""


@pytest.mark.parametrize("command", [None, *(command.name for command in COMMANDS)])
def test_help_answers_without_what_the_commands_run(command):
    flags = ["--help"] if command is None else [command, "--help"]
    found = subprocess.run(
        [sys.executable, "-c", LOOK, *flags],
        capture_output=True,
        check=True,
        timeout=60,
    )
    said, modules = json.loads(found.stdout)
    assert said.startswith("usage: kinetic")
    assert HEAVY & set(modules) == set()


def test_flags_left_out_leave_every_option_at_its_default(tmp_path):
    model = tmp_path / "m.gguf"
    model.touch()
    for command in ("serve", "doctor"):
        found = serve_options(parser().parse_args([command, str(model)]))
        assert found == ServeOptions(model=model)


def test_every_option_has_a_flag():
    rows = [row for _, group in COMMANDS[0].groups for row in group]
    options = {field.name for field in fields(ServeOptions)} - {"model"}
    assert options - {row.to for row in rows} == set()
