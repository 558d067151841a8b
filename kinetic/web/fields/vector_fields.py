"""What the routes for vectors of all three APIs read alike. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.types import ModelInfo
from kinetic.web.fields.readers import shown

INPUTS_MAX = 2048
"""As OpenAI's, up to which clients fill their batches."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Texts or token ids as a client gave them."""

    items: tuple[str | tuple[int, ...], ...]
    is_list: bool
    """Errors name an item of a list, or the one text."""


def read_inputs(value: Any, *, param: str = "input") -> Inputs:
    """A text, a list of texts, a list of token ids, or a list of such lists.

    Texts and lists of ids may stand beside each other. Raises RequestError naming the
    item that is wrong.
    """
    if isinstance(value, str):
        return Inputs((value,), is_list=False)
    if not isinstance(value, list):
        message = (
            f"{param} must be a string, a list of strings, a list of token ids or a"
            f" list of such lists, not {shown(value)}"
        )
        raise RequestError(message, param=param)
    if not value:
        raise RequestError(f"{param} must not be an empty list", param=param)
    if _is_id(value[0]):
        return Inputs((_ids(value, param),), is_list=False)
    check_count(len(value), param)
    items = tuple(_item(item, f"{param}[{i}]") for i, item in enumerate(value))
    return Inputs(items, is_list=True)


def _item(item: Any, where: str) -> str | tuple[int, ...]:
    if isinstance(item, str):
        return item
    if not isinstance(item, list):
        message = f"{where} must be a string or a list of token ids, not {shown(item)}"
        raise RequestError(message, param=where)
    if not item:
        message = f"{where} is an empty list; token ids must be at least one"
        raise RequestError(message, param=where)
    return _ids(item, where)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _ids(values: list[Any], where: str) -> tuple[int, ...]:
    for i, value in enumerate(values):
        if not _is_id(value):
            at = f"{where}[{i}]"
            raise RequestError(f"{at} must be a token id, not {shown(value)}", param=at)
    return tuple(values)


def check_count(n_inputs: int, param: str) -> None:
    """Raise RequestError for a list of too many inputs."""
    if n_inputs > INPUTS_MAX:
        message = f"{param} holds {n_inputs} inputs; at most {INPUTS_MAX} are taken"
        raise RequestError(message, param=param)


def check_dimensions(dimensions: int | None, info: ModelInfo) -> None:
    """Raise RequestError for more numbers than the model's vectors have."""
    if dimensions is not None and dimensions > info.n_vector:
        message = (
            f"dimensions is {dimensions} and the model's vectors have {info.n_vector}"
        )
        raise RequestError(message, param="dimensions")


def check_pooled(info: ModelInfo) -> None:
    """Raise UnsupportedFeature where a text has no vector of its own."""
    if info.pooling == "none":
        raise UnsupportedFeature(
            "the model gives a vector for each token, not one for a text: start the"
            " server with --pooling mean, cls or last, or use /embedding"
        )
