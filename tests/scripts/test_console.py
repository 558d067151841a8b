from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from scripts import console


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_commands_output_goes_to_its_log_and_its_time_to_the_terminal(
    tmp_path, capsys
):
    log = tmp_path / "log"
    console.run_logged(python("print('made it')"), label="making it", log=log)
    assert log.read_text() == "made it\n"
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "[kinetic] making it ..."
    assert shown[-1].startswith("[kinetic] making it took 0:0")


def test_a_failed_command_ends_the_script_with_its_last_lines(tmp_path, capsys):
    log = tmp_path / "log"
    code = "print('\\n'.join(map(str, range(100)))); raise SystemExit(3)"
    with pytest.raises(SystemExit) as ended:
        console.run_logged(python(code), label="trying", log=log)
    assert ended.value.code == 1
    shown = capsys.readouterr().out
    assert "\n99\n" in shown
    assert "\n59\n" not in shown
    assert f"the whole output is in {log}" in shown
    assert log.read_text().startswith("0\n1\n")


class Listener:
    """Hears what the script says, and writes a file once a wanted line is heard."""

    def __init__(self, seen: Path) -> None:
        self.said: list[str] = []
        self.seen = seen
        self._wanted = ""

    def hear(self, text: str) -> None:
        self.said.append(text)
        if self._wanted and text.endswith(self._wanted):
            self.seen.touch()

    def code_that_waits_for(self, wanted: str) -> str:
        self._wanted = wanted
        return (
            "import os, time\n"
            "end = time.monotonic() + 20\n"
            f"while not os.path.exists({str(self.seen)!r}) and time.monotonic() < end:\n"
            "    time.sleep(0.01)\n"
        )


@pytest.fixture
def listener(monkeypatch, tmp_path):
    made = Listener(tmp_path / "seen")
    monkeypatch.setattr(console, "LOG_INTERVAL_S", 0.02)
    monkeypatch.setattr(console, "say", made.hear)
    return made


def test_a_long_command_shows_its_time_and_step_in_a_log(tmp_path, listener):
    wait = listener.code_that_waits_for(" [1/2] first.c")
    code = "print('[1/2] first.c', flush=True)\n" + wait
    console.run_logged(python(code), label="compiling", log=tmp_path / "log")
    assert listener.seen.exists()
    assert listener.said[1].startswith("compiling 0:")


def test_a_step_stays_until_the_next_one(tmp_path, listener):
    wait = listener.code_that_waits_for(" step")
    code = "print('step'); print('noise', flush=True)\n" + wait
    console.run_logged(
        python(code),
        label="compiling",
        log=tmp_path / "log",
        read_step=lambda line: line.strip() if "step" in line else None,
    )
    assert listener.seen.exists()
    assert not any(line.endswith("noise") for line in listener.said)


def test_an_interrupted_script_ends_the_command_and_what_it_started(tmp_path):
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pid_file)!r}, 'w').write(f'{{child.pid}} ')\n"
        "print('started', flush=True)\n"
        "child.wait()\n"
    )

    def interrupt(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        console.run_logged(
            python(code), label="compiling", log=tmp_path / "log", read_step=interrupt
        )
    grandchild = int(pid_file.read_text())
    deadline = time.monotonic() + 10
    while is_running(grandchild) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(grandchild)


def is_running(pid: int) -> bool:
    """Tells of a process that is not our child whether it lives; a zombie does not."""
    listing = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)],
        check=False,
        capture_output=True,
        text=True,
        timeout=10,
    ).stdout.strip()
    return bool(listing) and not listing.startswith("Z")


def test_the_ticker_ends_its_thread():
    with console.Ticker("working"):
        assert "ticker" in {thread.name for thread in threading.enumerate()}
    assert "ticker" not in {thread.name for thread in threading.enumerate()}
