"""Routes that belong to no one API: health, receipts' key, and unknown paths."""

from __future__ import annotations

import re
from difflib import get_close_matches
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from kinetic.web.base import ApiHandler
from kinetic.web.errors import HttpError, ollama_body

if TYPE_CHECKING:
    from kinetic.web.service import Service


class HealthHandler(ApiHandler):
    """GET /health: alive, and how many slots are idle and busy."""

    is_public = True
    is_vital = True

    def get(self) -> None:
        """Answer at any time, while prompts are read too."""
        view = self.service.actors.view
        self.send_json(
            {
                "status": "ok",
                "slots_idle": view.n_idle,
                "slots_processing": len(view.slots) - view.n_idle,
            }
        )


class ReceiptKeyHandler(ApiHandler):
    """GET /v1/receipts/key: the public key that receipts are signed with."""

    def get(self) -> None:
        """Tell it; a 404 where receipts are not signed."""
        key = self.service.receipt_key
        if key is None:
            raise HttpError(
                status=HTTPStatus.NOT_FOUND,
                message="receipts of this server are not signed: start it with"
                " --sign-key FILE, a key that `kinetic keygen FILE` makes",
                kind="not_found_error",
                code="receipts_not_signed",
            )
        self.send_json({"object": "receipt.key", **key})


class NotFoundHandler(ApiHandler):
    """Every other path: a JSON 404 that names the right one."""

    needs_json = False

    def initialize(self, service: Service, paths: tuple[str, ...] = ()) -> None:
        """Keep the known paths too."""
        super().initialize(service)
        self._paths = paths

    def prepare(self) -> None:
        """Ask for the key first: an unknown path without one is a 401."""
        super().prepare()
        if self.request.method == "OPTIONS":
            return
        raise HttpError(
            status=HTTPStatus.NOT_FOUND,
            message=self._message(),
            kind="not_found_error",
            code="not_found",
        )

    def error_body(self, error: HttpError) -> dict[str, Any]:
        """In the shape of the API that the path belongs to."""
        if self.request.path.startswith("/api/"):
            return ollama_body(error)
        return super().error_body(error)

    def _message(self) -> str:
        asked = self.request.path
        tidy = re.sub(r"/+", "/", asked).rstrip("/").lower() or "/"
        near = [p for p in self._paths if p.lower() == tidy]
        near = near or get_close_matches(tidy, self._paths, n=1, cutoff=0.7)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"no such endpoint{hint}"

    def compute_etag(self) -> Any:
        """No tags on errors."""
        return None
