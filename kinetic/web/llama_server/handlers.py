"""The handlers of llama-server's own routes: read, have it answered, write."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kinetic.web.answering import Reply, answer
from kinetic.web.base import ApiHandler
from kinetic.web.errors import HttpError
from kinetic.web.http import body as json_body
from kinetic.web.llama_server import describe, schema
from kinetic.web.llama_server.render import CompletionWriter, Style
from kinetic.web.openai.schema import Arrival, read_chat

if TYPE_CHECKING:
    from kinetic.types import ChatInput

_STARTED_AT = int(time.time())


class NativeHandler(ApiHandler):
    """Base of these routes: bodies of any content type, llama-server's errors.

    A foreign browser origin is refused before the body is read, as everywhere.
    """

    needs_json = False

    def error_body(self, error: HttpError) -> dict[str, Any]:
        """An error in llama-server's shape: the status as a number, then the text."""
        return {
            "error": {
                "code": error.status,
                "message": error.message,
                "type": error.kind,
                **error.extra,
            }
        }

    def check_kind(self, kind: str) -> None:
        """Raise a 400 that names the right route unless the model serves this.

        llama-server answers 501 here; all three APIs of ours say 400.
        """
        self.service.check_kind(kind)


def not_supported(message: str) -> HttpError:
    """What llama-server answers where a route is switched off."""
    return HttpError(status=501, message=message, kind="not_supported_error")


class CompletionHandler(NativeHandler):
    """POST /completion: continues a prompt."""

    id_prefix = "completion-"

    async def post(self) -> None:
        """Answer a request, streamed or whole."""
        self.check_kind("text")
        arrived_s = time.monotonic()
        facts, body = self.service.facts, self.request.body

        def read() -> Reply:
            asked = schema.read_completion(
                json_body.parse(body),
                facts,
                request_id=self.request_id,
                arrived_s=arrived_s,
            )
            style = Style(
                model=self.service.info.id,
                stream=asked.stream,
                is_list=asked.is_list,
                return_tokens=asked.return_tokens,
                return_progress=asked.return_progress,
                timings_per_token=asked.timings_per_token,
                response_fields=asked.response_fields,
            )
            return Reply(
                request=asked.request,
                streamed=asked.stream,
                writer=lambda jobs: CompletionWriter(
                    style, jobs, facts.detokenize, facts.ends
                ),
                silence_s=asked.ping_s,
            )

        await answer(self, read)


class TokenizeHandler(NativeHandler):
    """POST /tokenize: text to token ids."""

    async def post(self) -> None:
        """Tokenise, off the loop."""
        body = self.request.body

        def work() -> list[Any]:
            asked = schema.read_tokenize(json_body.parse(body))
            tokens = self.service.builder.tokenize(
                asked.content,
                add_special=asked.add_special,
                parse_special=asked.parse_special,
            )
            if not asked.with_pieces:
                return tokens
            return [{"id": token, "piece": self._piece(token)} for token in tokens]

        self.send_json({"tokens": await self.service.run(work)})

    def _piece(self, token: int) -> str | list[int]:
        piece = self.service.facts.piece(token)
        try:
            return piece.decode()
        except UnicodeDecodeError:
            # Part of a character has no place in a string.
            return list(piece)


class DetokenizeHandler(NativeHandler):
    """POST /detokenize: token ids to text."""

    async def post(self) -> None:
        """Join the tokens, off the loop."""
        body, facts = self.request.body, self.service.facts

        def work() -> str:
            tokens = schema.read_detokenize(json_body.parse(body), facts)
            return facts.detokenize(tokens).decode("utf-8", "replace")

        self.send_json({"content": await self.service.run(work)})


class ApplyTemplateHandler(NativeHandler):
    """POST /apply-template: a conversation as the model would read it."""

    async def post(self) -> None:
        """Render without answering; takes the body of a chat completion."""
        self.check_kind("text")
        body = self.request.body

        def work() -> str:
            asked = read_chat(
                json_body.parse(body),
                self.service.facts,
                Arrival(request_id="", arrived_s=0.0),
            )
            inputs: ChatInput = asked.request.inputs[0]  # type: ignore[assignment]
            return self.service.builder.chat_text(inputs)

        self.send_json({"prompt": await self.service.run(work)})


class PropsHandler(NativeHandler):
    """GET /props: the model, its defaults and how it is run."""

    def get(self) -> None:
        """Tell."""
        most = self.service.options.max_tokens
        self.send_json(describe.props(self.service.info, max_tokens=most))

    def post(self) -> None:
        """Nothing can be changed while the server runs."""
        raise not_supported("properties cannot be changed: restart with other flags")


class SlotsHandler(NativeHandler):
    """GET /slots: what each slot does or last did."""

    def get(self) -> None:
        """Tell; with fail_on_no_slot, a 503 where none is idle."""
        service = self.service
        view = service.actors.view
        if self.get_query_argument("fail_on_no_slot", "") and view.n_idle == 0:
            raise HttpError(
                status=503,
                message="no slot is idle",
                kind="unavailable_error",
                headers={"Retry-After": "1"},
            )
        shows = service.options.show_prompts
        found = describe.slots(
            view.slots,
            service.info,
            detokenize=service.facts.detokenize if shows else None,
        )
        self.send_json(found)


class SlotHandler(NativeHandler):
    """POST /slots/{id}: save, restore and erase, which llama-server can be told."""

    def post(self, slot_id: str = "") -> None:
        """A slot's memory belongs to the server."""
        raise not_supported(
            f"slot {slot_id} cannot be saved, restored or erased: what slots keep is"
            " reused by itself"
        )


class MetricsHandler(NativeHandler):
    """GET /metrics: Prometheus text; always on."""

    is_vital = True

    def get(self) -> None:
        """Render the published view; no actor is asked."""
        page = self.service.actors.metrics_page()
        self.set_header("Content-Type", "text/plain; version=0.0.4")
        self.set_header("Process-Start-Time-Unix", str(_STARTED_AT))
        self.write(page)


class LoraAdaptersHandler(NativeHandler):
    """GET and POST /lora-adapters: there are none."""

    def get(self) -> None:
        """List them."""
        self.send_json([])

    def post(self) -> None:
        """Scales can be set for none."""
        if self.request.body.strip() not in {b"", b"[]"}:
            raise not_supported("no adapters are served")
        self.send_json({"success": True})


class InfillHandler(NativeHandler):
    """POST /infill: text between a prefix and a suffix."""

    def post(self) -> None:
        """Not served."""
        raise not_supported("infill is not served: use /completion")


ROUTES: list[tuple[str, type[ApiHandler]]] = [
    ("/completion", CompletionHandler),
    ("/completions", CompletionHandler),
    ("/tokenize", TokenizeHandler),
    ("/detokenize", DetokenizeHandler),
    ("/apply-template", ApplyTemplateHandler),
    ("/props", PropsHandler),
    ("/slots", SlotsHandler),
    (r"/slots/(\d+)", SlotHandler),
    ("/metrics", MetricsHandler),
    ("/v1/metrics", MetricsHandler),
    ("/lora-adapters", LoraAdaptersHandler),
    ("/infill", InfillHandler),
]
