"""A model hub on the loopback interface: its listing, its redirects, its storage.

The storage listens on a port of its own, as the real one has a host of its own.
Faults are scripted: each download takes the next one.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(slots=True)
class Fault:
    """What goes wrong with one download."""

    cut_after: int | None = None
    """The connection ends behind so many bytes."""
    status: int | None = None
    contents: bytes | None = None
    """Sent in place of the file's own."""
    ignores_range: bool = False


@dataclass(slots=True)
class FakeHub:
    """What the hub holds, and what it was asked."""

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Repository to path to contents."""
    plain: set[str] = field(default_factory=set)
    """Paths that are not in large-file storage."""
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Repository to status and error code."""
    moved: dict[str, str] = field(default_factory=dict)
    """Repository to its new name."""
    listing_statuses: list[int] = field(default_factory=list)
    """Statuses of the next listings; then all is well."""
    faults: list[Fault] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Who was asked ("hub" or "storage"), for what, with which headers."""
    hub_url: str = ""
    storage_url: str = ""

    @property
    def downloads(self) -> list[str | None]:
        """The range of each download."""
        return [h.get("Range") for who, _, h in self.asked if who == "storage"]

    def listing(self, repo: str) -> dict[str, object]:
        siblings = []
        for path, raw in self.files[repo].items():
            entry: dict[str, object] = {"rfilename": path, "size": len(raw)}
            blob = b"blob %d\0" % len(raw) + raw
            entry["blobId"] = hashlib.sha1(blob).hexdigest()
            if path not in self.plain:
                sha256 = hashlib.sha256(raw).hexdigest()
                entry["lfs"] = {"sha256": sha256, "size": len(raw), "pointerSize": 134}
            siblings.append(entry)
        return {"id": repo, "sha": COMMIT, "siblings": siblings}


@contextmanager
def running_hub() -> Iterator[FakeHub]:
    """Serve on ports that the system chooses, until the block is left."""
    hub = FakeHub()
    servers = [_serve(hub, _HubHandler), _serve(hub, _StorageHandler)]
    urls = [f"http://127.0.0.1:{s.server_address[1]}" for s in servers]
    hub.hub_url, hub.storage_url = urls
    threads = [
        threading.Thread(target=s.serve_forever, args=(0.01,), daemon=True)
        for s in servers
    ]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join(10)


def _serve(hub: FakeHub, handler: type[_Handler]) -> ThreadingHTTPServer:
    bound = type(handler.__name__, (handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), bound)
    server.daemon_threads = True
    return server


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    who = ""
    protocol_version = "HTTP/1.1"
    timeout = 10

    def log_message(self, *_args: object) -> None:
        return

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append((self.who, path, dict(self.headers.items())))
        self.answer(path)

    def answer(self, path: str) -> None:
        raise NotImplementedError

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


class _HubHandler(_Handler):
    who = "hub"

    def answer(self, path: str) -> None:
        hub = self.hub
        parts = path.strip("/").split("/")
        is_listing = parts[:2] == ["api", "models"]
        repo = "/".join(parts[2:4] if is_listing else parts[:2])
        if is_listing and hub.listing_statuses:
            self.send(hub.listing_statuses.pop(0), b"")
        elif repo in hub.moved:
            # Relative, as the real hub's are.
            there = self.path.replace(repo, hub.moved[repo])
            self.send(307, b"", Location=there)
        elif repo in hub.refusals:
            status, code = hub.refusals[repo]
            self.send(status, b"{}", **({"X_Error_Code": code} if code else {}))
        elif repo not in hub.files:
            self.send(401, b"{}", X_Error_Code="RepoNotFound")
        elif is_listing:
            self.send(200, json.dumps(hub.listing(repo)).encode())
        elif "/".join(parts[4:]) not in hub.files[repo]:
            self.send(404, b"", X_Error_Code="EntryNotFound")
        else:
            assert parts[2:4] == ["resolve", COMMIT]
            where = "/".join([hub.storage_url, repo, *parts[4:]])
            self.send(302, b"", Location=where)


class _StorageHandler(_Handler):
    who = "storage"

    def answer(self, path: str) -> None:
        parts = path.strip("/").split("/")
        fault = self.hub.faults.pop(0) if self.hub.faults else Fault()
        if fault.status is not None:
            self.send(fault.status, b"")
            return
        raw = self.hub.files["/".join(parts[:2])]["/".join(parts[2:])]
        whole = raw if fault.contents is None else fault.contents
        asked = self.headers.get("Range")
        first = 0
        if asked is not None and not fault.ignores_range:
            first = int(asked.removeprefix("bytes=").removesuffix("-"))
        body = whole[first:]
        self.send_response(206 if first else 200)
        if first:
            at = f"bytes {first}-{len(whole) - 1}/{len(whole)}"
            self.send_header("Content-Range", at)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.wfile.write(body[: fault.cut_after])
