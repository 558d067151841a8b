"""llama-server's routes over real HTTP, with a scripted inside."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kinetic.actors.messages import (
    Delta,
    Failed,
    Job,
    PromptMoved,
    SinkEvent,
    Started,
)
from kinetic.actors.metrics.exposition import Facts, MetricsPage
from kinetic.actors.metrics.view import MetricsView, SlotView, empty_view
from kinetic.errors import ContextExceeded, InternalError, Overloaded, RequestError
from kinetic.types import ChatInput, GenerationRequest, SamplingParams
from kinetic.web.llama_server import ROUTES
from tests.support.web_app import Script, delta, finished, talk

ASK = {"prompt": "Hi"}


def piece(text: str, token: int, n: int) -> Delta:
    return replace(delta(text), tokens=(token,), n_generated=n)


STARTED = Started(index=0, slot_id=0, n_prompt=5, n_cached=2)
ANSWER: tuple[SinkEvent, ...] = (
    STARTED,
    PromptMoved(index=0, n_done=2, seconds=0.0),
    PromptMoved(index=0, n_done=5, seconds=0.25),
    piece("Hel", 8, 1),
    piece("lo", 9, 2),
    piece("", 2, 3),
    finished(),
)


@dataclass
class Inside(Script):
    """Answers each job with the same events under its own index."""

    events: Any = ANSWER
    shown: MetricsView = field(default_factory=lambda: empty_view(2))

    def build(self, request: GenerationRequest) -> tuple[Job, ...]:
        (job,) = super().build(request)
        return tuple(
            replace(
                job,
                index=index,
                prompt=(72, 105),
                n_logprobs=request.n_logprobs,
                settings=request.settings,
            )
            for index in range(len(request.inputs) * request.n)
        )

    def submit(self, jobs: tuple[Job, ...], sink: Any) -> None:
        self._sinks[jobs[0].request_id] = sink
        for job in jobs:
            for event in self.events:
                sink.put(replace(event, index=job.index))

    def tokenize(
        self, content: Any, *, add_special: bool, parse_special: bool
    ) -> list[int]:
        parts = [content] if isinstance(content, str) else content
        found = [1] if add_special else []
        for part in parts:
            found += [part] if isinstance(part, int) else list(part.encode())
        return found if parse_special else found[::-1]

    def chat_text(self, inputs: ChatInput) -> str:
        return "|".join(str(message["content"]) for message in inputs.messages)

    @property
    def view(self):
        return self.shown

    def metrics_page(self) -> bytes:
        return MetricsPage(self.shown, Facts(n_ctx=4096, build={})).render()


def ask(method, route, body=None, *, script=None, headers=None, options=None, **info):
    """One request and its answer."""
    answers = []
    raw = body if body is None or isinstance(body, bytes) else json.dumps(body)

    async def story(client):
        answers.append(await client.send(method, route, raw, headers))

    talk(story, script or Inside(), options=options, **info)
    return answers[0]


def post(route, body, **more):
    return ask("POST", route, body, **more)


def good(answer) -> Any:
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    return json.loads(answer.body)


def error(answer, status: int) -> dict[str, Any]:
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"].startswith("application/json")
    body = json.loads(answer.body)
    assert list(body) == ["error"]
    found: dict[str, Any] = body["error"]
    assert list(found)[:3] == ["code", "message", "type"]
    assert found["code"] == status
    return found


def events(answer) -> list[Any]:
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert answer.headers["X-Accel-Buffering"] == "no"
    parts = answer.body.decode().split("\n\n")
    assert parts.pop() == ""
    assert all(part.startswith("data: ") for part in parts)
    return [json.loads(part[6:]) for part in parts]


# --- /completion --------------------------------------------------------------------


@pytest.mark.parametrize("route", ["/completion", "/completions"])
def test_a_whole_answer_is_one_object(route):
    found = good(post(route, ASK))
    assert (found["content"], found["stop_type"], found["model"]) == (
        "Hello",
        "eos",
        "tiny",
    )
    assert found["prompt"] == "Hi"


def test_a_stream_ends_with_the_final_object_and_no_marker():
    *pieces, last = events(post("/completion", {**ASK, "stream": True}))
    assert [(one["content"], one["tokens"]) for one in pieces] == [
        ("Hel", [8]),
        ("lo", [9]),
        ("", [2]),
    ]
    assert (last["stop"], last["content"]) == (True, "")
    assert last["generation_settings"]["stream"] is True


def test_progress_comes_before_the_text():
    found = events(
        post("/completion", {**ASK, "stream": True, "return_progress": True})
    )
    told = [one["prompt_progress"] for one in found if "prompt_progress" in one]
    assert [one["processed"] for one in told] == [2, 5]
    assert [one["cache"] for one in told] == [2, 2]


@pytest.mark.parametrize(
    ("body", "n"), [({"prompt": ["a", "b"]}, 2), ({"prompt": "a", "n": 2}, 2)]
)
def test_several_answers_are_an_array(body, n):
    found = good(post("/completion", body))
    assert [one["index"] for one in found] == list(range(n))


def test_one_prompt_in_a_list_is_no_array():
    assert good(post("/completion", {"prompt": ["a"]}))["index"] == 0


def test_streamed_answers_are_told_apart_by_index():
    found = events(post("/completion", {"prompt": ["a", "b"], "stream": True}))
    assert {one["index"] for one in found} == {0, 1}
    assert [one["index"] for one in found if one["stop"]] == [0, 1]


def test_only_the_fields_asked_for_come_back():
    body = {**ASK, "response_fields": ["content", "timings/prompt_n"]}
    assert good(post("/completion", body)) == {
        "content": "Hello",
        "timings/prompt_n": 3,
    }


@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded"]
)
def test_a_body_may_be_of_any_content_type(content_type):
    headers = {"Content-Type": content_type} if content_type else {}
    assert good(post("/completion", ASK, headers=headers))["content"] == "Hello"


# --- Errors -------------------------------------------------------------------------


def test_a_wrong_field_is_named_in_llama_servers_shape():
    found = error(post("/completion", {**ASK, "top_k": "x"}), 400)
    assert found["type"] == "invalid_request_error"
    assert "top_k" in found["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"prompt": NaN}'])
def test_a_body_that_is_no_object_is_a_400(body):
    assert error(post("/completion", body), 400)["type"] == "invalid_request_error"


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_is_too_long_tells_both_numbers(stream):
    script = Inside(refusal=ContextExceeded(n_prompt=9, n_ctx=8))
    found = error(post("/completion", {**ASK, "stream": stream}, script=script), 400)
    assert found["type"] == "exceed_context_size_error"
    assert (found["n_prompt_tokens"], found["n_ctx"]) == (9, 8)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("failure", "status", "kind"),
    [
        (RequestError("no"), 400, "invalid_request_error"),
        (Overloaded("full"), 503, "unavailable_error"),
        (InternalError("broke"), 500, "server_error"),
    ],
)
def test_a_failure_before_the_first_piece_has_its_status(stream, failure, status, kind):
    script = Inside(events=(STARTED, Failed(index=0, error=failure)))
    found = error(post("/completion", {**ASK, "stream": stream}, script=script), status)
    assert found["type"] == kind


def test_a_failure_in_a_stream_is_its_last_event():
    script = Inside(
        events=(piece("Hel", 8, 1), Failed(index=0, error=InternalError("broke")))
    )
    first, last = events(post("/completion", {**ASK, "stream": True}, script=script))
    assert first["content"] == "Hel"
    assert last == {"error": {"code": 500, "message": "broke", "type": "server_error"}}


def test_one_failure_ends_a_request_of_several_answers():
    script = Inside(events=(Failed(index=0, error=InternalError("broke")),))
    assert error(post("/completion", {"prompt": ["a", "b"]}, script=script), 500)


@pytest.mark.parametrize("route", ["/completion", "/apply-template"])
def test_a_route_that_the_model_does_not_serve_is_a_400_naming_the_right_one(route):
    found = error(post(route, ASK, kind="embedding"), 400)
    assert found["type"] == "invalid_request_error"
    assert "/v1/embeddings" in found["message"]


@pytest.mark.parametrize("route", ["/embedding", "/embeddings"])
def test_vectors_of_a_text_model_are_a_400_naming_the_right_route(route):
    found = error(post(route, {"content": "a"}), 400)
    assert "/v1/chat/completions" in found["message"]


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/props", {}),
        ("/slots/0?action=erase", {}),
        ("/slots/1?action=save", {"filename": "a"}),
        ("/infill", {"input_prefix": "a", "input_suffix": "b"}),
        ("/lora-adapters", [{"id": 0, "scale": 1}]),
    ],
)
def test_what_is_not_served_says_so(route, body):
    assert error(post(route, body), 501)["type"] == "not_supported_error"


@pytest.mark.parametrize("route", [route for route, _ in ROUTES if "(" not in route])
def test_pages_of_foreign_origins_are_refused(route):
    headers = {"Origin": "https://evil.example"}
    assert error(post(route, ASK, headers=headers), 403)["type"] == "permission_error"


@pytest.mark.parametrize("route", [route for route, _ in ROUTES if "(" not in route])
def test_every_route_asks_for_the_key(route):
    options = {"api_keys": ("secret",)}
    method = "GET" if route in {"/slots", "/props", "/v1/metrics"} else "POST"
    body = None if method == "GET" else ASK
    found = error(ask(method, route, body, options=options), 401)
    assert found["type"] == "authentication_error"
    headers = {"X-Api-Key": "secret"}
    answer = ask(method, route, body, options=options, headers=headers)
    assert answer.status != 401


def test_the_wrong_method_is_a_405_that_tells_the_right_ones():
    answer = ask("GET", "/completion")
    assert "POST" in error(answer, 405)["message"]
    assert "POST" in answer.headers["Allow"]


# --- Small endpoints ----------------------------------------------------------------


def test_text_becomes_token_ids():
    assert good(post("/tokenize", {"content": "ab"})) == {"tokens": [97, 98]}
    assert good(post("/tokenize", {})) == {"tokens": []}
    body = {"content": ["a", 5], "add_special": True, "parse_special": False}
    assert good(post("/tokenize", body)) == {"tokens": [5, 97, 1]}


def test_pieces_that_are_no_text_are_bytes():
    found = good(post("/tokenize", {"content": "aé", "with_pieces": True}))
    assert found == {
        "tokens": [
            {"id": 97, "piece": "a"},
            {"id": 0xC3, "piece": [0xC3]},
            {"id": 0xA9, "piece": [0xA9]},
        ]
    }


def test_token_ids_become_text():
    assert good(post("/detokenize", {"tokens": [72, 105]})) == {"content": "Hi"}
    assert good(post("/detokenize", {})) == {"content": ""}
    assert (
        "tokens[1]" in error(post("/detokenize", {"tokens": [1, -1]}), 400)["message"]
    )


def test_a_conversation_is_rendered_without_being_answered():
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    script = Inside()
    answer = post("/apply-template", {"messages": messages}, script=script)
    assert good(answer) == {"prompt": "a|b"}
    assert script.requests == []
    assert "messages" in error(post("/apply-template", {}), 400)["message"]


def test_props_tell_the_model_and_how_it_is_run():
    found = good(ask("GET", "/props"))
    assert (found["model_alias"], found["total_slots"]) == ("tiny", 2)
    assert found["kinetic"]["plan"] == "uniform"


def busy_view() -> MetricsView:
    sampling = SamplingParams(seed=1)
    job = Job(request_id="r", index=0, prompt=(72, 105), sampling=sampling)
    seats = tuple(
        SlotView(slot_id=i, is_processing=True, job=job, task=i) for i in range(2)
    )
    return MetricsView(slots=seats)


def test_slots_tell_no_prompt_unless_the_operator_asked_for_it():
    script = Inside(shown=busy_view())
    plain = good(ask("GET", "/slots", script=script))
    assert [one["id_task"] for one in plain] == [0, 1]
    assert all("prompt" not in one for one in plain)
    shown = good(ask("GET", "/slots", script=script, options={"show_prompts": True}))
    assert [one["prompt"] for one in shown] == ["Hi", "Hi"]


def test_a_probe_can_ask_for_an_idle_slot():
    assert len(good(ask("GET", "/slots?fail_on_no_slot=1"))) == 2
    script = Inside(shown=busy_view())
    found = error(ask("GET", "/slots?fail_on_no_slot=1", script=script), 503)
    assert found["type"] == "unavailable_error"


@pytest.mark.parametrize("route", ["/metrics", "/v1/metrics"])
def test_metrics_are_text_of_prometheus_version(route):
    answer = ask("GET", route)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4"
    assert int(answer.headers["Process-Start-Time-Unix"]) > 0
    assert answer.body.startswith(b"# HELP llamacpp:")
    assert answer.body.endswith(b"\n")
    head = ask("HEAD", route)
    assert (head.status, head.body) == (200, b"")


def test_there_are_no_adapters():
    assert good(ask("GET", "/lora-adapters")) == []
    assert good(post("/lora-adapters", [])) == {"success": True}


def test_health_is_what_llama_servers_clients_ask_for():
    found = good(ask("GET", "/health"))
    assert found == {"status": "ok", "slots_idle": 2, "slots_processing": 0}


def test_every_response_is_counted_by_its_status():
    script = Inside()
    post("/completion", ASK, script=script)
    post("/completion", {**ASK, "stream": True}, script=script)
    post("/completion", {**ASK, "top_k": "x"}, script=script)
    post("/infill", {}, script=script)
    ask("GET", "/no-such-route", script=script)
    assert script.statuses == [200, 200, 400, 501, 404]
