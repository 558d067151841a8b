"""The handler that all of ours are: guards first, then JSON in, JSON or events out."""

from __future__ import annotations

import contextlib
import functools
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

from tornado import web

from kinetic import __version__
from kinetic.errors import ClientGone
from kinetic.web import guard
from kinetic.web.errors import HttpError, openai_body, to_http, too_large
from kinetic.web.http import body as json_body
from kinetic.web.http.written import REQUEST_ID, dumps, new_id
from kinetic.web.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinetic.actors.messages import Job
    from kinetic.types import VectorJob
    from kinetic.web.service import Service
    from kinetic.web.stream import RequestStream
    from kinetic.web.vectors import VectorCall

_log = logging.getLogger(__name__)


class ApiHandler(web.RequestHandler):
    """Base of every route.

    Order of the guards: Host, Origin, preflight, key, content type, body. A subclass
    says with class variables what its API asks for, and gives `error_body`.
    """

    service: Service
    id_prefix: ClassVar[str] = "req-"
    """What the ids of its requests begin with."""
    is_public: ClassVar[bool] = False
    """Answers without a key."""
    is_vital: ClassVar[bool] = False
    """Answers while there is no room for more connections too."""
    needs_json: ClassVar[bool] = True
    """Bodies must be sent as application/json, which browsers cannot do across
    sites without asking first."""
    app_schemes: ClassVar[frozenset[str]] = frozenset()
    """Schemes of origins that only installed programs have, allowed beside local web
    pages."""

    def initialize(self, service: Service) -> None:
        """Keep what app.py gave; called by Tornado for each request."""
        self.service = service
        self._stream: RequestStream | VectorCall | None = None
        self._is_gone = False
        # Tornado would parse forms, before any guard and with limits of its own; some
        # clients call every body of theirs a form.
        self.request._parse_body = _leave_body  # type: ignore[method-assign] # noqa: SLF001
        self._allowed_origin: str | None = None

    @functools.cached_property
    def request_id(self) -> str:
        """What the request is called in the log, in its answer and among the actors."""
        return new_id(self.id_prefix)

    # --- Guards ---------------------------------------------------------------------

    def set_default_headers(self) -> None:
        """Name the server and the request, errors too; called by Tornado."""
        self.set_header("Server", f"kinetic/{__version__}")
        self.set_header(REQUEST_ID, self.request_id)
        self.clear_header("Content-Type")

    def prepare(self) -> None:
        """Run the guards; called by Tornado before the method."""
        self.service.entered(self)
        headers = self.request.headers
        options = self.service.options
        if not guard.is_allowed_host(
            headers.get("Host"), bound_to=options.host, allowed=options.allowed_hosts
        ):
            raise HttpError(
                status=403,
                message="the Host header names another computer; a server on the"
                " loopback address (see --host) answers to its own names and to those"
                " of --allowed-host",
                kind="permission_error",
            )
        self._check_origin(headers.get("Origin"))
        if self.request.method == "OPTIONS":
            return
        refusal = getattr(self.request.connection, "refusal", None)
        if refusal is not None and not self.is_vital:
            raise refusal
        self._check_key()
        self._check_body()

    def _check_origin(self, origin: str | None) -> None:
        if origin is None:
            return
        allowed = self.service.options.cors_origins
        if not guard.is_allowed_origin(origin, allowed, self.app_schemes):
            raise HttpError(
                status=403,
                message="pages of this origin may not use the server; allow it with"
                " --cors-origin",
                kind="permission_error",
            )
        self._allowed_origin = origin
        self._set_origin_headers()

    def _set_origin_headers(self) -> None:
        """Let the browser show the answer, an error's too, to an allowed page."""
        if "Origin" in self.request.headers:
            self.set_header("Vary", "Origin")
        if self._allowed_origin is not None:
            self.set_header("Access-Control-Allow-Origin", self._allowed_origin)
            self.set_header("Access-Control-Allow-Credentials", "true")
            self.set_header("Access-Control-Expose-Headers", REQUEST_ID)

    def _check_key(self) -> None:
        keys = self.service.options.api_keys
        if self.is_public or not keys:
            return
        headers = self.request.headers
        several = len(headers.get_list("Authorization")) > 1
        given = guard.key_given(headers.get("Authorization"), headers.get("X-Api-Key"))
        if several or not guard.is_known_key(given, keys):
            raise HttpError(
                status=401,
                message="a valid API key is needed: Authorization: Bearer KEY",
                kind="authentication_error",
                code="invalid_api_key",
                headers={"WWW-Authenticate": 'Bearer realm="kinetic"'},
            )

    def _check_body(self) -> None:
        """Refuse a body by its headers, before anyone reads it."""
        headers = self.request.headers
        if getattr(self.request.connection, "is_body_too_large", False):
            raise too_large(self.service.options.max_body_bytes)
        encoding = headers.get("Content-Encoding", "identity").strip().lower()
        if encoding != "identity":
            raise HttpError(
                status=415,
                message="the body must be sent without Content-Encoding, not as"
                f" {encoding}",
            )
        is_post = self.request.method == "POST" and "POST" in self.methods()
        if is_post and self.needs_json:
            content_type = headers.get("Content-Type")
            if not guard.is_json(content_type):
                raise HttpError(
                    status=415,
                    message="the body must be sent with Content-Type:"
                    f" application/json, not {content_type or 'without one'}",
                )

    def options(self, *_args: str) -> None:
        """Answer a browser's preflight for an allowed origin; needs no key."""
        methods = ", ".join(self.methods())
        self.set_header("Allow", methods)
        if "Origin" in self.request.headers:
            asked = self.request.headers.get("Access-Control-Request-Headers")
            self.set_header("Access-Control-Allow-Methods", methods)
            self.set_header(
                "Access-Control-Allow-Headers", asked or "Authorization, Content-Type"
            )
            self.set_header("Access-Control-Max-Age", "600")
            if "Access-Control-Request-Private-Network" in self.request.headers:
                self.set_header("Access-Control-Allow-Private-Network", "true")
        self.set_status(HTTPStatus.NO_CONTENT)

    @classmethod
    def methods(cls) -> list[str]:
        """The methods that this route answers."""
        names = ("GET", "HEAD", "POST", "DELETE")
        # `head` is ours for all, and answers where there is a `get`.
        own = [
            name
            for name in names
            if getattr(cls, name.lower()) is not getattr(ApiHandler, name.lower())
        ]
        if "GET" in own and "HEAD" not in own:
            own.insert(1, "HEAD")
        return [*own, "OPTIONS"]

    async def head(self, *args: str) -> None:
        """Answer as GET does, headers only."""
        if type(self).get is web.RequestHandler.get:
            raise web.HTTPError(HTTPStatus.METHOD_NOT_ALLOWED)
        found = self.get(*args)
        if found is not None:
            await found

    # --- Bodies ---------------------------------------------------------------------

    def json_body(self) -> dict[str, Any]:
        """The request's body; raises RequestError for anything but a JSON object."""
        return json_body.parse(self.request.body)

    def send_json(self, value: object, *, status: int = 200) -> None:
        """Answer with one JSON value."""
        self.set_status(status)
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.write(dumps(value))

    def error_body(self, error: HttpError) -> dict[str, Any]:
        """An error in this API's shape."""
        return openai_body(error)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer any error as JSON in this API's shape; called by Tornado."""
        exc_info = kwargs.get("exc_info")
        cause = exc_info[1] if exc_info else None
        if isinstance(cause, web.HTTPError) and not isinstance(cause, HttpError):
            error = _from_tornado(cause, self.methods())
        else:
            error = to_http(cause or RuntimeError(status_code))
        for name, value in error.headers.items():
            self.set_header(name, value)
        # Tornado has cleared what was set before the error.
        self._set_origin_headers()
        self.send_json(self.error_body(error), status=error.status)
        self.finish()

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log bugs with their traceback and clients' faults not at all."""
        if isinstance(value, ClientGone):
            return
        status = value.status_code if isinstance(value, web.HTTPError) else None
        if status is None:
            status = to_http(value).status
        # A line that is full or closed (503) is no bug.
        if status == HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(
            value, HttpError
        ):
            path = self.request.path
            _log.error(
                "%s failed: %s", self.request_id, path, exc_info=(typ, value, tb)
            )

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Give our own status for our own errors; Tornado knows only its kind."""
        exc_info = kwargs.get("exc_info")
        if exc_info and not isinstance(exc_info[1], web.HTTPError):
            status_code = to_http(exc_info[1]).status
        super().send_error(status_code, **kwargs)

    # --- The client's life ----------------------------------------------------------

    def on_finish(self) -> None:
        """Count the response; called by Tornado behind its last byte."""
        self.service.actors.count_response(self.get_status())
        self.service.left(self)

    def on_connection_close(self) -> None:
        """The client is gone: free its slot."""
        self._is_gone = True
        if self._stream is not None:
            self._stream.cancel(ClientGone("the client closed its connection"))

    @contextlib.contextmanager
    def open_stream(
        self, jobs: tuple[Job, ...], *, streamed: bool
    ) -> Iterator[RequestStream]:
        """Start the jobs and give the request's stream; the log tells of both ends.

        Raises ClientGone when the client left while its prompt was built.
        """
        journal = Journal(self.request.path, jobs, streamed=streamed)
        if self._is_gone:
            gone = ClientGone("the client closed its connection")
            journal.never_began(gone)
            raise gone
        with self.service.open(jobs, journal) as stream:
            self._stream = stream
            try:
                yield stream
            finally:
                self._stream = None

    @contextlib.contextmanager
    def open_vectors(self, job: VectorJob) -> Iterator[VectorCall]:
        """Start a request for vectors; raises ClientGone as `open_stream` does."""
        if self._is_gone:
            raise ClientGone("the client closed its connection")
        with self.service.open_vectors(job) as call:
            self._stream = call
            try:
                yield call
            finally:
                self._stream = None


def _leave_body() -> None:
    """Parse nothing: bodies are JSON here, whatever they are called."""


def _from_tornado(error: web.HTTPError, methods: list[str]) -> HttpError:
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(methods)
        return HttpError(
            status=405,
            message=f"this endpoint takes {allowed}",
            code="method_not_allowed",
            headers={"Allow": allowed},
        )
    phrase = HTTPStatus(error.status_code).phrase
    return HttpError(status=error.status_code, message=error.log_message or phrase)
