"""The Receipt actor: every request ends once, with its receipt or by an error."""

import threading
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from kinetic.actors.messages import (
    Cancel,
    Digested,
    Failed,
    Finished,
    Record,
)
from kinetic.actors.peers import Peers
from kinetic.actors.receipt import Receipt, ReceiptFacts
from kinetic.errors import InternalError, ReceiptError, ShuttingDown
from kinetic.model.job import Job
from kinetic.receipts import schema
from kinetic.types import (
    CallPiece,
    ContentPiece,
    Finish,
    ReasoningPiece,
    RequestAsRead,
    TextInput,
    Timings,
    Usage,
)
from tests.support.receipts import CHAT, ENGINE, SIGNER, TEXT

SHA = "cd" * 32


class FakeDigest:
    """A digest that is found when the test says so."""

    def __init__(self):
        self.found: Future[str] = Future()
        self.n_asked = 0

    def ask(self):
        self.n_asked += 1
        return self.found


class Sink:
    def __init__(self):
        self.events = []
        self.came = threading.Event()

    def put(self, event):
        self.events.append(event)
        self.came.set()


def facts(digest, **named):
    given = {
        "model_name": CHAT.model.name,
        "size_bytes": CHAT.model.size_bytes,
        "architecture": CHAT.model.architecture,
        "digest": digest,
        "engine": ENGINE,
        "n_ctx": 256,
        "now": lambda: CHAT.created,
    }
    return ReceiptFacts(**{**given, **named})


def record(sink, receipt=CHAT, *, request_id="r", index=0):
    request, output = receipt.request, receipt.output
    finished = Finished(
        index=index,
        finish=output.finish,
        usage=Usage(n_prompt=4, n_cached=0, n_generated=3),
        timings=Timings(queued_s=0, prompt_s=0, predicted_s=0),
        slot_id=0,
    )
    job = Job(
        request_id=request_id,
        index=index,
        prompt=request.prompt_tokens,
        sampling=request.sampling,
        max_tokens=request.max_tokens,
        stops=request.stops,
        receipt=RequestAsRead(
            inputs=request.inputs,
            constraint=request.constraint,
            rendered_at=request.rendered_at,
        ),
    )
    half = len(output.content) // 2
    return Record(
        job=job,
        sink=sink,
        finished=finished,
        tokens=output.tokens,
        pieces=(
            ReasoningPiece(output.reasoning),
            ContentPiece(output.content[:half]),
            *(CallPiece(i, call) for i, call in enumerate(output.tool_calls)),
            ContentPiece(output.content[half:]),
        ),
    )


@pytest.fixture
def digest():
    return FakeDigest()


def unstarted(digest, **named):
    return Receipt(facts(digest, **named), Peers(on_death=lambda *_death: None))


@pytest.mark.parametrize("receipt", [CHAT, TEXT])
def test_a_record_becomes_the_receipt_of_its_answer(digest, receipt):
    actor, sink = unstarted(digest, signer=SIGNER), Sink()
    actor.hear(Digested(sha256=SHA))
    actor.hear(record(sink, receipt))
    (end,) = sink.events
    assert isinstance(end, Finished)
    sealed = schema.read(end.receipt)
    assert sealed.signature is not None
    assert SIGNER.public_key.accepts(sealed.message, sealed.signature)
    found: Any = sealed.receipt
    if receipt.request.constraint is not None:
        spec = replace(found.request.constraint, param="response_format")
        found = replace(found, request=replace(found.request, constraint=spec))
    assert found == receipt
    assert (end.finish, end.usage.n_prompt) == (receipt.output.finish, 4)


def test_a_template_of_the_server_s_own_stands_in_chat_receipts_alone(digest):
    actor, sink = unstarted(digest, template="{{ x }}"), Sink()
    actor.hear(Digested(sha256=SHA))
    actor.hear(record(sink))
    actor.hear(record(sink, TEXT))
    chat, text = (schema.read(e.receipt).receipt.request for e in sink.events)
    assert (chat.template, text.template) == ("{{ x }}", None)


def test_what_comes_before_the_digest_waits_for_it(digest):
    actor, sinks = unstarted(digest), [Sink(), Sink()]
    for sink in sinks:
        actor.hear(record(sink))
    assert not sinks[0].events
    actor.hear(Digested(sha256=SHA))
    assert [type(e) for s in sinks for e in s.events] == [Finished, Finished]


def test_without_a_digest_every_request_ends_with_the_reason(digest):
    actor, sink = unstarted(digest), Sink()
    actor.hear(record(sink))
    actor.hear(Digested(error=ReceiptError("the model file is gone")))
    actor.hear(record(sink, index=1))
    assert [(e.index, str(e.error)) for e in sink.events] == [
        (0, "the model file is gone"),
        (1, "the model file is gone"),
    ]


def test_a_cancelled_request_stops_waiting_and_others_go_on(digest):
    actor, gone, stays = unstarted(digest), Sink(), Sink()
    actor.hear(record(gone, request_id="a"))
    actor.hear(record(gone, request_id="a", index=1))
    actor.hear(record(stays, request_id="b"))
    error = InternalError("gone")
    actor.hear(Cancel(request_id="a", error=error))
    actor.hear(Cancel(request_id="unknown", error=error))
    actor.hear(Digested(sha256=SHA))
    assert [(e.index, e.error) for e in gone.events] == [(0, error), (1, error)]
    assert all(isinstance(e, Failed) and e.usage is not None for e in gone.events)
    assert [type(e) for e in stays.events] == [Finished]


def test_a_record_that_cannot_be_written_ends_its_own_request_alone(digest):
    actor, sink = unstarted(digest), Sink()
    actor.hear(Digested(sha256=SHA))
    broken = record(sink)
    broken = replace(broken, pieces=(ContentPiece("\ud800"),))
    actor.hear(broken)
    nothing_asked = replace(broken, job=replace(broken.job, receipt=None))
    actor.hear(nothing_asked)
    actor.hear(record(sink))
    assert [type(e) for e in sink.events] == [Failed, Failed, Finished]
    assert [type(e.error) for e in sink.events[:2]] == [ReceiptError, InternalError]


def test_stopping_ends_what_waits(digest):
    actor, sink = unstarted(digest), Sink()
    actor.hear(record(sink))
    actor.release()
    actor.release()
    (end,) = sink.events
    assert isinstance(end.error, ShuttingDown)


@pytest.fixture
def running(digest):
    deaths = []
    peers = Peers(on_death=lambda name, error: deaths.append((name, error)))
    ref = Receipt.start(facts(digest, signer=SIGNER), peers)
    yield ref, deaths
    if ref.is_alive():
        ref.stop(timeout=5)


def test_the_digest_is_asked_for_at_the_start_and_comes_from_any_thread(
    running, digest
):
    ref, deaths = running
    sink = Sink()
    ref.tell(record(sink))
    ref.ask("ping", timeout=5)
    assert digest.n_asked == 1
    assert not sink.events
    digest.found.set_result(SHA)
    assert sink.came.wait(5)
    assert schema.read(sink.events[0].receipt).receipt.model.sha256 == SHA
    assert not deaths


def test_a_digest_that_fails_fails_what_waits(running, digest):
    ref, deaths = running
    sink = Sink()
    ref.tell(record(sink))
    digest.found.set_exception(OSError("disk on fire"))
    assert sink.came.wait(5)
    assert "disk on fire" in str(sink.events[0].error)
    assert not deaths


def test_a_dying_actor_ends_what_waits_and_says_so(running):
    ref, deaths = running
    sink = Sink()
    ref.tell(record(sink))
    ref.tell("nonsense")
    assert sink.came.wait(5)
    assert isinstance(sink.events[0], Failed)
    assert wait_until(lambda: deaths)
    assert deaths[0][0] == "Receipt"


def wait_until(condition, limit_s=5.0):
    event = threading.Event()
    for _ in range(int(limit_s / 0.01)):
        if condition():
            return True
        event.wait(0.01)
    return False


def test_a_finish_by_stop_string_keeps_the_string(digest):
    stop = Finish(reason="stop", stop_string="END")
    receipt = replace(CHAT, output=replace(CHAT.output, finish=stop))
    actor, sink = unstarted(digest), Sink()
    actor.hear(Digested(sha256=SHA))
    actor.hear(record(sink, receipt))
    assert schema.read(sink.events[0].receipt).receipt.output.finish == stop


def test_a_prompt_of_ids_is_kept_as_ids(digest):
    prompt = TextInput(prompt=(1, 2, 3))
    receipt = replace(TEXT, request=replace(TEXT.request, inputs=prompt))
    actor, sink = unstarted(digest), Sink()
    actor.hear(Digested(sha256=SHA))
    actor.hear(record(sink, receipt))
    assert schema.read(sink.events[0].receipt).receipt.request.inputs == prompt


def test_an_answer_about_pictures_gets_none(digest):
    actor, sink = unstarted(digest), Sink()
    actor.hear(Digested(sha256=SHA))
    made = record(sink)
    actor.hear(replace(made, job=replace(made.job, images=("a picture",))))
    (end,) = sink.events
    assert "pictures" in str(end.error)
