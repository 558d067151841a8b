"""A request's target in any form that HTTP/1.1 has, as the form that routes are in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tornado import httputil

_ABSOLUTE = re.compile(r"https?://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)


def origin_form(method: str, target: str) -> tuple[str, str | None]:
    """The path with its query, and the host that the target names, if it names one.

    Source: RFC 9112, section 3.2.4, for the form of OPTIONS without a path.
    """
    parts = _ABSOLUTE.fullmatch(target)
    if parts is None:
        return target, None
    authority, path = parts.groups()
    if not path and method == "OPTIONS":
        return "*", authority
    return path if path.startswith("/") else f"/{path}", authority


def in_origin_form(
    line: httputil.RequestStartLine, headers: httputil.HTTPHeaders
) -> httputil.RequestStartLine:
    """A request's first line with its path alone; the host in it becomes the Host.

    Clients of a proxy send the whole address ("GET http://host/path"), and servers have
    to take it. The host in it counts, whatever the header says, so that whoever checks
    the one checks the other. Source: RFC 9112, section 3.2.2.
    """
    path, host = origin_form(line.method, line.path)
    if host is None:
        return line
    headers["Host"] = host
    return line._replace(path=path)
