"""Names in bodies for vectors and scores that are refused, or were slips. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.web.fields.readers import shown
from kinetic.web.fields.tables import misspelt
from kinetic.web.openai.fields import Refused


def check_names(
    body: Mapping[str, Any], known: Iterable[str], refused: Mapping[str, Refused]
) -> None:
    """Refuse what would change the answer and is not served, and near misses.

    Any other name that nobody knows is let pass: clients send extras of their own.
    """
    names = set(known)
    for name, value in body.items():
        if name in names:
            continue
        if name in refused:
            if not refused[name].is_neutral(value):
                message = f"{name} is not supported: {refused[name].reason}"
                raise UnsupportedFeature(message, param=name)
        elif meant := misspelt(name, names):
            message = f"{shown(name)} is no field; did you mean {meant}?"
            raise RequestError(message, param=name)
