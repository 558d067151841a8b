"""The hub's HTTP routes: list a repository, read a file from some byte on.

Source of the routes and headers: the hub's own client, huggingface_hub.
"""

from __future__ import annotations

import http.client
import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from kinetic import __version__
from kinetic.errors import HubError
from kinetic.hub.choice import HubFile

if TYPE_CHECKING:
    from collections.abc import Mapping

HUB: Final = "https://huggingface.co"
"""The public hub; HF_ENDPOINT names another one, such as a mirror."""

_TIMEOUT_S = 30.0
_MAX_LISTING_BYTES = 64 << 20
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Interrupted(Exception):
    """The connection failed, or the hub is busy: worth another try."""


class Unreachable(Interrupted):
    """There is no way to the hub: no network, a wrong name, nobody listening."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A repository at one commit."""

    repo: str
    commit: str
    files: tuple[HubFile, ...]


def endpoint() -> str:
    """Where the hub is. Raises HubError for an address that is none."""
    url = (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")
    refusal = f"HF_ENDPOINT must be an http or https address, not {url}"
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname)
        parts.port  # noqa: B018 - raises for a port that is no number
    except ValueError as error:
        raise HubError(refusal) from error
    if not is_address:
        raise HubError(refusal)
    return url


def access_token() -> str | None:
    """The user's access token, if any; an error never repeats it. Raises HubError."""
    token = (os.environ.get("HF_TOKEN") or "").strip()
    if not all("!" <= char <= "~" for char in token):
        raise HubError("HF_TOKEN holds characters that no access token has")
    return token or None


class HubClient:
    """Speaks to one hub.

    The access token goes to the hub's own host alone, never to the storage that it
    sends downloads to.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self._token = token
        self._opener: OpenerDirector = build_opener(_Redirects())

    def listing(self, repo: str) -> Listing:
        """The files of a repository's main branch.

        Raises HubError, or Interrupted.
        """
        path = f"/api/models/{quote(repo)}/revision/main?blobs=true"
        with self._open(self.url + path, {}, repo) as response:
            raw = _read(response, _MAX_LISTING_BYTES)
        try:
            return _parse_listing(repo, json.loads(raw))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise HubError(
                f"the hub's list of {repo} cannot be read: {error}"
            ) from error

    def open_file(
        self, listing: Listing, file: HubFile, first: int
    ) -> tuple[http.client.HTTPResponse, int]:
        """Start reading a file; the response, and the byte it starts with.

        `first` is asked for; storage that knows no ranges starts at 0. Raises
        HubError, or Interrupted.
        """
        where = f"{quote(listing.repo)}/resolve/{listing.commit}/{quote(file.path)}"
        headers = {"Range": f"bytes={first}-"} if first else {}
        response = self._open(f"{self.url}/{where}", headers, listing.repo)
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            return response, 0
        match = re.fullmatch(
            r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "")
        )
        if match is None or int(match[1]) != first:
            response.close()
            raise HubError("the hub's storage answered with another part of the file")
        return response, first

    def _open(
        self, url: str, headers: Mapping[str, str], repo: str
    ) -> http.client.HTTPResponse:
        request = Request(url, headers={**headers, "Accept-Encoding": "identity"})  # noqa: S310 - endpoint() allows http and https alone
        request.add_header("User-Agent", f"kinetic/{__version__}")
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            response: http.client.HTTPResponse = self._opener.open(
                request, timeout=_TIMEOUT_S
            )
            return response
        except HTTPError as error:
            with error:
                raise self._refusal(error, repo) from error
        except URLError as error:
            raise Unreachable(f"{urlsplit(url).netloc}: {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            raise Interrupted(f"{urlsplit(url).netloc}: {error}") from error

    def _refusal(self, error: HTTPError, repo: str) -> Exception:
        """What the hub's status and error code mean."""
        code = error.headers.get("X-Error-Code", "")
        is_storage = urlsplit(error.url).netloc != urlsplit(self.url).netloc
        match error.code:
            case 401 | 403 if is_storage:
                # Addresses in the storage are signed and expire; the hub makes new.
                return Interrupted(f"the hub's storage answers {error.code}")
            case 401 | 403 if code == "GatedRepo":
                return HubError(
                    f"{repo} asks for consent: accept its terms at {self.url}/{repo},"
                    " then set HF_TOKEN to your access token"
                )
            case 401 if self._token and code in {"", "RepoNotFound"}:
                return HubError(
                    f"the hub has no repository {repo}, or does not take the token in"
                    " HF_TOKEN"
                )
            case 401 | 403 | 404 if code in {"", "RepoNotFound"}:
                # To strangers the hub answers the same for what is private and for
                # what does not exist.
                hint = "" if self._token else "; a private one needs HF_TOKEN"
                return HubError(f"the hub has no repository {repo}{hint}")
            case 404:
                return HubError(f"{repo}: the hub answers {code}")
            case 416:
                return HubError("the hub's storage has a shorter file than it lists")
            case 408 | 429 | 500 | 502 | 503 | 504:
                return Interrupted(f"{self.url} answers {error.code} {error.reason}")
            case _:
                said = error.headers.get("X-Error-Message") or error.reason
                return HubError(f"the hub answers {error.code}: {said}")


class _Redirects(HTTPRedirectHandler):
    """Follows the hub to its storage, and leaves the token behind."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        """Make the next request; called by urllib."""
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if old.scheme == "https" and new.scheme != "https":
            raise HubError(f"the hub sends the download to {new.scheme}, unencrypted")
        follow = super().redirect_request(req, fp, code, msg, headers, newurl)
        if follow is not None and old.netloc != new.netloc:
            follow.remove_header("Authorization")
        return follow


def _read(response: http.client.HTTPResponse, limit: int) -> bytes:
    try:
        raw = response.read(limit + 1)
    except (OSError, http.client.HTTPException) as error:
        raise Interrupted(str(error) or type(error).__name__) from error
    if len(raw) > limit:
        raise HubError(f"the hub's list is longer than {limit >> 20} MiB")
    return raw


def _parse_listing(repo: str, found: Any) -> Listing:
    commit = found["sha"]
    if not isinstance(commit, str) or _COMMIT.fullmatch(commit) is None:
        raise ValueError("no commit")
    files = []
    for entry in found["siblings"]:
        path, large = entry["rfilename"], entry.get("lfs") or {}
        size = large.get("size", entry.get("size"))
        if not isinstance(path, str) or not isinstance(size, int):
            continue
        sha256 = large.get("sha256")
        if sha256 is not None and _SHA256.fullmatch(sha256) is None:
            raise ValueError(f"no SHA-256 of {path}")
        blob_id = None if large else entry.get("blobId")
        files.append(
            HubFile(path=path, size_bytes=size, sha256=sha256, blob_id=blob_id)
        )
    return Listing(repo=repo, commit=commit, files=tuple(files))
