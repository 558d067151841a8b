"""Files are made once, under names that tell their contents apart."""

from pathlib import Path

import pytest

from scripts.file_cache import cached_file


def test_a_file_is_written_once_for_each_key(tmp_path: Path) -> None:
    calls: list[Path] = []

    def write(path: Path) -> None:
        calls.append(path)
        path.write_text("made")

    folder = tmp_path / "made"
    first = cached_file(folder, "thing", ".txt", [b"a", b"b"], write)
    again = cached_file(folder, "thing", ".txt", [b"a", b"b"], write)
    other = cached_file(folder, "thing", ".txt", [b"ab", b""], write)

    assert first == again
    assert first != other
    assert len(calls) == 2
    assert first.read_text() == "made"
    assert sorted(folder.iterdir()) == sorted([first, other])


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        path.write_text("half")
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        cached_file(tmp_path, "thing", ".txt", [b"a"], write)

    assert list(tmp_path.iterdir()) == []
