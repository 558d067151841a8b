"""Actors that share a thread: order, one thread, failures, the end."""

from __future__ import annotations

import threading

import pykka
import pytest

from kinetic.actors.base import KineticActor, tell
from kinetic.actors.thread import SharedThread

LIMIT_S = 10.0


class Recorder(KineticActor):
    """Notes what it hears and where; may fail at its start or at a word."""

    def __init__(self, name, notes, thread, *, fails_at_start=False):
        def died(kind, error):
            notes.append((name, f"{kind} died: {error}", threading.get_ident()))

        super().__init__(died, thread)
        self.name = name
        self.notes = notes
        self.fails_at_start = fails_at_start

    def acquire(self):
        self.notes.append((self.name, "begins", threading.get_ident()))
        if self.fails_at_start:
            raise RuntimeError("no start")

    def release(self):
        self.notes.append((self.name, "lets go", threading.get_ident()))

    def hear(self, message):
        self.notes.append((self.name, message, threading.get_ident()))
        if message == "die":
            raise RuntimeError("dead")
        if isinstance(message, tuple):
            other, word = message
            tell(other, word)
        return message


@pytest.fixture
def thread():
    return SharedThread("shared")


def words(notes):
    return [(name, word) for name, word, _ in notes]


def test_members_run_in_one_thread_in_the_order_of_all_messages(thread):
    notes = []
    a = Recorder.start("a", notes, thread)
    b = Recorder.start("b", notes, thread)
    for i in range(50):
        tell(a if i % 2 else b, i)
    a.ask("last of a", timeout=LIMIT_S)
    b.ask("last of b", timeout=LIMIT_S)
    heard = [word for _, word in words(notes) if isinstance(word, int)]
    assert heard == list(range(50))
    assert len({ident for _, _, ident in notes}) == 1
    assert notes[0][2] != threading.get_ident()
    for ref in (a, b):
        ref.stop(timeout=LIMIT_S)


def test_what_a_member_tells_another_waits_for_its_turn(thread):
    notes = []
    a = Recorder.start("a", notes, thread)
    b = Recorder.start("b", notes, thread)
    tell(a, (b, "from a"))
    a.ask("then", timeout=LIMIT_S)
    b.ask("done", timeout=LIMIT_S)
    mine = [note for note in words(notes) if note[1] in {"from a", "done"}]
    assert mine == [("b", "from a"), ("b", "done")]
    for ref in (a, b):
        ref.stop(timeout=LIMIT_S)


def test_a_member_that_dies_leaves_the_others_running(thread):
    notes = []
    a = Recorder.start("a", notes, thread)
    b = Recorder.start("b", notes, thread)
    tell(a, "die")
    assert b.ask("still here", timeout=LIMIT_S) == "still here"
    assert words(notes)[-3:-1] == [("a", "lets go"), ("a", "Recorder died: dead")]
    assert not a.is_alive()
    with pytest.raises(pykka.ActorDeadError):
        a.ask("gone", timeout=LIMIT_S)
    b.stop(timeout=LIMIT_S)


def test_a_panic_of_native_code_ends_its_actor_alone(thread):
    class Panic(BaseException):
        """As pyo3 raises: no Exception."""

    class Panicking(Recorder):
        def hear(self, message):
            raise Panic("at the disco")

    notes = []
    a = Panicking.start("a", notes, thread)
    b = Recorder.start("b", notes, thread)
    tell(a, "anything")
    assert b.ask("still here", timeout=LIMIT_S) == "still here"
    assert ("a", "Panicking died: at the disco") in words(notes)
    assert not a.is_alive()
    b.stop(timeout=LIMIT_S)


def test_a_question_that_raises_is_answered_and_ends_nobody(thread):
    a = Recorder.start("a", [], thread)
    with pytest.raises(RuntimeError, match="dead"):
        a.ask("die", timeout=LIMIT_S)
    assert a.ask("well", timeout=LIMIT_S) == "well"
    a.stop(timeout=LIMIT_S)


def test_a_member_that_cannot_start_is_dead_at_once(thread):
    notes = []
    a = Recorder.start("a", notes, thread)
    b = Recorder.start("b", notes, thread, fails_at_start=True)
    a.ask("behind the start of b", timeout=LIMIT_S)
    assert not b.is_alive()
    assert ("b", "lets go") in words(notes)
    a.stop(timeout=LIMIT_S)


def test_the_thread_ends_with_its_last_member_and_starts_anew(thread):
    def running():
        return [t for t in threading.enumerate() if t.name == "shared"]

    first = Recorder.start("a", [], thread)
    (before,) = running()
    first.stop(timeout=LIMIT_S)
    before.join(LIMIT_S)
    assert not before.is_alive()
    second = Recorder.start("b", [], thread)
    assert second.ask("well", timeout=LIMIT_S) == "well"
    (after,) = running()
    second.stop(timeout=LIMIT_S)
    after.join(LIMIT_S)
    assert running() == []


def test_questions_behind_the_end_are_answered_that_nobody_is_there(thread):
    go = threading.Event()

    class Slow(Recorder):
        def hear(self, message):
            if message == "wait":
                go.wait(LIMIT_S)
            return super().hear(message)

    a = Slow.start("a", [], thread)
    tell(a, "wait")
    stopping = a.stop(block=False)
    asked = a.ask("too late", block=False)
    go.set()
    assert stopping.get(timeout=LIMIT_S)
    with pytest.raises(pykka.ActorDeadError):
        asked.get(timeout=LIMIT_S)
