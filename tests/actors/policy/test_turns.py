"""Requests for vectors take turns, input by input."""

from hypothesis import given, strategies as st

from kinetic.actors.policy.turns import OpenRequest, Turns
from kinetic.types import VectorJob


class _NoSink:
    def put(self, event):
        raise AssertionError("nothing is told by the line")


def request(name, n_inputs):
    job = VectorJob(request_id=name, inputs=((1,),) * n_inputs)
    return OpenRequest(job=job, sink=_NoSink())


def order(turns):
    taken = []
    while (found := turns.take()) is not None:
        taken.append((found[0].job.request_id, found[1]))
    return taken


def filled(**sizes):
    turns = Turns(8)
    for name, n in sizes.items():
        turns.add(request(name, n))
    return turns


def test_requests_take_turns_and_their_inputs_stay_in_order():
    assert order(filled(a=3, b=1, c=2)) == [
        ("a", 0),
        ("b", 0),
        ("c", 0),
        ("a", 1),
        ("c", 1),
        ("a", 2),
    ]


def test_one_that_comes_late_waits_for_one_round():
    turns = filled(a=100, b=100)
    for _ in range(10):
        turns.take()
    turns.add(request("late", 1))
    taken = [turns.take()[0].job.request_id for _ in range(3)]
    assert taken[-1] == "late"


@given(st.lists(st.integers(1, 6), max_size=6))
def test_every_input_is_taken_once(sizes):
    named = {f"r{i}": n for i, n in enumerate(sizes)}
    taken = order(filled(**named))
    assert sorted(taken) == sorted((r, i) for r, n in named.items() for i in range(n))


def test_a_removed_request_has_no_more_turns():
    turns = filled(a=3, b=2)
    turns.take()
    assert turns.remove("a").n_begun == 1
    assert turns.remove("a") is None
    assert order(turns) == [("b", 0), ("b", 1)]


def test_those_of_which_nothing_is_begun_wait():
    turns = filled(a=3, b=2, c=1)
    turns.take()
    assert turns.n_waiting == 2
    assert [r.job.request_id for r in turns.remove_unbegun()] == ["b", "c"]
    assert turns.n_waiting == 0
    assert len(turns) == 1


def test_the_line_has_room_for_its_limit_beside_the_one_that_runs():
    turns, more = Turns(1), request("more", 1)
    assert turns.has_room(more)
    turns.add(request("a", 5))
    turns.take()
    assert turns.has_room(more)
    turns.add(request("b", 5))
    assert not turns.has_room(more)


def test_what_open_requests_hold_in_memory_is_bounded_but_for_one_alone():
    large = request("large", 25)
    assert large.n_bytes == 25 * (600 + 40)
    turns = Turns(8, most_bytes=2 * large.n_bytes + 1)
    for name in "abc":
        assert turns.has_room(large) == (name != "c")
        turns.add(request(name, 25))
    assert Turns(8, most_bytes=10).has_room(large)


def test_vectors_are_held_until_the_last_is_there():
    job = VectorJob(request_id="a", inputs=((1, 2),), n_numbers=384)
    assert OpenRequest(job=job, sink=_NoSink()).n_bytes == 600 + 2 * 40 + 384 * 4
