"""Every error of ours, and whose fault it is.

Only `web/errors.py` knows HTTP statuses and body shapes; here stands what went wrong.

    KineticError
    ├── RequestError            the client: a field is wrong or cannot be served
    │   ├── ContextExceeded     the client: the prompt does not fit
    │   │   └── InputTooLong    the client: a text to embed or to score does not fit
    │   ├── UnsupportedFeature  the client: asks for what this model or server has not
    │   └── ModelNotFound       the client: names a model that is not served
    ├── Overloaded              capacity: the waiting line is full
    ├── ShuttingDown            capacity: the server is stopping
    ├── ReaderTooSlow           the client: does not read what it asked for
    ├── ClientGone              the client: left, so nobody is there to be told
    ├── AddressError            the address to listen on: taken, not ours, or none
    ├── LimitError              the system's limits: too few files may be open
    ├── ModelError              the model file: missing, broken, too big
    ├── ReceiptError            a receipt or a signing key: cannot be read or made
    ├── HubError                the model hub or the network: nothing was fetched
    └── InternalError           a bug of ours, or the engine's
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class KineticError(Exception):
    """Root of all errors that reach a user; the text is fit to be shown."""


class RequestError(KineticError):
    """A request that cannot be served as it is; `param` names the field."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


@contextlib.contextmanager
def about(param: str) -> Iterator[None]:
    """Have errors that go on from a field's name begin with it and name the field."""
    try:
        yield
    except RequestError as error:
        if error.param is not None:
            raise
        raise RequestError(f"{param} {error}", param=param) from error


class ContextExceeded(RequestError):
    """A prompt of `n_prompt` tokens where `n_ctx` is the context's length.

    Clients that shorten and ask again tell this error by its words more often than by
    its code: Anthropic's "prompt is too long: N tokens", llama-server's "exceeds the
    available context size" and OpenAI's "this model's maximum context length is N
    tokens" are all in it.
    """

    def __init__(
        self,
        *,
        n_prompt: int,
        n_ctx: int,
        param: str | None = None,
        is_estimate: bool = False,
    ) -> None:
        about = "about " if is_estimate else ""
        said = _too_long("prompt", f"{about}{n_prompt}", n_ctx)
        super().__init__(
            f"{said}, one of which must stay free for the answer", param=param
        )
        self.n_prompt = n_prompt
        self.n_ctx = n_ctx


class InputTooLong(ContextExceeded):
    """A text to embed or to score of more tokens than the model reads at once."""

    def __init__(
        self, *, n_prompt: int, n_ctx: int, param: str, beside: str = ""
    ) -> None:
        super().__init__(n_prompt=n_prompt, n_ctx=n_ctx, param=param)
        subject = f"{param} with {beside}" if beside else param
        self.args = (_too_long(subject, f"{n_prompt}", n_ctx),)


def _too_long(subject: str, count: str, n_ctx: int) -> str:
    return (
        f"{subject} is too long: {count} tokens, which exceeds the available context"
        f" size; this model's maximum context length is {n_ctx} tokens"
    )


class UnsupportedFeature(RequestError):
    """A field or route that this model, or this server as started, has not."""


class ModelNotFound(RequestError):
    """A request that names a model other than the one served."""


class Overloaded(KineticError):
    """More requests wait than the line holds; try again later."""


class ShuttingDown(KineticError):
    """The server is stopping and takes no more work."""


class ReaderTooSlow(KineticError):
    """The client left too much of its stream unread."""


class ClientGone(KineticError):
    """The client closed its connection; nobody is left to tell."""


class AddressError(KineticError):
    """An address that cannot be listened on: one clear line for the operator."""


class LimitError(KineticError):
    """A limit of the system that the options do not fit: one line for the operator."""


class ModelError(KineticError):
    """A model file that cannot be served: one clear line for the operator."""


class ReceiptError(KineticError):
    """A receipt or a key that cannot be read, or a receipt that cannot be made."""


class HubError(KineticError):
    """A model that could not be fetched: one clear line for the operator."""


class InternalError(KineticError):
    """A fault that is not the client's; the log has the details."""
