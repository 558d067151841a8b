"""Keys, origins, hosts and content types, as pure decisions over headers."""

import pytest

from kinetic.web import guard

# --- Keys ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authorization", "x_api_key", "key"),
    [
        ("Bearer K", None, "K"),
        ("bearer K", None, "K"),
        ("BEARER K", None, "K"),
        ("Bearer  K", None, "K"),
        ("Bearer K ", None, "K"),
        ("Bearer sk-Bearer x", None, "sk-Bearer x"),
        ("Bearer", None, None),
        ("Bearer ", None, None),
        ("", None, None),
        ("Basic SzpL", None, None),
        ("K", None, None),
        ("BearerK", None, None),
        (None, None, None),
        (None, "K", "K"),
        (None, " K ", "K"),
        (None, "", None),
        ("Basic SzpL", "K", None),
        ("Bearer other", "K", "other"),
    ],
)
def test_the_key_is_read_from_its_header(authorization, x_api_key, key):
    assert guard.key_given(authorization, x_api_key) == key


KEYS = ("first", "sk-Bearer x", "clé")


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("first", True),
        ("sk-Bearer x", True),
        # As header text arrives: UTF-8 bytes read as latin-1.
        ("clé".encode().decode("latin-1"), True),
        ("firs", False),
        ("first ", False),
        ("First", False),
        ("x", False),
        ("", False),
        (None, False),
        ("k" * 100_000, False),
        ("\u20ac", False),
    ],
)
def test_only_whole_keys_are_known(given, known):
    assert guard.is_known_key(given, KEYS) is known


# --- Origins and hosts --------------------------------------------------------------


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost",
        "http://localhost:3000",
        "https://127.0.0.1:8443",
        "http://[::1]:5173",
        "http://app.localhost",
        "HTTP://LOCALHOST",
        "http://127.8.9.1",
        "http://[0:0:0:0:0:0:0:1]",
        "http://[::ffff:127.0.0.1]:8080",
        "http://localhost.",
        "https://A.B.LOCALHOST:65535",
    ],
)
def test_pages_of_this_computer_are_allowed(origin):
    assert guard.is_allowed_origin(origin, ())


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "",
        "http://localhost.evil.example",
        "http://evil.example/localhost",
        "http://localhost@evil.example",
        "http://127.0.0.1.evil.example",
        "chrome-extension://abc",
        "file://",
        "http://localhost:x",
        "http://[::1",
        "http://192.168.0.5",
        "http://0.0.0.0",
        "http://localhost/page",
        "http://localhost?x",
        "http://localhost#x",
        "http://[::1].evil.example",
        "http://[::1]evil",
        "http://[::1]]",
        "http://[[::1]",
        "http://[::1%25lo]",
        "http://[::1%lo]",
        "http://[::ffff:8.8.8.8]",
        "http://[localhost]",
        "http://::1",
        "http://localhost@",
        "http://:x@localhost",
        "http://localhost:65536",
        "http://localhost:-1",
        "http://localhost:080x",
        "http://localhost..",
        "http://127.1",
        "http://0x7f.1",
        "http://2130706433",
        "http://0177.0.0.1",
        "http://127.0.0.01",
        "http://local%68ost",
        "http://localhost%00.evil.example",
        "http://localhost\\.evil.example",
        "http://localhost\tevil.example",
        "http://loca\u017fthost",
        "http:///localhost",
        "http:localhost",
        "://localhost",
        "localhost",
        "http://",
        "http://evil.example http://localhost",
        "http://localhost, http://evil.example",
        "ftp://localhost",
    ],
)
def test_other_pages_are_not(origin):
    assert not guard.is_allowed_origin(origin, ())


def test_named_origins_are_compared_whole():
    allowed = ("https://app.example", "chrome-extension://abc")
    for origin in (
        "https://app.example",
        "https://app.example:443",
        "HTTPS://APP.example",
        "chrome-extension://abc",
    ):
        assert guard.is_allowed_origin(origin, allowed)
    for origin in (
        "http://app.example",
        "https://app.example:8443",
        "https://www.app.example",
        "https://app.example.evil",
        "chrome-extension://abcd",
        "null",
    ):
        assert not guard.is_allowed_origin(origin, allowed)


def test_a_star_allows_every_origin():
    assert guard.is_allowed_origin("null", ("*",))
    assert guard.is_allowed_origin("https://evil.example", ("*",))


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8080",
        "127.0.0.1:8080",
        "[::1]:8080",
        "LOCALHOST",
        "localhost.",
        "localhost:",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]:8080",
        None,
    ],
)
def test_hosts_of_this_computer_fit_a_loopback_server(host):
    assert guard.is_allowed_host(host, bound_to="127.0.0.1")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "192.168.0.5",
        "user@localhost",
        "localhost/x",
        "",
        "localhost:x",
        "localhost:65536",
        "localhost..",
        "[::1].evil.example",
        "[::1]evil",
        "[::1]]",
        "[::1%25lo]",
        "::1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "local%68ost",
        "http://localhost",
        "//localhost",
        "localhost#x",
        "localhost,evil.example",
    ],
)
def test_other_hosts_do_not(host):
    assert not guard.is_allowed_host(host, bound_to="127.0.0.1")
    assert not guard.is_allowed_host(host, bound_to="localhost")


def test_a_server_for_others_takes_any_host():
    assert guard.is_allowed_host("box.lan", bound_to="0.0.0.0")


@pytest.mark.parametrize("bound_to", ["127.0.0.1", "::1", "0.0.0.0", "192.168.0.5"])
def test_hosts_allowed_by_name_are_taken_and_then_no_other_is(bound_to):
    allowed = ("llm.example.com", "2001:db8::1", "10.0.0.7")
    for host in (
        "llm.example.com",
        "LLM.example.com.:8443",
        "[2001:DB8:0::1]:80",
        "10.0.0.7:8080",
        "localhost:8080",
    ):
        assert guard.is_allowed_host(host, bound_to=bound_to, allowed=allowed)
    for host in (
        "evil.example",
        "x.llm.example.com",
        "llm.example.com.evil",
        "10.0.0.8",
    ):
        assert not guard.is_allowed_host(host, bound_to=bound_to, allowed=allowed)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("LLM.example.com", "llm.example.com"),
        ("llm.example.com.", "llm.example.com"),
        ("host.docker.internal", "host.docker.internal"),
        ("ollama_1", "ollama_1"),
        ("10.0.0.7", "10.0.0.7"),
        ("2001:DB8::0:1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("llm.example.com:8080", None),
        ("https://llm.example.com", None),
        ("llm.example.com/x", None),
        ("*.example.com", None),
        ("*", None),
        ("a,b", None),
        ("", None),
    ],
)
def test_a_hosts_name_is_read_as_hosts_are_compared(text, name):
    assert guard.host_name(text) == name


# --- Content types ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content_type", "is_json"),
    [
        ("application/json", True),
        ("Application/JSON ; charset=utf-8", True),
        ("application/vnd.api+json", True),
        ("text/plain", False),
        ("text/plain; application/json", False),
        ("", False),
        (None, False),
    ],
)
def test_json_bodies_are_known_by_their_type(content_type, is_json):
    assert guard.is_json(content_type) is is_json
