"""What the one served model is called in Ollama's API, and who means it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinetic.errors import ModelNotFound, RequestError
from kinetic.files.store import split_tag
from kinetic.web.fields.readers import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

LATEST = "latest"
_NAME_CHARS_MAX = 350  # Ollama's own longest: host, owner, model and tag
_HOMES = ("registry.ollama.ai/library/", "library/")
"""What Ollama puts before names that have no owner."""


def display_name(model_id: str) -> str:
    """The served model's name with its tag, which Ollama always shows."""
    return model_id if split_tag(model_id)[1] else f"{model_id}:{LATEST}"


def is_served(asked: str, names: Iterable[str]) -> bool:
    """Whether a name a client sent means the served model.

    Case does not matter, and neither does ":latest". `names` are the model's id and
    its file's name.
    """
    wanted = _plain(asked)
    return any(wanted == _plain(name) for name in names)


def _plain(name: str) -> str:
    plain = name.strip().casefold()
    for home in _HOMES:
        plain = plain.removeprefix(home)
    return plain.removesuffix(f":{LATEST}")


def _repeated(name: str) -> str:
    """A name as an error repeats it: whole, but for one that is no model's."""
    return name if len(name) <= _NAME_CHARS_MAX else f"{name[:_NAME_CHARS_MAX]}…"


def check_name(
    body: Mapping[str, Any],
    names: Iterable[str],
    *,
    is_needed: bool = True,
    unknown: str = "model '{}' not found",
) -> str:
    """The model's name as the client wrote it, for the answer to repeat.

    Args:
        body: `model`, or in its place the older `name`.
        names: What the served model is called.
        is_needed: A missing name is said to be missing, not unknown.
        unknown: The words for a name that is none of them; they differ by route.

    Raises:
        RequestError: There is no name, or it is no text.
        ModelNotFound: It is another model's.
    """
    name = body.get("model")
    if name is None:
        name = body.get("name")
    if name is not None and not isinstance(name, str):
        message = f"model must be a string, not {shown(name)}"
        raise RequestError(message, param="model")
    if not name and is_needed:
        raise RequestError("model is required", param="model")
    if not is_served(name or "", names):
        raise ModelNotFound(unknown.format(_repeated(name or "")), param="model")
    return name or ""
