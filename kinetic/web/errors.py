"""Errors as HTTP: the only module that knows statuses. One body shape per API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kinetic.config import MIB
from kinetic.errors import (
    ContextExceeded,
    KineticError,
    ModelNotFound,
    Overloaded,
    ReaderTooSlow,
    RequestError,
    ShuttingDown,
    UnsupportedFeature,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

TOO_LONG_CODE = "context_length_exceeded"


@dataclass(kw_only=True, eq=False)
class HttpError(Exception):
    """An error with everything that any API's body needs.

    Not frozen, alone of all our data: Python itself writes tracebacks into it.
    """

    status: int
    message: str
    kind: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the error object, such as both numbers of a long prompt."""
    headers: Mapping[str, str] = field(default_factory=dict)


def to_http(error: BaseException) -> HttpError:
    """What an error means to a client; unknown ones are a 500 without details."""
    match error:
        case HttpError():
            return error
        case ContextExceeded():
            return HttpError(
                status=400,
                message=str(error),
                kind="exceed_context_size_error",
                param=error.param,
                code=TOO_LONG_CODE,
                extra={"n_prompt_tokens": error.n_prompt, "n_ctx": error.n_ctx},
            )
        case ModelNotFound():
            return HttpError(
                status=404,
                message=str(error),
                kind="not_found_error",
                param=error.param,
                code="model_not_found",
            )
        case UnsupportedFeature():
            return HttpError(
                status=400,
                message=str(error),
                param=error.param,
                code="unsupported",
            )
        case RequestError():
            return HttpError(status=400, message=str(error), param=error.param)
        case Overloaded() | ShuttingDown():
            return HttpError(
                status=503,
                message=str(error),
                kind="unavailable_error",
                headers={"Retry-After": "1"},
            )
        case ReaderTooSlow():
            return HttpError(status=408, message=str(error), kind="timeout_error")
        case KineticError():
            return HttpError(status=500, message=str(error), kind="server_error")
        case _:
            return HttpError(
                status=500,
                message="the server failed; its log has the details",
                kind="server_error",
            )


def too_large(limit_bytes: int) -> HttpError:
    """What a client with too large a body is told."""
    most = limit_bytes // MIB
    return HttpError(
        status=413, message=f"the body is larger than {most} MiB (--max-body)"
    )


def no_room(limit: int) -> HttpError:
    """What a client is told while all connections there may be are being answered."""
    return HttpError(
        status=503,
        message=f"{limit} connections are being answered already (--max-connections)",
        kind="unavailable_error",
        headers={"Retry-After": "1"},
    )


def openai_body(error: HttpError) -> dict[str, Any]:
    """The OpenAI shape."""
    return {
        "error": {
            "message": error.message,
            "type": error.kind,
            "param": error.param,
            "code": error.code,
            **error.extra,
        }
    }


OLLAMA_TOO_LONG = "the input length exceeds the context length"
"""Ollama's words, which its clients look for."""


def ollama_body(error: HttpError) -> dict[str, Any]:
    """Ollama's shape: one string."""
    if error.code == TOO_LONG_CODE:
        return {"error": f"{OLLAMA_TOO_LONG}: {error.message}"}
    return {"error": error.message}
