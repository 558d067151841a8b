"""Clients that go away at any moment free their slots and disturb nobody."""

from __future__ import annotations

import itertools
import json
import random
import re
import socket
import threading
import time

import httpx
import pytest

SECONDS = 60
IDLE_LIMIT_S = 60
ASKED = {
    "messages": [{"role": "user", "content": "Name three rivers and say why."}],
    "max_tokens": 24,
    "temperature": 1.0,
    "seed": 42,
    "logprobs": True,
    "top_logprobs": 2,
}


def answer(server):
    """The reference request's choice, log-probabilities included."""
    url = f"{server.root}/v1/chat/completions"
    found = httpx.post(url, json=ASKED, timeout=300)
    assert found.status_code == 200
    return found.json()["choices"]


def wait_idle(server):
    """Wait until every slot is idle again, and say how long that took."""
    began = time.monotonic()
    pause = threading.Event()
    while time.monotonic() - began < IDLE_LIMIT_S:
        health = httpx.get(f"{server.root}/health", timeout=30).json()
        if health["slots_processing"] == 0:
            return time.monotonic() - began
        pause.wait(0.05)
    pytest.fail(f"slots stay busy: {health}")


def request_bytes(rng, server):
    """A request of some kind, as it goes over the wire."""
    words = " ".join(str(rng.random()) for _ in range(rng.choice([1, 10, 60])))
    body = {
        "messages": [{"role": "user", "content": words}],
        "max_tokens": rng.choice([1, 8, 400]),
        "stream": rng.random() < 0.6,
        "n": rng.choice([1, 1, 1, 3]),
    }
    data = json.dumps(body).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{server.port}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def vanish(rng, server):
    """Send a request, or a part of one, read a while, and go away."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        data = request_bytes(rng, server)
        if rng.random() < 0.2:
            client.sendall(data[: rng.randrange(len(data))])
            return
        client.sendall(data)
        client.settimeout(rng.choice([0.01, 0.1, 0.5, 1.5]))
        try:
            for _ in range(rng.choice([0, 1, 5])):
                if not client.recv(rng.choice([1, 1000])):
                    return
        except TimeoutError:
            pass
        if rng.random() < 0.3:
            # A reset in place of an orderly end.
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 600)
def test_a_minute_of_clients_that_vanish(server):
    expected = answer(server)
    deadline = time.monotonic() + SECONDS
    failures: list[OSError] = []

    def work(seed):
        rng = random.Random(seed)
        while time.monotonic() < deadline and not failures:
            try:
                vanish(rng, server)
            except OSError as error:
                # The server may close or refuse a connection, never die.
                if not isinstance(error, ConnectionError | TimeoutError):
                    failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    healthy = 0
    while time.monotonic() < deadline:
        found = httpx.get(f"{server.root}/health", timeout=30)
        assert found.status_code in {200, 503}
        healthy += found.status_code == 200
        threading.Event().wait(0.25)
    for thread in threads:
        thread.join(60)
    assert not failures
    assert healthy > 0
    wait_idle(server)
    assert answer(server) == expected


@pytest.mark.parametrize("stream", [False, True])
def test_a_slot_is_free_soon_after_its_client_left(server, stream):
    body = json.dumps(
        {
            "messages": [{"role": "user", "content": "Count to one thousand."}],
            "max_tokens": 1500,
            "ignore_eos": True,
            "stream": stream,
        }
    ).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        pause = threading.Event()
        for _ in range(600):
            health = httpx.get(f"{server.root}/health", timeout=30).json()
            if health["slots_processing"] == 1:
                break
            pause.wait(0.05)
        assert health["slots_processing"] == 1
    # 1,500 tokens take far longer than this; a pass takes milliseconds.
    assert wait_idle(server) < 10


def test_the_log_tells_what_was_made_for_a_client_that_left(server):
    url = f"{server.root}/v1/completions"
    body = {"prompt": "Once upon a time, in a land far away", "max_tokens": 900}
    httpx.post(url, json={**body, "max_tokens": 1}, timeout=60)
    wait_idle(server)
    with httpx.stream("POST", url, json={**body, "stream": True}, timeout=60) as answer:
        name = answer.headers["x-request-id"]
        seen = sum(1 for line in itertools.islice(answer.iter_lines(), 40) if line)
    line = server.wait_for_log(f"{name} ends")
    found = re.search(r"client gone, cached tokens (\d+), answer tokens (\d+)", line)
    assert found, line
    assert int(found[1]) > 5
    assert seen - 1 <= int(found[2]) < 900
