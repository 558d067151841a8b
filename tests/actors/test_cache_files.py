"""The Cache, unstarted: a disk that stands still, fails, and comes back."""

from __future__ import annotations

import queue
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from kinetic.actors.cache import Cache, CacheOptions
from kinetic.actors.messages import Keep, Match, StateRead, StateWritten
from kinetic.actors.policy.kept import StateRules
from kinetic.actors.policy.plan import uniform_plan
from kinetic.model.engine import snapshot
from tests.support.refs import Ref

SIZE = 1_000_000
LIMIT_S = 30.0


def text(number, n=40):
    """Token ids of a text that begins unlike every other."""
    return np.array([1000 + number, *range(n - 1)], np.int32)


class World:
    """A cache over a folder, whose own mail is delivered by hand."""

    def __init__(self, folder, *, memory=10, disk=100):
        self.scheduler, self.metrics = Ref(), Ref()
        peers = SimpleNamespace(
            on_death=lambda *_: None, scheduler=self.scheduler, metrics=self.metrics
        )
        options = CacheOptions(
            memory_bytes=memory * SIZE,
            folder=folder,
            disk_bytes=disk * SIZE,
            identity="i" * 32,
            rules=StateRules(),
        )
        self.cache = Cache(options, uniform_plan(n_sequences=2), peers)
        self.cache.acquire()

    def keep(self, tokens, fill=b"s"):
        state = fill * SIZE
        self.cache.hear(
            Keep(scope=(), tokens=tokens, n_prompt=len(tokens), state=state)
        )

    def deliver(self, kind):
        """Wait for the next word from one of its threads and let it be heard."""
        message = self.cache.actor_inbox.get(timeout=LIMIT_S).message
        assert isinstance(message, kind)
        self.cache.hear(message)
        return message

    def ask(self, tokens, generation=1):
        prompt = np.append(tokens, 7).astype(np.int32)
        self.cache.hear(Match(generation=generation, scope=(), prompt=prompt, n_have=0))

    def found(self, tokens):
        """The state that a prompt builds on, wherever it lies; None: none."""
        n = len(self.scheduler.told)
        self.ask(tokens)
        while len(self.scheduler.told) == n:
            self.deliver(StateRead)
        kept = self.scheduler.told[-1].kept
        return None if kept is None else kept.state[:1]

    @property
    def seen(self):
        return self.metrics.told[-1]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "states"


@pytest.fixture
def opened(folder):
    """Makes worlds and lets their threads end."""
    worlds = []

    def make(**named):
        worlds.append(World(folder, **named))
        return worlds[-1]

    yield make
    for world in worlds:
        world.cache.release()


@pytest.fixture
def stalled(monkeypatch):
    """Writing stands still until this is set."""
    go_on = threading.Event()
    write = snapshot.write

    def slow(*args):
        assert go_on.wait(LIMIT_S)
        write(*args)

    monkeypatch.setattr(snapshot, "write", slow)
    yield go_on
    go_on.set()


@pytest.fixture
def failing(monkeypatch):
    """Every write fails while this is set."""
    fails = threading.Event()
    fails.set()
    write = snapshot.write

    def broken(*args):
        if fails.is_set():
            raise OSError(28, "No space left on device")
        write(*args)

    monkeypatch.setattr(snapshot, "write", broken)
    return fails


def test_a_disk_that_stands_still_holds_no_more_memory_than_the_budget(opened, stalled):
    world = opened(memory=10)
    for number in range(100):
        world.keep(text(number))
        assert world.seen.memory_bytes <= 10 * SIZE
    held = {id(state) for state in world.cache._states.values()}
    held |= {id(state) for _, state in world.cache._files._waiting.values()}
    assert len(held) <= 10
    assert world.seen.n_unwritten == 90
    # Look-ups go on.
    assert world.found(text(99)) == b"s"
    stalled.set()
    for _ in range(10):
        world.deliver(StateWritten)
    assert world.seen.disk_bytes == 10 * SIZE


@pytest.mark.parametrize("memory", [0, 1, 3])
def test_states_larger_than_memory_go_to_the_disk_one_by_one(opened, stalled, memory):
    world = opened(memory=memory)
    for number in range(8):
        world.keep(text(number))
    assert world.seen.memory_bytes <= max(memory, 1) * SIZE
    stalled.set()
    for _ in range(max(memory, 1)):
        world.deliver(StateWritten)
    assert world.seen.disk_bytes == max(memory, 1) * SIZE
    assert world.seen.memory_bytes <= memory * SIZE
    assert world.found(text(0)) == b"s" or memory


def test_a_state_dropped_while_it_is_written_counts_until_it_is(opened, stalled):
    world = opened(memory=2)
    world.keep(text(1))
    world.keep(text(1, 60))
    assert world.seen.n_states == 1
    assert world.seen.memory_bytes == 2 * SIZE
    world.keep(text(2))
    assert world.seen.memory_bytes == 2 * SIZE
    stalled.set()
    world.deliver(StateWritten)
    assert world.seen.memory_bytes <= 2 * SIZE


def test_a_failed_write_costs_its_own_file_alone(opened, failing, caplog):
    caplog.set_level("INFO", logger="kinetic")
    world = opened(memory=2)
    for number in range(3):
        world.keep(text(number))
        world.deliver(StateWritten)
    assert world.seen.n_unwritten == 3
    assert world.found(text(0)) is None, "there was no room, and no file"
    failing.clear()
    world.keep(text(0))
    world.deliver(StateWritten)
    world.keep(text(3))
    world.deliver(StateWritten)
    assert world.seen.disk_bytes == 2 * SIZE
    assert world.found(text(0)) == b"s"
    told = [record.message for record in caplog.records if "written" in record.message]
    assert len(told) == 2, "once when it begins to fail, once when it is over"
    assert "No space left on device" in told[0]
    assert "again" in told[1]


def test_files_written_before_an_error_are_read_after_it(opened, failing):
    failing.clear()
    world = opened(memory=1)
    world.keep(text(1))
    world.deliver(StateWritten)
    failing.set()
    world.keep(text(2))
    world.deliver(StateWritten)
    assert world.found(text(1)) == b"s"


def test_a_file_that_cannot_be_read_is_kept_again(opened, folder):
    world = opened(memory=0)
    world.keep(text(1))
    world.deliver(StateWritten)
    (file,) = folder.iterdir()
    file.chmod(0o200)
    file.unlink()
    assert world.found(text(1)) is None
    assert world.seen.n_states == 0
    world.keep(text(1), b"t")
    world.deliver(StateWritten)
    assert world.found(text(1)) == b"t"


def test_a_folder_that_was_deleted_is_made_anew(opened, folder):
    world = opened()
    folder.rmdir()
    world.keep(text(1))
    world.deliver(StateWritten)
    assert world.seen.disk_bytes == SIZE
    assert len(list(folder.iterdir())) == 1


def test_a_folder_that_cannot_be_made_is_tried_again(opened, folder, caplog):
    folder.write_text("a file where the folder should be")
    world = opened()
    assert "memory only" in caplog.text
    world.keep(text(1))
    world.deliver(StateWritten)
    assert world.seen.disk_bytes == 0
    folder.unlink()
    world.keep(text(2))
    world.deliver(StateWritten)
    assert world.seen.disk_bytes == SIZE


def test_a_shorter_states_file_stays_until_the_longer_one_has_its_own(opened, failing):
    failing.clear()
    world = opened(memory=0)
    world.keep(text(1), b"a")
    world.deliver(StateWritten)
    failing.set()
    world.keep(text(1, 60), b"b")
    world.deliver(StateWritten)
    assert world.found(text(1)) == b"a"
    failing.clear()
    world.keep(text(1, 60), b"c")
    world.deliver(StateWritten)
    assert world.found(text(1)) == b"c"
    assert world.seen.disk_bytes == SIZE


def test_a_read_that_stands_still_holds_nobody_else_up(opened, monkeypatch):
    go_on, read = threading.Event(), snapshot.read

    def slow(*args):
        assert go_on.wait(LIMIT_S)
        return read(*args)

    world = opened(memory=1)
    world.keep(text(1))
    world.deliver(StateWritten)
    world.keep(text(2))
    world.deliver(StateWritten)
    monkeypatch.setattr(snapshot, "read", slow)
    world.ask(text(1), generation=1)
    world.ask(text(1), generation=2)
    world.ask(text(2), generation=3)
    assert [m.generation for m in world.scheduler.told] == [3]
    world.keep(text(3))
    world.deliver(StateWritten)
    go_on.set()
    world.deliver(StateRead)
    assert [m.generation for m in world.scheduler.told] == [3, 1, 2]
    assert all(m.kept is not None for m in world.scheduler.told)
    with pytest.raises(queue.Empty):
        world.cache.actor_inbox.get_nowait()


def test_lookups_that_wait_for_a_file_have_a_bound(opened, monkeypatch):
    go_on = threading.Event()
    world = opened(memory=0)
    world.keep(text(1))
    world.deliver(StateWritten)
    monkeypatch.setattr(snapshot, "read", lambda *_: go_on.wait(LIMIT_S))
    for generation in range(300):
        world.ask(text(1), generation)
    assert len(world.scheduler.told) == 300 - 256
    assert all(m.kept is None for m in world.scheduler.told)
    go_on.set()


def test_what_waits_is_written_at_the_end(folder, stalled):
    world = World(folder)
    for number in range(5):
        world.keep(text(number))
    stalled.set()
    world.cache.release()
    assert len(list(folder.iterdir())) == 5
