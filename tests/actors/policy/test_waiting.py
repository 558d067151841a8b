"""The waiting line."""

from kinetic.actors.messages import Job
from kinetic.actors.policy.waiting import Waiter, WaitingLine
from kinetic.types import SamplingParams


class Nowhere:
    """A sink that nobody reads."""

    def put(self, event):
        """Drop it."""


def taken(line, is_ready=lambda _: True):
    found = line.take(is_ready)
    return None if found is None else found.job.request_id


def waiter(request_id, index=0, group=None):
    job = Job(
        request_id=request_id,
        index=index,
        prompt=(1,),
        sampling=SamplingParams(),
        group=group,
    )
    return Waiter(job=job, sink=Nowhere())


def test_first_come_first_served():
    line = WaitingLine(8)
    for name in "abc":
        line.add(waiter(name))
    assert [taken(line) for _ in range(3)] == list("abc")
    assert taken(line) is None


def test_one_that_is_not_ready_lets_those_behind_it_pass_and_keeps_its_place():
    line = WaitingLine(8)
    for name in "abc":
        line.add(waiter(name))
    assert taken(line, lambda job: job.request_id != "a") == "b"
    assert taken(line) == "a"


def test_the_line_has_a_bound():
    line = WaitingLine(2)
    assert line.has_room(2)
    line.add(waiter("a"))
    assert line.has_room(1)
    assert not line.has_room(2)


def test_removing_a_request_removes_all_its_choices_and_nobody_else():
    line = WaitingLine(8)
    for index in range(3):
        line.add(waiter("a", index))
    line.add(waiter("b"))
    assert [w.job.index for w in line.remove("a")] == [0, 1, 2]
    assert len(line) == 1
