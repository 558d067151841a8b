"""Finding receipts in what people have kept: a file, a stream, a whole response.

The text may come from anybody: its size, its depth and its numbers are checked before
anyone walks through it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

from kinetic.errors import ReceiptError
from kinetic.receipts.record import FORMAT

BYTES_MAX: Final = 64 << 20
DEPTH_MAX: Final = 128
RECEIPTS_MAX: Final = 10_000

_EVENT: Final = "data:"
_END: Final = "[DONE]"


def receipts_in(content: bytes) -> list[Any]:
    """The receipts in a file's bytes, as decoded JSON, not yet checked.

    Taken are a receipt, a whole response that holds some, a list of either, JSON lines
    of either, and the events of a stream as they were received. Raises ReceiptError
    where none is found or something is no JSON.
    """
    if len(content) > BYTES_MAX:
        raise ReceiptError(f"more than {BYTES_MAX >> 20} MiB: too long for receipts")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReceiptError(f"not UTF-8: byte {error.start}") from None
    found: list[Any] = []
    for value in _values(text):
        found += _search(value)
        if len(found) > RECEIPTS_MAX:
            raise ReceiptError(f"more than {RECEIPTS_MAX} receipts")
    if not found:
        raise ReceiptError("no receipt in it")
    return found


def _values(text: str) -> Iterator[Any]:
    """The one JSON value of a text, or one a line."""
    try:
        whole = json_value(text, ReceiptError)
    except ReceiptError:
        lines = [line for line in map(_line, text.splitlines()) if line]
        if len(lines) < 2 and not text.lstrip().startswith(_EVENT):  # noqa: PLR2004
            raise
    else:
        yield whole
        return
    for i, line in enumerate(lines, 1):
        try:
            yield json_value(line, ReceiptError)
        except ReceiptError as error:
            raise ReceiptError(f"value {i} of {len(lines)}: {error}") from None


def _line(line: str) -> str:
    """A line's JSON; "" for one that says nothing, such as a stream's end."""
    said = line.strip().removeprefix(_EVENT).strip()
    return "" if said == _END or said.startswith(":") else said


def _search(value: Any) -> Iterator[Any]:
    """Receipts where responses have them; a list's items one after the other."""
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield from _search_object(item)
    elif isinstance(value, dict):
        yield from _search_object(value)


def _search_object(value: dict[str, Any]) -> Iterator[Any]:
    if value.get("format") == FORMAT:
        yield value
        return
    if value.get("receipt") is not None:
        yield value["receipt"]
    choices = value.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict) and choice.get("receipt") is not None:
            yield choice["receipt"]


def json_value(text: str, unfit: Callable[[str], Exception]) -> Any:
    """Decode JSON that keeps to what receipts need.

    Raises what `unfit` makes of a reason: not JSON, a key twice in one object, NaN or
    an infinity, a number of thousands of digits, half a surrogate pair, or more than
    DEPTH_MAX levels.
    """

    def refuse(constant: str) -> NoReturn:
        raise unfit(f"{constant} is not a JSON number")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items):
            raise unfit("a key stands twice in one object")
        return found

    try:
        value = json.loads(text, parse_constant=refuse, object_pairs_hook=pairs)
    except RecursionError:
        raise unfit(f"nested more than {DEPTH_MAX} levels deep") from None
    except json.JSONDecodeError as error:
        raise unfit(
            f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError:
        # Python refuses integers of thousands of digits with a plain ValueError.
        raise unfit("a number is too long") from None
    _check(value, unfit)
    return value


def _check(root: Any, unfit: Callable[[str], Exception]) -> None:
    """Walk without recursion: depth, infinities, halves of surrogate pairs."""
    level = [root]
    depth = 0
    while level:
        depth += 1
        if depth > DEPTH_MAX:
            raise unfit(f"nested more than {DEPTH_MAX} levels deep")
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += value.keys()
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, str):
                if not value.isascii():
                    _check_text(value, unfit)
            elif isinstance(value, float) and math.isinf(value):
                raise unfit("a number is too large")
        level = below


def _check_text(text: str, unfit: Callable[[str], Exception]) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise unfit("half a surrogate pair") from None
