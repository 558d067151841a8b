"""Asking a server for the same answer: what is sent, and what its word is worth."""

import json
import math
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from kinetic.errors import ReceiptError
from kinetic.proof.remote import RemoteBench, request_of
from kinetic.receipts.record import seal
from kinetic.receipts.verify import Outcome, Pin, verify
from kinetic.types import ChatInput, ConstraintSpec, Finish
from kinetic.web.fields.sampling import ModelFacts
from kinetic.web.llama_server.schema import read_completion
from kinetic.web.openai.schema import Arrival, read_chat
from tests.support.receipts import CHAT, SIGNER, TEXT

ANY = Pin()
FACTS = ModelFacts(
    n_tokens=1000,
    tokenize=lambda text: [1],
    detokenize=bytes,
    piece=lambda token: bytes([token]),
    sampling=replace(CHAT.request.sampling, seed=0),
)


def with_request(receipt, **changes):
    return replace(receipt, request=replace(receipt.request, **changes))


def test_a_conversation_is_asked_for_in_every_detail():
    receipt = with_request(CHAT, constraint=None)
    path, body = request_of(receipt)
    assert path == "/v1/chat/completions"
    body = json.loads(json.dumps(body))
    arrival = Arrival(request_id="r", arrived_s=0)
    asked = read_chat(body, FACTS, arrival).request
    request = receipt.request
    (inputs,) = asked.inputs
    theirs = request.inputs
    assert isinstance(inputs, ChatInput)
    assert isinstance(theirs, ChatInput)
    assert inputs.tools == theirs.tools
    assert inputs.template_kwargs == theirs.template_kwargs
    assert inputs.parallel_tool_calls
    assert inputs.split_reasoning
    assert asked.sampling == request.sampling
    assert asked.stops == request.stops
    assert asked.max_tokens == len(receipt.output.tokens) + 1
    assert asked.receipt
    assert asked.n == 1


def test_a_forced_call_names_its_function():
    asked = CHAT.request.inputs
    assert isinstance(asked, ChatInput)
    inputs = replace(asked, tool_choice="function", function_name="weather")
    _, body = request_of(with_request(CHAT, inputs=inputs))
    assert body["tool_choice"] == {"type": "function", "function": {"name": "weather"}}


@pytest.mark.parametrize(
    ("constraint", "path", "field"),
    [
        (None, "/completion", None),
        (ConstraintSpec(kind="gbnf", source="root ::= [a]"), "/completion", "grammar"),
        (
            ConstraintSpec(kind="json_schema", source='{"b":1,"a":2}'),
            "/completion",
            "json_schema",
        ),
        (ConstraintSpec(kind="json_object"), "/v1/completions", "response_format"),
    ],
)
def test_a_text_is_asked_for_in_every_detail(constraint, path, field):
    receipt = with_request(
        TEXT, constraint=constraint, min_indent=2, ignore_eos=constraint is None
    )
    found, body = request_of(receipt)
    assert found == path
    if path != "/completion":
        return
    body = json.loads(json.dumps(body))
    asked = read_completion(body, FACTS, request_id="r", arrived_s=0).request
    assert asked.inputs == (receipt.request.inputs,)
    assert asked.sampling == receipt.request.sampling
    assert asked.min_indent == 2
    assert asked.ignore_eos == (constraint is None)
    assert asked.receipt
    if field == "json_schema":
        assert list(body[field]) == ["b", "a"]


def test_a_ban_is_asked_for_as_a_ban():
    _, body = request_of(TEXT)
    assert body["logit_bias"] == [[3, False], [5, -1.5]]
    assert CHAT.request.sampling.logit_bias[0] == (3, -math.inf)


# --- A server that answers what the test says ---------------------------------------


class Server(HTTPServer):
    answers: dict[str, tuple[int, Any]]
    seen: list[tuple[str, Any, str | None]]


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        body = json.loads(self.rfile.read(length))
        self.server.seen.append((self.path, body, self.headers["Authorization"]))
        is_who = body.get("n_predict") == 0
        status, answer = self.server.answers["who" if is_who else "run"]
        raw = json.dumps(answer).encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_args):
        return


@pytest.fixture
def server():
    found = Server(("127.0.0.1", 0), _Handler)
    true = {"receipt": seal(TEXT, SIGNER)}
    found.answers = {"who": (200, true), "run": (200, true)}
    found.seen = []
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join(10)
    found.server_close()


def bench_of(server, **named):
    return RemoteBench(f"http://127.0.0.1:{server.server_port}/v1/", **named)


def judged(server, receipt=TEXT, **named):
    return verify(seal(receipt, SIGNER), bench_of(server, **named), pin=ANY)


def said(report):
    return report.steps[-1].text


def test_the_same_answer_proves(server):
    report = judged(server, api_key="secret")
    assert report.outcome is Outcome.PROVEN, said(report)
    assert [path for path, _, _ in server.seen] == ["/completion", "/completion"]
    assert {key for _, _, key in server.seen} == {"Bearer secret"}


def test_another_answer_differs_with_the_token(server):
    other = replace(TEXT, output=replace(TEXT.output, tokens=(9, 7, 2)))
    server.answers["run"] = (200, {"receipt": seal(other, None)})
    report = judged(server)
    assert report.outcome is Outcome.DIFFERS
    assert "token 1 of the answer is 8; the model gives 7" in said(report)


def test_another_end_or_text_differs(server):
    for changes in ({"content": "no"}, {"finish": Finish(reason="calls")}):
        other = replace(TEXT, output=replace(TEXT.output, **changes))
        server.answers["run"] = (200, {"receipt": seal(other, None)})
        assert judged(server).outcome is Outcome.DIFFERS


def test_another_prompt_cannot_be_told(server):
    other = with_request(TEXT, prompt_tokens=(1, 2))
    server.answers["run"] = (200, {"receipt": seal(other, None)})
    report = judged(server)
    assert report.outcome is Outcome.UNDECIDED
    assert "--model" in said(report)


def test_another_model_is_another_model(server):
    other = replace(TEXT, model=replace(TEXT.model, sha256="0" * 64))
    server.answers["who"] = (200, {"receipt": seal(other, None)})
    assert judged(server).outcome is Outcome.OTHER_MODEL


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((400, {"error": "temperature"}), "answers 400"),
        ((401, {}), "--api-key"),
        ((302, {}), "answers 302"),
        ((200, {"content": "x"}), "no receipt"),
        ((200, {"receipt": {"format": "x"}}), "no receipt"),
        ((200, [{"receipt": 3}, {"receipt": 4}]), "no receipt"),
    ],
)
def test_a_server_that_does_not_answer_so_decides_nothing(server, answer, words):
    server.answers["who"] = answer
    report = judged(server)
    assert report.outcome is Outcome.UNDECIDED
    assert words in said(report)
    assert all(path != "/elsewhere" for path, _, _ in server.seen)


def test_nobody_there_decides_nothing():
    report = verify(seal(TEXT, SIGNER), RemoteBench("http://127.0.0.1:1"), pin=ANY)
    assert report.outcome is Outcome.UNDECIDED
    assert "no answer" in said(report)


@pytest.mark.parametrize("url", ["", "x", "file:///etc/passwd", "ftp://a", "http://"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ReceiptError, match="--url"):
        RemoteBench(url)
