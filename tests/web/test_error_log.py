"""Which failures the log tells with a traceback: bugs, and nothing else."""

import json

import pytest

from kinetic.actors.messages import Failed
from kinetic.errors import InternalError, Overloaded, ShuttingDown
from tests.support.raw_http import exchange, request
from tests.support.web_app import Script, talk

HI = {"messages": [{"role": "user", "content": "hi"}]}
ROUTES = [
    ("/v1/chat/completions", HI),
    ("/completion", {"prompt": "hi"}),
    ("/api/generate", {"model": "tiny", "prompt": "hi"}),
]


def failing(error, route, body):
    answers = []

    async def story(client):
        data = request("POST", route, json.dumps(body).encode())
        answers.append(await exchange(client.url, data))

    talk(story, Script([Failed(index=0, error=error)]), options={})
    return answers[0].status


def told(caplog):
    """Errors in our own log; Tornado's of accesses is not written."""
    ours = [r for r in caplog.records if r.name.startswith("kinetic")]
    return [r for r in ours if r.levelname == "ERROR" or r.exc_info]


@pytest.mark.parametrize(("route", "body"), ROUTES)
@pytest.mark.parametrize("error", [Overloaded("full"), ShuttingDown("stopping")])
def test_a_server_that_is_full_or_stops_has_no_bug(error, route, body, caplog):
    assert failing(error, route, body) == 503
    assert not told(caplog)


def test_a_bug_is_told_with_its_traceback(caplog):
    assert failing(InternalError("oh no"), *ROUTES[0]) == 500
    (failure,) = told(caplog)
    assert failure.exc_info
    assert "failed: /v1/chat/completions" in failure.getMessage()
