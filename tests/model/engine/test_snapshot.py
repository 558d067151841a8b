"""State files: whole, checked, private, and removed when they are not right."""

import stat

import numpy as np
import pytest

from kinetic.model.engine.snapshot import BadState, StateFolder, StateHead, read, write

IDENTITY = "model-build-plan"
STATE = bytes(range(256)) * 5
HEAD = StateHead(
    identity=IDENTITY,
    scope=("image:1",),
    tokens=np.arange(40, dtype=np.int32),
    n_prompt=33,
    n_bytes=len(STATE),
)


@pytest.fixture
def path(tmp_path):
    written = tmp_path / "a.state"
    write(written, HEAD, STATE)
    return written


def test_a_state_comes_back_as_it_was(path):
    head, state = read(path, IDENTITY)
    assert state == STATE
    assert head.tokens.tolist() == HEAD.tokens.tolist()
    assert (head.scope, head.n_prompt, head.n_bytes) == (HEAD.scope, 33, len(STATE))


def test_only_the_owner_may_read_it(path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_is_left_beside_it(path):
    assert [p.name for p in path.parent.iterdir()] == ["a.state"]


def test_every_changed_byte_is_noticed(path):
    whole = path.read_bytes()
    for i in range(len(whole)):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
        with pytest.raises(BadState):
            read(path, IDENTITY)


def test_every_shorter_or_longer_file_is_noticed(path):
    whole = path.read_bytes()
    for n in [*range(0, len(whole), 7), len(whole) - 1]:
        path.write_bytes(whole[:n])
        with pytest.raises(BadState):
            read(path, IDENTITY)
    path.write_bytes(whole + b"x")
    with pytest.raises(BadState):
        read(path, IDENTITY)


def test_a_foreign_state_is_never_loaded(path):
    with pytest.raises(BadState, match="another model"):
        read(path, "something else")


def test_a_folder_lists_what_is_usable_and_removes_what_is_not(tmp_path, caplog):
    folder = StateFolder(tmp_path, IDENTITY)
    folder.open()
    good = folder.write(HEAD, STATE)
    (tmp_path / "bad.state").write_bytes(b"nonsense")
    (tmp_path / "half.state.1234.part").write_bytes(b"half")
    other = StateFolder(tmp_path, "another")
    foreign = other.write(
        StateHead(
            identity="another",
            scope=(),
            tokens=HEAD.tokens,
            n_prompt=1,
            n_bytes=len(STATE),
        ),
        STATE,
    )
    assert [name for name, _ in folder.scan()] == [good]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([good, foreign])
    assert len([r for r in caplog.records if "bad.state" in r.message]) == 1


def test_an_altered_state_is_removed_when_it_is_read(tmp_path):
    folder = StateFolder(tmp_path, IDENTITY)
    name = folder.write(HEAD, STATE)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-40] + b"\0" * 40)
    assert folder.read(name) is None
    assert not path.exists()
