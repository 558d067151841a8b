"""Whether the values of flags can be, and what they come to: pure, without files.

Each raises ModelError with the flag's name.
"""

from __future__ import annotations

from collections.abc import Sequence

from kinetic.errors import ModelError


def keys_in(text: str) -> list[str]:
    """The keys of a file, one a line; # starts a comment, as llama-server's."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def keys(given: Sequence[str]) -> tuple[str, ...]:
    """Keys without the space around them."""
    found = tuple(key.strip() for key in given)
    if not all(found):
        raise ModelError("an API key must not be empty")
    return found


def origins(given: Sequence[str]) -> tuple[str, ...]:
    """Origins as browsers send them, or *."""
    from kinetic.web.guard import is_origin

    found = tuple(text.removesuffix("/") for text in given)
    for origin in found:
        if origin != "*" and not is_origin(origin):
            raise ModelError(
                f"--cors-origin {origin} is no origin, such as https://app.example:8443"
                " (no path), and not *"
            )
    return found


def host_names(given: Sequence[str]) -> tuple[str, ...]:
    """Names as they are compared."""
    from kinetic.web.guard import host_name

    found = []
    for text in given:
        name = host_name(text)
        if name is None:
            raise ModelError(
                f"--allowed-host {text} is no host's name, such as llm.example.com"
                " (no scheme, port or path)"
            )
        found.append(name)
    return tuple(found)


def check_drafts(least: int, most: int) -> None:
    """Refuse bounds between which there is no draft."""
    if 0 < most < least:
        raise ModelError(
            f"--draft-min {least} is more than --draft-max {most}: no draft could be"
            " made"
        )
