import hashlib
import os

import pytest

from kinetic.files import digest, paths


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" * 3_000_000)
    return path


def sha256(*paths):
    return hashlib.sha256(b"".join(p.read_bytes() for p in paths)).hexdigest()


def test_files_are_hashed_as_if_they_were_one_with_progress(model, tmp_path):
    other = tmp_path / "second"
    other.write_bytes(b"tail")
    seen: list[int] = []
    assert digest.hash_files((model, other), seen.append) == sha256(model, other)
    assert seen[-1] == 12_000_004
    assert seen == sorted(seen)


def test_a_digest_is_found_in_the_background_and_remembered(model):
    found = digest.BackgroundDigest((model,)).ask().result(30)
    assert found == sha256(model)
    assert digest.remembered((model,)) == found


def test_a_remembered_digest_is_not_computed_again(model, monkeypatch):
    digest.remember((model,), "f" * 64)
    monkeypatch.setattr(digest, "hash_files", None)
    assert digest.BackgroundDigest((model,)).ask().result(30) == "f" * 64


def test_a_changed_file_is_not_remembered(model):
    digest.remember((model,), "f" * 64)
    stat = model.stat()
    os.utime(model, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert digest.remembered((model,)) is None
    digest.remember((model,), "f" * 64)
    with model.open("ab") as file:
        file.write(b"x")
    os.utime(model, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert digest.remembered((model,)) is None


@pytest.mark.parametrize("note", ["", "{", "[]", "{}", '{"files": [], "sha256": "f"}'])
def test_a_broken_note_is_as_good_as_none(model, note):
    digest.remember((model,), "f" * 64)
    (path,) = paths.cache_dir("digests").iterdir()
    path.write_text(note)
    assert digest.remembered((model,)) is None


def test_a_cache_that_cannot_be_written_is_no_error(model, caplog):
    paths.cache_dir("digests").parent.mkdir(parents=True)
    paths.cache_dir("digests").write_text("a file in the folder's place")
    digest.remember((model,), "f" * 64)
    assert "cannot be kept" in caplog.text


def test_the_thread_starts_once_and_only_when_asked(model, monkeypatch):
    calls = []
    real = digest.hash_files

    def counted(files, progress):
        calls.append(1)
        return real(files, progress)

    monkeypatch.setattr(digest, "hash_files", counted)
    background = digest.BackgroundDigest((model,))
    assert calls == []
    assert background.ask() is background.ask()
    background.ask().result(30)
    assert calls == [1]


def test_a_file_that_went_away_ends_the_wait_with_its_error(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(FileNotFoundError):
        digest.BackgroundDigest((tmp_path / "no.gguf",)).ask().result(30)


def changed(path):
    stat = path.stat()
    path.write_bytes(b"FUGG" * 3_000_000)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))


def test_a_file_replaced_since_it_was_loaded_has_no_digest(model):
    background = digest.BackgroundDigest((model,))
    changed(model)
    with pytest.raises(digest.Changed, match="since it was loaded"):
        background.ask().result(30)


def test_a_file_changed_while_it_is_read_is_not_remembered(model, monkeypatch):
    real = digest.hash_files

    def slow(files, progress):
        found = real(files, progress)
        changed(model)
        return found

    monkeypatch.setattr(digest, "hash_files", slow)
    with pytest.raises(digest.Changed, match="while it was read"):
        digest.find((model,))
    assert digest.remembered((model,)) is None


def test_finding_tells_progress_once_and_remembers(model):
    seen: list[int] = []
    assert digest.find((model,), seen.append) == sha256(model)
    assert seen
    n_seen = len(seen)
    assert digest.find((model,), seen.append) == sha256(model)
    assert len(seen) == n_seen
