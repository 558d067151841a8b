"""Who may ask: keys, content types, browser origins. Pure functions over headers."""

from __future__ import annotations

import hmac
import ipaddress
import re
from typing import TYPE_CHECKING

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


_AUTHORITY = re.compile(
    r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{0,5}))?", re.IGNORECASE | re.ASCII
)
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(.+)", re.IGNORECASE | re.ASCII)
_LAST_PORT = 65535


def host_and_port(authority: str) -> tuple[str, int | None] | None:
    """The host of "host:port", in lower case, and the port; None if malformed.

    Stricter than a URL: only what browsers and clients write after they have made sense
    of an address themselves. So there are no names of users, no percent signs, no zones
    of IPv6 addresses, nothing beside brackets and no port above 65535; an IPv4 address
    in an odd form is a name like any other.
    """
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        return None
    bracketed, name, digits = parts.groups()
    port = int(digits) if digits else None
    if port is not None and port > _LAST_PORT:
        return None
    if bracketed is None:
        return name.lower(), port
    try:
        return str(ipaddress.IPv6Address(bracketed)), port
    except ValueError:
        return None


def is_this_computer(host: str) -> bool:
    """Whether a host name can only mean the machine itself."""
    host = host.lower().removesuffix(".")
    if host in _LOCAL_NAMES or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


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
    """Scheme, host and port of an origin; None for what is none, such as "null"."""
    parts = _ORIGIN.fullmatch(origin)
    place = None if parts is None else host_and_port(parts[2])
    if parts is None or place is None:
        return None
    scheme, (host, port) = parts[1].lower(), place
    default = {"http": 80, "https": 443}.get(scheme)
    return scheme, host, port or default


def is_origin(text: str) -> bool:
    """Whether a text is what an Origin header may hold, but for "null"."""
    return _normal(text) is not None


def host_name(text: str) -> str | None:
    """A host's name or address as hosts are compared; None if it is none.

    It has no port; brackets round an IPv6 address may be left out.
    """
    is_bare_ipv6 = ":" in text and not text.startswith("[")
    found = host_and_port(f"[{text}]" if is_bare_ipv6 else text)
    if found is None or found[1] is not None:
        return None
    return found[0].removesuffix(".")


def is_allowed_host(
    host: str | None, *, bound_to: str, allowed: Collection[str] = ()
) -> bool:
    """Whether a Host header fits a server bound to `bound_to`.

    On a loopback address only names of this computer are taken, and those `allowed`
    (as `host_name` gives them): a foreign name there is a web page that had its own
    name point here. Elsewhere every name is, unless some are allowed by name. HTTP/1.0
    sends none.
    """
    if host is None or not (allowed or is_this_computer(bound_to)):
        return True
    found = host_and_port(host)
    if found is None:
        return False
    name, _ = found
    return is_this_computer(name) or name.removesuffix(".") in allowed
