"""Keys, origins and paths on every route, over real sockets."""

import logging

import pytest

from kinetic.web.http import body as json_body
from kinetic.web.routes import all_routes
from tests.support.raw_http import exchange, request
from tests.support.web_app import Script, talk

PATHS = sorted({path for path, _ in all_routes() if "(" not in path})
PUBLIC = {path for path, handler in all_routes() if handler.is_public}
KEYS = ("K", "sk-Bearer x", "clé")
APP = "https://app.example"


def ask(*requests, has_body=True, **options):
    """The answers to requests, each on a connection of its own."""
    answers = []

    async def story(client):
        answers.extend(
            [await exchange(client.url, data, has_body=has_body) for data in requests]
        )

    script = Script()
    talk(story, script, options=options)
    assert script.cancelled == []
    return answers


def get(path, **headers):
    return request(
        "GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


def post(path, body=b"{}", **headers):
    fields = {k.replace("_", "-"): v for k, v in headers.items()}
    return request("POST", path, body, fields)


# --- Keys ---------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_every_route_but_health_asks_for_the_key_before_it_reads_anything(path):
    tries = [
        get(path),
        post(path),
        post(path, b"{broken"),
        post(path, Authorization="Bearer wrong"),
    ]
    for answer in ask(*tries, api_keys=KEYS):
        if path in PUBLIC:
            assert answer.status in {200, 405}
            continue
        assert answer.status == 401, answer
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.headers["content-type"].startswith("application/json")
        assert answer.json()["error"]


def test_only_health_is_public():
    assert {path.removeprefix("/v1") for path in PUBLIC} <= {"/health", "/"}


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer K"},
        {"Authorization": "bearer K"},
        {"Authorization": "Bearer  K"},
        {"Authorization": "Bearer K "},
        {"Authorization": "Bearer sk-Bearer x"},
        {"Authorization": "Bearer clé"},
        {"X_Api_Key": "K"},
        {"x_api_key": "clé"},
    ],
)
def test_the_right_key_opens(headers):
    (answer,) = ask(get("/v1/models", **headers), api_keys=KEYS)
    assert answer.status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic SzpL"},
        {"Authorization": "K"},
        {"Authorization": "Bearer k"},
        {"Authorization": "Bearer é"},
        {"Authorization": "Bearer " + "K" * 100_000},
        {"X_Api_Key": "wrong"},
    ],
)
def test_a_wrong_key_is_a_401_with_an_authentication_error(headers):
    (answer,) = ask(get("/v1/models", **headers), api_keys=KEYS)
    assert answer.status == 401
    error = answer.json()["error"]
    assert error["type"] == "authentication_error"
    assert error["code"] == "invalid_api_key"


def test_a_key_in_the_address_is_no_key():
    (answer,) = ask(get("/v1/models?api_key=K&key=K"), api_keys=KEYS)
    assert answer.status == 401


def test_two_authorization_headers_are_none():
    twice = get("/v1/models", Authorization="Bearer K\r\nAuthorization: Bearer K")
    (answer,) = ask(twice, api_keys=KEYS)
    assert answer.status in {400, 401}


def test_keys_are_never_logged(caplog):
    caplog.set_level(logging.DEBUG)
    ask(
        get("/v1/models", Authorization="Bearer secret-key"),
        get("/v1/models", Authorization="Bearer other-key"),
        api_keys=("secret-key",),
    )
    assert "secret-key" not in caplog.text
    assert "other-key" not in caplog.text


def test_an_unknown_path_asks_for_the_key_first():
    without, with_key = ask(
        get("/nope"), get("/nope", Authorization="Bearer K"), api_keys=KEYS
    )
    assert without.status == 401
    assert with_key.status == 404


# --- Origins ------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PATHS, "/nope"])
def test_a_preflight_of_an_allowed_page_is_answered_on_every_route_without_a_key(path):
    asked = "authorization, content-type, x-stainless-os"
    preflight = request(
        "OPTIONS",
        path,
        headers={
            "Origin": APP,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": asked,
        },
    )
    (answer,) = ask(preflight, api_keys=KEYS, cors_origins=(APP,))
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == APP
    assert answer.headers["access-control-allow-headers"] == asked
    assert "Origin" in answer.headers["vary"]
    assert "OPTIONS" in answer.headers["access-control-allow-methods"]
    assert answer.body == b""


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "chrome-extension://abc"]
)
@pytest.mark.parametrize("method", ["OPTIONS", "GET", "POST"])
def test_other_pages_get_a_403_that_names_the_setting_and_no_permission(origin, method):
    for answer in ask(
        *(request(method, path, headers={"Origin": origin}) for path in PATHS)
    ):
        assert answer.status == 403
        assert b"--cors-origin" in answer.body
        assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("origin", ["http://localhost:3000", APP])
def test_answers_errors_and_streams_carry_the_origin(origin):
    chat = b'{"messages":[{"role":"user","content":"hi"}],"stream":true}'
    tries = [
        get("/v1/models", Origin=origin),
        get("/nope", Origin=origin),
        post("/v1/chat/completions", b"{", Origin=origin),
        post("/v1/chat/completions", chat, Origin=origin),
        get("/v1/chat/completions", Origin=origin),
    ]
    answers = ask(*tries, cors_origins=(APP,))
    assert [answer.status for answer in answers] == [200, 404, 400, 200, 405]
    for answer in answers:
        assert answer.headers["access-control-allow-origin"] == origin
        assert "Origin" in answer.headers["vary"]


def test_a_401_carries_the_origin_so_that_the_page_can_read_it():
    (answer,) = ask(get("/v1/models", Origin=APP), api_keys=KEYS, cors_origins=(APP,))
    assert answer.status == 401
    assert answer.headers["access-control-allow-origin"] == APP


def test_private_networks_are_allowed_when_a_preflight_asks():
    preflight = request(
        "OPTIONS",
        "/v1/models",
        headers={"Origin": APP, "Access-Control-Request-Private-Network": "true"},
    )
    (answer,) = ask(preflight, cors_origins=(APP,))
    assert answer.headers["access-control-allow-private-network"] == "true"


@pytest.mark.parametrize("path", PATHS)
def test_a_foreign_host_is_refused_on_a_loopback_address(path):
    (answer,) = ask(request("GET", path, host="evil.example"))
    assert answer.status == 403
    assert b"--host" in answer.body


# --- Paths and methods --------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("/v1//chat/completions", "/v1/chat/completions"),
        ("//v1/models", "/v1/models"),
        ("/V1/models", "/v1/models"),
        ("/v1/chat/completion", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
    ],
)
def test_a_near_path_is_a_404_that_names_the_right_one(path, right):
    (answer,) = ask(post(path))
    assert answer.status == 404
    assert answer.json()["error"]["message"].endswith(f"did you mean {right}?")


@pytest.mark.parametrize(
    "path",
    ["/v1/../v1/models", "/%2e%2e/etc/passwd", "/v1/%2e%2e/models", "/nope", "/v1"],
)
def test_any_other_path_is_a_json_404(path):
    (answer,) = ask(get(path))
    assert answer.status == 404
    assert answer.json()["error"]["type"] == "not_found_error"


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/chat/completions", "/v1/completions"]
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_a_wrong_method_is_a_405_that_allows_the_right_ones(path, method):
    (answer,) = ask(request(method, path))
    assert answer.status == 405
    assert answer.headers["allow"] == "POST, OPTIONS"
    assert "POST" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/models", "/models", "/health", "/v1/health"])
def test_head_is_get_without_the_body(path):
    (full,) = ask(get(path))
    (head,) = ask(request("HEAD", path), has_body=False)
    assert head.status == full.status == 200
    assert head.headers["content-length"] == str(len(full.body))
    (wrong,) = ask(post(path))
    assert wrong.status == 405
    assert wrong.headers["allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/v1/receipts/key"])
@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}])
def test_a_method_that_is_not_served_comes_before_the_bodys_type(path, headers):
    (wrong,) = ask(request("POST", path, b"", {"Content-Length": "0", **headers}))
    assert wrong.status == 405
    assert wrong.headers["allow"] == "GET, HEAD, OPTIONS"


def test_a_body_of_too_many_fields_is_refused():
    fields = ",".join(f'"zq{i}": 0' for i in range(json_body.MAX_FIELDS))
    body = '{"messages": [{"role": "user", "content": "hi"}], ' + fields + "}"
    for path in ("/v1/chat/completions", "/completion", "/api/chat"):
        (wrong,) = ask(post(path, body.encode()))
        assert wrong.status == 400
        assert f"at most {json_body.MAX_FIELDS}" in wrong.body.decode()


def test_options_without_an_origin_tells_the_methods():
    (answer,) = ask(request("OPTIONS", "/v1/completions"))
    assert answer.status == 204
    assert answer.headers["allow"] == "POST, OPTIONS"


def test_a_model_is_found_by_its_name_and_no_other():
    known, other = ask(get("/v1/models/tiny"), get("/v1/models/gpt-4"))
    assert known.json()["id"] == "tiny"
    assert other.status == 404
    assert other.json()["error"]["code"] == "model_not_found"


def test_a_model_of_another_kind_is_told_which_endpoint_to_use():
    answers = []

    async def story(client):
        body = b'{"messages":[{"role":"user","content":"hi"}]}'
        answers.append(await exchange(client.url, post("/v1/chat/completions", body)))

        for path in ("/v1/chat/completions", "/v1/completions", "/v1/prefill"):
            answer = await exchange(client.url, post(path, b'{"input":"x"}'))
            answers.append(answer)

    talk(story, Script(), kind="embedding")
    for answer in answers:
        assert answer.status == 400
        assert "/v1/embeddings" in answer.json()["error"]["message"]
