"""HTTP by hand over a real socket, to send what no client library would."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

LIMIT_S = 20.0


@dataclass(frozen=True)
class RawAnswer:
    """One answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def request(
    method: str,
    path: str,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    *,
    host: str = "localhost",
) -> bytes:
    """A request with a length where it has a body; headers may override anything."""
    fields = {"Host": host}
    if body:
        fields["Content-Type"] = "application/json"
        fields["Content-Length"] = str(len(body))
    fields |= headers or {}
    lines = [f"{method} {path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode("utf-8") + body


class RawClient:
    """One connection."""

    def __init__(self, url: str) -> None:
        _, _, address = url.partition("//")
        self._host, _, port = address.partition(":")
        self._port = int(port)
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(
            self._host, self._port, limit=1 << 26
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.writer.close()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def stop_reading(self) -> None:
        """Take nothing more off the socket."""
        self.reader._transport.pause_reading()  # type: ignore[attr-defined]

    async def answer(self, *, has_body: bool = True) -> RawAnswer:
        """Read one whole answer."""
        async with asyncio.timeout(LIMIT_S):
            return await self._answer(has_body=has_body)

    async def _answer(self, *, has_body: bool) -> RawAnswer:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        start, *lines = head.strip().split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        status = int(start.split(" ")[1])
        body = b""
        if has_body and "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        elif has_body and headers.get("transfer-encoding") == "chunked":
            body = await self._chunks()
        return RawAnswer(status, headers, body)

    async def _chunks(self) -> bytes:
        body = b""
        while True:
            size = int((await self.reader.readline()).strip(), 16)
            body += await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
            if size == 0:
                return body

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        async with asyncio.timeout(LIMIT_S):
            return await self.reader.read()


async def exchange(url: str, data: bytes, *, has_body: bool = True) -> RawAnswer:
    """Send bytes on a connection of their own and read one answer."""
    async with RawClient(url) as client:
        await client.send(data)
        return await client.answer(has_body=has_body)
