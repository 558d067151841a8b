"""Running receipts again on a server that has the model loaded already.

What is found out here is the word of that server: it is asked for the same answer with
a receipt of its own, and the two are compared. Whose server it is matters as much as
whose receipt.
"""

from __future__ import annotations

import http.client
import json
import math
from dataclasses import fields
from typing import Any, Final, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from kinetic import __version__
from kinetic.errors import ReceiptError
from kinetic.proof.follow import first_difference
from kinetic.receipts import reading, schema
from kinetic.receipts.compare import tokens_to_draw
from kinetic.receipts.record import EngineIdentity, ModelIdentity, Receipt
from kinetic.receipts.verify import Difference, Rerun
from kinetic.types import ChatInput, SamplingParams, TextInput

TIMEOUT_S: Final = 600.0
"""How long the server may say nothing: it answers when the whole answer is made."""
SHOWN_CHARS: Final = 300


class RemoteBench:
    """Asks a server. Thread: one.

    Args:
        url: Its address, with or without /v1.
        api_key: Sent as a bearer token.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ReceiptError(f"--url must be an http or https address, not {url}")
        self._url = url.rstrip("/").removesuffix("/v1")
        self._api_key = api_key
        self._opener = build_opener(_NoRedirects())
        self._own: Receipt | None = None  # a receipt that tells who answers

    def find_model(self, wanted: ModelIdentity) -> ModelIdentity | None:  # noqa: ARG002
        """The model that the server says it runs; raises ReceiptError."""
        return self._who().model

    def engine(self, receipt: Receipt) -> EngineIdentity:  # noqa: ARG002
        """What the server says that it runs it by."""
        return self._who().engine

    def rerun(self, receipt: Receipt) -> Rerun:
        """Have the same answered again.

        Raises ReceiptError when the server refuses, or renders another prompt: it
        cannot be told which time its template is to take for the present.
        """
        path, body = request_of(receipt)
        theirs = self._receipt(path, body)
        recorded = receipt.output.tokens
        if theirs.request.prompt_tokens != receipt.request.prompt_tokens:
            raise ReceiptError(
                "the server comes to another prompt: its template may print the time,"
                " or be another one; verify with --model instead"
            )
        drawn = theirs.output.tokens
        at = first_difference(recorded, list(drawn))
        if at is None:
            return Rerun(
                prompt_tokens=theirs.request.prompt_tokens, output=theirs.output
            )
        return Rerun(
            prompt_tokens=theirs.request.prompt_tokens,
            difference=Difference(
                at=at,
                recorded=str(recorded[at]) if at < len(recorded) else "none",
                drawn=str(drawn[at]),
            ),
        )

    def _who(self) -> Receipt:
        if self._own is None:
            body = {"prompt": "Hi", "n_predict": 0, "receipt": True}
            self._own = self._receipt("/completion", body)
        return self._own

    def _receipt(self, path: str, body: dict[str, Any]) -> Receipt:
        answer = self._post(path, body)
        try:
            (found,) = reading.receipts_in(answer)
            return schema.read(found).receipt
        except (ReceiptError, ValueError) as error:
            raise ReceiptError(
                f"{self._url} gives no receipt that can be read: {error}"
            ) from error

    def _post(self, path: str, body: dict[str, Any]) -> bytes:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"kinetic/{__version__}",
        }
        if self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        data = json.dumps(body, allow_nan=False).encode()
        # The scheme was checked to be http or https.
        request = Request(self._url + path, data, headers)  # noqa: S310
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as response:
                found: bytes = response.read(reading.BYTES_MAX + 1)
                return found
        except HTTPError as error:
            self._refused(error)
        except (URLError, OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ReceiptError(f"no answer from {self._url}: {reason}") from error

    def _refused(self, error: HTTPError) -> NoReturn:
        with error:
            said = error.read(SHOWN_CHARS).decode("utf-8", "replace")
        hint = (
            "; --api-key gives a key" if error.code == http.client.UNAUTHORIZED else ""
        )
        raise ReceiptError(
            f"{self._url} answers {error.code}: {said.strip()}{hint}"
        ) from error


class _NoRedirects(HTTPRedirectHandler):
    """A key goes nowhere else than where it was sent."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        """Follow none."""


def request_of(receipt: Receipt) -> tuple[str, dict[str, Any]]:
    """The path and the body that ask for a receipt's answer again."""
    request = receipt.request
    body: dict[str, Any] = {
        **_sampling(request.sampling),
        "max_tokens": tokens_to_draw(receipt),
        "stop": list(request.stops),
        "n_indent": request.min_indent,
        "ignore_eos": request.ignore_eos,
        "receipt": True,
    }
    spec = request.constraint
    if spec is not None and spec.kind == "gbnf":
        body["grammar"] = spec.source
    elif spec is not None and spec.kind == "json_schema":
        body["json_schema"] = json.loads(spec.source)
    elif spec is not None:
        body["response_format"] = {"type": "json_object"}
    inputs = request.inputs
    if isinstance(inputs, ChatInput):
        return "/v1/chat/completions", {**body, **_chat(inputs)}
    # The native route has the wider ranges, no name for JSON mode, and takes a schema
    # of nothing for any object.
    is_openai = "response_format" in body or body.get("json_schema") == {}
    path = "/v1/completions" if is_openai else "/completion"
    return path, {**body, "prompt": _prompt(inputs)}


def _sampling(sampling: SamplingParams) -> dict[str, Any]:
    """Every value under its own name, which is the field's too."""
    found = {f.name: getattr(sampling, f.name) for f in fields(SamplingParams)}
    found["logit_bias"] = [
        [token, False if bias == -math.inf else bias]
        for token, bias in sampling.logit_bias
    ]
    for name in ("samplers", "dry_sequence_breakers"):
        found[name] = list(found[name])
    return found


def _prompt(inputs: TextInput) -> str | list[int | str]:
    return inputs.prompt if isinstance(inputs.prompt, str) else list(inputs.prompt)


def _chat(inputs: ChatInput) -> dict[str, Any]:
    choice: Any = inputs.tool_choice
    if choice == "function":
        choice = {"type": "function", "function": {"name": inputs.function_name}}
    found: dict[str, Any] = {
        "messages": list(inputs.messages),
        "chat_template_kwargs": dict(inputs.template_kwargs),
        "reasoning_format": "auto" if inputs.split_reasoning else "none",
    }
    if inputs.tools:
        found["tools"] = list(inputs.tools)
        found["tool_choice"] = choice
        found["parallel_tool_calls"] = inputs.parallel_tool_calls
    return found
