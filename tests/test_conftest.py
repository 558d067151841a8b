"""What the shared fixtures decide is itself tested."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from tests.conftest import (
    child_processes,
    present,
    running_threads,
    wait_for_leftovers,
)


def test_a_running_thread_is_seen_and_a_daemon_is_not():
    release = threading.Event()
    kept = threading.Thread(target=release.wait, args=(10,), name="kept")
    daemon = threading.Thread(target=release.wait, args=(10,), daemon=True)
    kept.start()
    daemon.start()
    try:
        assert kept in running_threads()
        assert daemon not in running_threads()
    finally:
        release.set()
        kept.join()
        daemon.join()
    assert kept not in running_threads()


def test_a_child_process_is_seen_until_it_is_waited_for():
    code = "import sys; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as child:
        assert child.pid in child_processes()
    assert child.pid not in child_processes()


def test_what_was_not_there_before_is_named():
    threads, children = running_threads(), child_processes()
    release = threading.Event()
    stray = threading.Thread(target=release.wait, args=(10,), name="stray")
    stray.start()
    try:
        assert wait_for_leftovers(threads, children, set(), 0.02) == ["thread stray"]
        assert wait_for_leftovers(threads, children, {"str"}, 0.02) == []
    finally:
        release.set()
        stray.join()
    assert wait_for_leftovers(threads, children, set(), 0.02) == []


def test_a_thread_that_is_about_to_end_is_given_time():
    threads, children = running_threads(), child_processes()
    ending = threading.Timer(0.05, lambda: None)
    ending.start()
    assert wait_for_leftovers(threads, children, set(), 5) == []


def test_missing_material_fails_the_test_and_names_the_command(tmp_path, monkeypatch):
    monkeypatch.delenv("KINETIC_ALLOW_SKIPS", raising=False)
    with pytest.raises(pytest.fail.Exception, match="make install puts it there"):
        present(tmp_path / "absent")


def test_missing_material_skips_where_that_is_allowed(tmp_path, monkeypatch):
    monkeypatch.setenv("KINETIC_ALLOW_SKIPS", "1")
    with pytest.raises(pytest.skip.Exception, match="make install puts it there"):
        present(tmp_path / "absent")


def test_material_that_is_there_is_given_back(tmp_path):
    assert present(tmp_path) == tmp_path
