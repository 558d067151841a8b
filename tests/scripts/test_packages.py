from __future__ import annotations

import hashlib
import threading
import zipfile

import pytest

from scripts import packages
from scripts.packages import Package


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A package that pip can get from this disk alone, and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    wheel = tmp_path / "sample_parcel-1.2-py3-none-any.whl"
    folder = "sample_parcel-1.2.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sample_parcel/one.bin", b"first,")
        archive.writestr("sample_parcel/deep/two.bin", b"second")
        archive.writestr(
            f"{folder}/METADATA",
            "Metadata-Version: 2.1\nName: sample-parcel\nVersion: 1.2\n",
        )
        archive.writestr(
            f"{folder}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{folder}/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return Package(name="sample-parcel", version="1.2", sha256=digest)


def test_a_package_with_the_right_hash_is_downloaded(shelf, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    file = packages.download(shelf, work)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == shelf.sha256


def test_a_package_with_another_hash_ends_the_script(shelf, tmp_path, capsys):
    work = tmp_path / "work"
    work.mkdir()
    wrong = Package(name=shelf.name, version=shelf.version, sha256="0" * 64)
    with pytest.raises(SystemExit):
        packages.download(wrong, work)
    assert "HASH" in capsys.readouterr().out.upper()
    assert list(work.rglob("*.whl")) == []


def test_a_package_that_is_not_there_ends_the_script(shelf, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    other = Package(name=shelf.name, version="9.9", sha256=shelf.sha256)
    with pytest.raises(SystemExit):
        packages.download(other, work)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Progress 5000000 of 93000000\n", "5 of 93 MB"),
        ("Progress 5000000 of 0\n", "5 MB"),
        ("Collecting something\n", None),
    ],
)
def test_pips_progress_is_read(line, step):
    assert packages.read_progress(line) == step


def test_a_work_folder_is_gone_afterwards_also_after_a_failure(tmp_path):
    with packages.work_folder(tmp_path) as work:
        (work / "file").write_bytes(b"x")
    with pytest.raises(ValueError, match="midway"), packages.work_folder(tmp_path):
        raise ValueError("midway")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_removed_and_said(tmp_path, capsys):
    stale = tmp_path / f"{packages.WORK_PREFIX}old"
    stale.mkdir()
    (stale / "half").write_bytes(b"x")
    with packages.work_folder(tmp_path):
        assert not stale.exists()
    assert str(stale) in capsys.readouterr().out


def test_a_lock_lets_one_in_at_a_time_and_says_who_waits(tmp_path, capsys):
    order = []
    lock = tmp_path / "deep" / ".lock"
    waits = threading.Event()

    def second() -> None:
        waits.set()
        with packages.locked(lock):
            order.append("second")

    thread = threading.Thread(target=second)
    with packages.locked(lock):
        thread.start()
        assert waits.wait(10)
        thread.join(0.1)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    assert f"another process holds {lock}" in capsys.readouterr().out
