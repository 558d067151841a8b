"""Who may ask: keys, content types, browser origins. Pure functions over headers."""

from __future__ import annotations

import hmac
import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain"})


def key_given(authorization: str | None, x_api_key: str | None) -> str | None:
    """The key that a request carries; None when there is none.

    The scheme is read without regard to case and only at the start, so a key that
    holds the word "Bearer" itself stays whole. `X-Api-Key` counts where there is no
    Authorization header, as with llama-server.
    """
    if authorization is not None:
        scheme, _, rest = authorization.strip().partition(" ")
        return rest.strip() if scheme.lower() == "bearer" and rest.strip() else None
    if x_api_key is not None:
        return x_api_key.strip() or None
    return None


def is_known_key(given: str | None, keys: Sequence[str]) -> bool:
    """Whether a key is one of ours; takes equally long for every wrong one."""
    if given is None:
        return False
    # Header text is latin-1 on the wire; a key in UTF-8 arrives as its bytes.
    sent = given.encode("latin-1", "replace")
    found = [hmac.compare_digest(sent, key.encode()) for key in keys]
    return any(found)


def is_json(content_type: str | None) -> bool:
    """Whether a Content-Type says JSON, whatever its case and parameters."""
    media = (content_type or "").partition(";")[0].strip().lower()
    return media == "application/json" or (
        media.startswith("application/") and media.endswith("+json")
    )


def host_of(origin: str) -> str | None:
    """The host name of an Origin or Host header, lower case; None if malformed."""
    text = origin if "//" in origin else f"//{origin}"
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises for a port that is no number
    except ValueError:
        return None
    if parts.username is not None or parts.path not in {"", "/"}:
        return None
    return parts.hostname


def is_this_computer(host: str | None) -> bool:
    """Whether a host name can only mean the machine itself."""
    if host is None:
        return False
    host = host.rstrip(".")
    if host in _LOCAL_NAMES or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_allowed_origin(
    origin: str, allowed: Sequence[str], app_schemes: Collection[str] = ()
) -> bool:
    """Whether a page of this origin may use the server: local ones, and those named.

    Args:
        origin: The header's text.
        allowed: Whole origins ("https://app.example", compared exactly after parsing),
            or "*" for all.
        app_schemes: Schemes of installed programs' own pages, which are local too.
    """
    if "*" in allowed:
        return True
    ours = _normal(origin)
    if ours is None:
        return False
    if any(_normal(entry) == ours for entry in allowed):
        return True
    scheme = ours[0]
    if scheme in {"http", "https"}:
        return is_this_computer(ours[1])
    return scheme in app_schemes


def _normal(origin: str) -> tuple[str, str, int | None] | None:
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return None
    if not parts.scheme or parts.hostname is None or parts.username is not None:
        return None
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        return None
    default = {"http": 80, "https": 443}.get(parts.scheme.lower())
    return parts.scheme.lower(), parts.hostname, port or default


def is_allowed_host(host: str | None, *, bound_to: str) -> bool:
    """Whether a Host header fits a server bound to `bound_to`.

    On a loopback address only names of this computer are taken: a foreign name there
    is a web page that had its own name point here. HTTP/1.0 sends none.
    """
    if not is_this_computer(bound_to) or host is None:
        return True
    return is_this_computer(host_of(host))
