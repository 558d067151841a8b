"""Ollama's routes over real HTTP, with a scripted inside."""

import asyncio
import hashlib
import json
import threading

import pytest

from kinetic.actors.messages import Failed
from kinetic.errors import ContextExceeded, InternalError, Overloaded
from kinetic.files import digest
from kinetic.types import CallPiece, ReasoningPiece, ToolCall
from kinetic.web.ollama import handlers
from kinetic.web.ollama.handlers import ROUTES
from tests.support.web_app import Script, delta, finished, talk

HI = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
ASK = {"model": "tiny", "prompt": "Hi"}


def ask(method, route, body=None, *, script=None, headers=None, options=None, **info):
    """One request and its answer."""
    answers = []
    raw = json.dumps(body) if isinstance(body, dict) else body

    async def story(client):
        answers.append(await client.send(method, route, raw, headers))

    talk(story, script or Script(), options=options, **info)
    return answers[0]


def post(route, body, **more):
    return ask("POST", route, body, **more)


def lines(answer):
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert answer.body.endswith(b"\n")
    return [json.loads(line) for line in answer.body[:-1].split(b"\n")]


def error(answer, status):
    assert answer.status == status
    assert answer.headers["Content-Type"].startswith("application/json")
    body = json.loads(answer.body)
    assert list(body) == ["error"]
    assert isinstance(body["error"], str)
    return body["error"]


# --- Answers ------------------------------------------------------------------------


def test_a_chat_streams_lines_and_ends_with_the_counts():
    first, second, last = lines(post("/api/chat", HI))
    assert first["message"] == {"role": "assistant", "content": "Hel"}
    assert second["message"]["content"] == "lo"
    assert (first["done"], second["done"], last["done"]) == (False, False, True)
    assert last["done_reason"] == "stop"
    assert (last["prompt_eval_count"], last["eval_count"]) == (5, 3)
    assert last["total_duration"] == 600_000_000
    assert {line["model"] for line in (first, second, last)} == {"tiny"}


def test_an_answer_that_is_not_streamed_is_one_object():
    answer = post("/api/chat", {**HI, "stream": False})
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    body = json.loads(answer.body)
    assert body["message"]["content"] == "Hello"
    assert body["done"] is True


def test_generate_has_its_text_in_response():
    assert [line["response"] for line in lines(post("/api/generate", ASK))] == [
        "Hel",
        "lo",
        "",
    ]
    body = json.loads(post("/api/generate", {**ASK, "stream": False}).body)
    assert body["response"] == "Hello"


def test_calls_and_thinking_come_apart_from_the_text():
    call = CallPiece(
        index=0, call=ToolCall(id="abcdefghi", name="f", arguments='{"a":1}')
    )
    script = Script(
        [delta(ReasoningPiece("hm")), delta("Well"), delta(call), finished("calls")]
    )
    thinking, text, called, last = lines(post("/api/chat", HI, script=script))
    assert thinking["message"] == {"role": "assistant", "content": "", "thinking": "hm"}
    assert text["message"]["content"] == "Well"
    assert called["message"]["tool_calls"][0]["function"]["arguments"] == {"a": 1}
    assert (called["done"], last["done"], last["done_reason"]) == (False, True, "stop")


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "text/plain", "application/x-www-form-urlencoded"],
)
def test_a_body_may_be_of_any_content_type(content_type):
    assert post("/api/chat", HI, headers={"Content-Type": content_type}).status == 200


def test_the_name_is_repeated_as_it_was_written():
    assert (
        lines(post("/api/chat", {**HI, "model": "TINY:latest"}))[0]["model"]
        == "TINY:latest"
    )


# --- Load and unload ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("keep_alive", "reason"),
    [(None, "load"), ("5m", "load"), (0, "unload"), ("0s", "unload")],
)
@pytest.mark.parametrize("kind", ["text", "embedding"])
def test_nothing_to_say_is_one_object_even_though_it_would_stream(
    keep_alive, reason, kind
):
    script = Script()
    for path, body in (
        ("/api/generate", {"model": "tiny"}),
        ("/api/chat", {"model": "tiny", "messages": []}),
    ):
        answer = post(
            path, {**body, "keep_alive": keep_alive}, script=script, kind=kind
        )
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("application/json")
        found = json.loads(answer.body)
        assert (found["done"], found["done_reason"]) == (True, reason)
        assert found.get("response", "") == "" or found["message"]["content"] == ""
    assert script.requests == []


# --- Errors -------------------------------------------------------------------------


def test_an_empty_body_is_missing():
    for path in ("/api/chat", "/api/generate", "/api/show", "/api/embed"):
        assert error(post(path, ""), 400) == "missing request body"


@pytest.mark.parametrize(
    "raw", ["{", "[]", '"x"', '{"model": NaN}', b"\xff\xfe", '{"model": "\\ud800"}']
)
def test_a_body_that_is_no_object_is_refused(raw):
    error(post("/api/chat", raw), 400)


def test_an_unknown_model_is_not_found_in_the_routes_words():
    words = "model 'other' not found"
    assert error(post("/api/chat", {**HI, "model": "other"}), 404) == words
    assert error(post("/api/generate", {**ASK, "model": "other"}), 404) == words
    assert error(post("/api/show", {"name": "other"}), 404) == words
    assert error(post("/api/embed", {"model": "other"}), 404) == (
        'model "other" not found, try pulling it first'
    )


def test_no_model_is_an_error_in_the_routes_words():
    for path in ("/api/chat", "/api/show"):
        assert error(post(path, {"messages": []}), 400) == "model is required"
    assert error(post("/api/generate", {"prompt": "x"}), 404) == "model '' not found"


def test_a_wrong_field_is_named():
    found = error(post("/api/chat", {**HI, "options": {"top_p": "x"}}), 400)
    assert found == 'options.top_p must be a number from 0 to 1, not "x"'


@pytest.mark.parametrize("stream", [True, False])
def test_a_prompt_that_is_too_long_is_a_400_with_both_numbers(stream):
    script = Script(
        refusal=ContextExceeded(n_prompt=5000, n_ctx=4096, param="messages")
    )
    found = error(post("/api/chat", {**HI, "stream": stream}, script=script), 400)
    assert found.startswith("the input length exceeds the context length: prompt is")
    assert "5000 tokens" in found
    assert "4096 tokens" in found


@pytest.mark.parametrize("stream", [True, False])
def test_a_failure_before_the_first_word_has_its_status(stream):
    script = Script([Failed(index=0, error=Overloaded("too many"))])
    answer = post("/api/chat", {**HI, "stream": stream}, script=script)
    assert error(answer, 503) == "too many"
    assert answer.headers["Retry-After"] == "1"


def test_a_failure_after_words_is_the_last_line():
    script = Script([delta("Hel"), Failed(index=0, error=InternalError("broke"))])
    first, last = lines(post("/api/chat", HI, script=script))
    assert first["message"]["content"] == "Hel"
    assert last == {"error": "broke"}
    whole = post("/api/chat", {**HI, "stream": False}, script=script)
    assert error(whole, 500) == "broke"


def test_a_client_that_leaves_frees_its_slot():
    script = Script([delta("Hel")])

    async def story(client):
        _, _, address = client.url.partition("//")
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps(HI).encode()
        writer.write(b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        await reader.readuntil(b'"Hel"')
        assert script.cancelled == []
        writer.close()
        assert await client.service.is_quiet(within_s=10)

    talk(story, script)
    assert len(script.cancelled) == 1


# --- Wrong kinds of models ----------------------------------------------------------


def test_a_text_model_makes_no_vectors():
    for path, body in (
        ("/api/embed", {"input": "x"}),
        ("/api/embeddings", {"prompt": "x"}),
    ):
        found = error(post(path, {"model": "tiny", **body}), 400)
        assert found == (
            '"tiny" does not support embeddings: it is a text model, use /api/chat or'
            " /api/generate"
        )


@pytest.mark.parametrize(
    ("kind", "route"), [("embedding", "/api/embed"), ("rerank", "/v1/rerank")]
)
def test_other_models_do_not_chat(kind, route):
    found = error(post("/api/chat", HI, kind=kind), 400)
    assert found.startswith('"tiny" does not support chat: ')
    assert found.endswith(f"use {route}")
    found = error(post("/api/generate", ASK, kind=kind), 400)
    assert found.startswith('"tiny" does not support generate: ')


# --- What is served -----------------------------------------------------------------


def test_the_root_says_what_clients_look_for():
    answer = ask("GET", "/")
    assert answer.body == b"Ollama is running"
    assert answer.headers["Content-Type"].startswith("text/plain")
    answer = ask("HEAD", "/")
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("path", ["/api/version", "/api/tags", "/api/ps"])
def test_what_can_be_asked_for_can_be_asked_about(path, model_file):
    found = ask("GET", path, path=str(model_file))
    assert isinstance(json.loads(found.body), dict)
    head = ask("HEAD", path, path=str(model_file))
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Type"] == found.headers["Content-Type"]


@pytest.fixture
def model_file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF and more")
    return path


def digest_told(route, **info):
    (model,) = json.loads(ask("GET", route, **info).body)["models"]
    return model["digest"]


def test_the_digest_is_that_of_the_file(model_file):
    found = hashlib.sha256(model_file.read_bytes()).hexdigest()
    assert digest_told("/api/tags", path=str(model_file)) == found
    assert digest_told("/api/ps", path=str(model_file)) == found


def test_a_digest_that_takes_long_is_shown_as_zeros_and_told_later(
    model_file, monkeypatch
):
    monkeypatch.setattr(handlers, "DIGEST_WAIT_S", 0.01)
    may_go_on = threading.Event()
    real = digest.hash_files

    def slow(files, progress):
        assert may_go_on.wait(10)
        return real(files, progress)

    monkeypatch.setattr(digest, "hash_files", slow)
    told = []

    async def story(client):
        for _ in range(2):
            answer = await client.send("GET", "/api/tags")
            told.append(json.loads(answer.body)["models"][0]["digest"])
        may_go_on.set()
        monkeypatch.setattr(handlers, "DIGEST_WAIT_S", 10)
        answer = await client.send("GET", "/api/tags")
        told.append(json.loads(answer.body)["models"][0]["digest"])

    talk(story, Script(), path=str(model_file))
    found = hashlib.sha256(model_file.read_bytes()).hexdigest()
    assert told == ["0" * 64, "0" * 64, found]


def test_a_model_file_that_went_away_is_shown_with_zeros(tmp_path):
    assert digest_told("/api/tags", path=str(tmp_path / "gone.gguf")) == "0" * 64


def test_show_of_a_file_that_cannot_be_read_is_an_error_and_not_a_crash(model_file):
    found = error(post("/api/show", {"model": "tiny"}, path=str(model_file)), 500)
    assert "header" in found


# --- Managing -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/api/push", "/api/create", "/api/copy", "/api/blobs/sha256:1"],
)
def test_models_are_not_managed_over_http(path):
    found = error(post(path, {"model": "tiny"}), 403)
    assert found.startswith(f"{path} is refused")
    assert "tiny:latest" in found
    assert "`kinetic pull`" in found


@pytest.mark.parametrize(
    "named",
    [
        {"model": "tiny"},
        {"name": "tiny"},
        {"model": "Tiny:latest"},
        {"model": "library/tiny"},
        {"model": "tiny-Q4_K_M.gguf", "insecure": True},
    ],
)
def test_the_served_model_is_pulled_at_once(named):
    streamed = lines(post("/api/pull", named))
    assert streamed == [{"status": "pulling manifest"}, {"status": "success"}]
    assert streamed == lines(post("/api/pull", {**named, "stream": True}))
    whole = post("/api/pull", {**named, "stream": False})
    assert whole.status == 200
    assert whole.headers["Content-Type"].startswith("application/json")
    assert json.loads(whole.body) == {"status": "success"}


@pytest.mark.parametrize("more", [{}, {"stream": True}, {"stream": False}])
def test_no_other_model_is_pulled(more):
    found = error(post("/api/pull", {"model": "other", **more}), 403)
    assert found.startswith('"other" is not pulled: this server serves only tiny')
    assert "`kinetic pull`" in found


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "model is required"),
        ({"model": ""}, "model is required"),
        ({"model": 5}, "model must be a string"),
        ({"model": "tiny", "stream": "no"}, "stream must be true or false"),
        ("", "missing request body"),
        ("{", "not valid JSON"),
    ],
)
def test_a_pull_that_names_nothing_is_refused(body, words):
    assert words in error(post("/api/pull", body), 400)


def test_models_are_not_deleted_and_blobs_are_not_there():
    error(ask("DELETE", "/api/delete", {"model": "tiny"}), 403)
    answer = ask("HEAD", "/api/blobs/sha256:1")
    assert (answer.status, answer.body) == (404, b"")


# --- Who may ask --------------------------------------------------------------------

PATHS = [path.replace("(.+)", "x") for path, _ in ROUTES]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "chrome-extension://abc", "file://"]
)
def test_a_foreign_page_is_refused_before_any_work(path, origin):
    script = Script()
    for method in ("GET", "POST", "OPTIONS", "DELETE"):
        headers = {"Origin": origin}
        answer = ask(method, path, "{}", script=script, headers=headers)
        # A body that nobody reads may close the connection, never be looked at.
        assert "--cors-origin" in error(answer, 403)
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert script.requests == []


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost:3000",
        "http://127.0.0.1",
        "app://obsidian.md",
        "tauri://localhost",
        "vscode-webview://1a2b",
    ],
)
def test_pages_of_this_computer_may_ask_and_errors_carry_the_headers_too(origin):
    answer = post("/api/chat", HI, headers={"Origin": origin})
    assert answer.status == 200
    assert answer.headers["Access-Control-Allow-Origin"] == origin
    answer = post("/api/chat", {**HI, "model": "x"}, headers={"Origin": origin})
    assert answer.status == 404
    assert answer.headers["Access-Control-Allow-Origin"] == origin
    headers = {"Origin": origin, "Access-Control-Request-Headers": "authorization, x-y"}
    answer = ask("OPTIONS", "/api/chat", headers=headers)
    assert answer.status == 204
    assert answer.headers["Access-Control-Allow-Headers"] == "authorization, x-y"


def test_keys_are_asked_for_where_there_are_some():
    options = {"api_keys": ("secret",)}
    error(post("/api/chat", HI, options=options), 401)
    headers = {"Authorization": "Bearer secret"}
    assert post("/api/chat", HI, options=options, headers=headers).status == 200


def test_a_wrong_method_names_the_right_ones():
    answer = ask("GET", "/api/chat")
    error(answer, 405)
    assert answer.headers["Allow"] == "POST, OPTIONS"


def test_an_unknown_path_below_api_answers_in_ollamas_shape():
    assert "did you mean /api/chat?" in error(post("/api/chats", HI), 404)
    error(ask("GET", "/api/me"), 404)
