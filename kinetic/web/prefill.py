"""POST /v1/prefill: run a prompt while its last word is still being written."""

from __future__ import annotations

import time
from dataclasses import replace

from kinetic.actors.messages import Failed, Finished, Job, PromptMoved
from kinetic.web.base import ApiHandler
from kinetic.web.http import body as json_body
from kinetic.web.openai import schema


class PrefillHandler(ApiHandler):
    """Takes a chat completion's body; only messages, tools and template matter."""

    id_prefix = "prefill-"

    async def post(self) -> None:
        """Answer when the prompt is run, or as soon as anybody else comes."""
        self.service.check_kind("text")
        arrival = schema.Arrival(request_id=self.request_id, arrived_s=time.monotonic())
        body = self.request.body

        def prepare() -> tuple[Job, ...]:
            named = json_body.parse(body)
            kept = {name: named[name] for name in _FIELDS if name in named}
            asked = schema.read_chat(kept, self.service.facts, arrival)
            request = replace(asked.request, prefill=True, progress=True)
            return self.service.builder.build(request)

        jobs = await self.service.run(prepare)
        n_done = 0
        if jobs:
            with self.open_stream(jobs, streamed=False) as stream:
                while events := await stream.read():
                    for event in events:
                        if isinstance(event, Failed):
                            raise event.error
                        if isinstance(event, PromptMoved):
                            n_done = event.n_done
                        if isinstance(event, Finished):
                            break
        self.send_json({"object": "prefill", "cached_tokens": n_done})


_FIELDS = (
    "messages",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "chat_template_kwargs",
    "enable_thinking",
    "reasoning_effort",
    "thinking",
)
"""What shapes a prompt; everything else of a chat completion is of no matter here."""

ROUTES = [("/v1/prefill", PrefillHandler), ("/prefill", PrefillHandler)]
