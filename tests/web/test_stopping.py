"""Stopping waits for requests whose prompts are still being built."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field

import pytest

from kinetic.errors import InternalError
from tests.support.web_app import LIMIT_S, Script, talk

BODY = json.dumps({"messages": [{"role": "user", "content": "Hi"}]})
JSON = {"Content-Type": "application/json"}


@dataclass
class Slow(Script):
    """Builds prompts only when it is let."""

    is_building: threading.Event = field(default_factory=threading.Event)
    may_build: threading.Event = field(default_factory=threading.Event)

    def build(self, request):
        self.is_building.set()
        assert self.may_build.wait(LIMIT_S)
        return super().build(request)


@pytest.mark.parametrize(
    ("refusal", "status"), [(None, 200), (InternalError("boom"), 500)]
)
def test_a_request_whose_prompt_is_built_is_waited_for(refusal, status):
    script = Slow(refusal=refusal)

    async def story(client):
        service = client.service
        assert await service.is_quiet(within_s=LIMIT_S)
        asked = asyncio.create_task(
            client.send("POST", "/v1/chat/completions", BODY, JSON)
        )
        await asyncio.to_thread(script.is_building.wait, LIMIT_S)
        assert not await service.is_quiet(within_s=0.01)
        script.may_build.set()
        assert await service.is_quiet(within_s=LIMIT_S)
        assert (await asked).status == status

    talk(story, script)


def test_requests_that_are_refused_are_not_waited_for():
    async def story(client):
        for path, body in (("/nowhere", BODY), ("/v1/chat/completions", "{")):
            answer = await client.send("POST", path, body, JSON)
            assert answer.status in {400, 404}
            assert await client.service.is_quiet(within_s=LIMIT_S)

    talk(story, Script())
