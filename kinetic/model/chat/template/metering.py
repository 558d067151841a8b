"""What a chat template may spend: a budget of steps, and limits on what it makes.

Steps are a count and not a time, so that a rendering ends the same way on every
machine. A step is about one node of the template, or 64 characters of text that a
filter or an operator made: some 0.1 µs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar, Token
from typing import Any, Final

from jinja2.utils import Namespace

MAX_CHARS: Final = 16_000_000
"""Longest text a template may make, output included: some four million tokens."""
MAX_ITEMS: Final = 1_000_000
"""Longest list a template may make."""
MAX_PADDING: Final = 1_000
"""Widest indentation or padding."""
MAX_INT_BITS: Final = 4_096
"""Largest number."""

CALL_STEPS: Final = 20
TURN_STEPS: Final = 8
ITEM_STEPS: Final = 4
RECURSION_STEPS: Final = 100
"""What Jinja itself does for a call, a loop's turn, an item of a printed list, a loop's
turn inside itself; measured against a node of a template."""

_CHARS_PER_STEP_LOG2 = 6
_PERCENT_WIDTH = re.compile(r"%[^%a-zA-Z]*(?:\d{4,}|\*)")
_BRACE_WIDTH = re.compile(r"\{[^{}]*:[^{}]*(?:\d{4,}|\{)")


class Fault(Exception):
    """A template that does not compile or render; the text is fit to be shown."""


class OutOfSteps(Fault):
    """A template that has used up its budget."""


class _Meter:
    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps


_METER: ContextVar[_Meter | None] = ContextVar("_METER", default=None)


def start_meter(steps: int) -> Token[Any]:
    """Begin to count; give the token to `stop_meter`."""
    return _METER.set(_Meter(steps))


def stop_meter(token: Token[Any]) -> None:
    """Return to what was counted before."""
    _METER.reset(token)


def spend(steps: int) -> None:
    """Take steps off the budget.

    Raises:
        OutOfSteps: None are left.
    """
    meter = _METER.get()
    if meter is not None:
        meter.left -= steps
        if meter.left < 0:
            raise OutOfSteps("the chat template does more work than it may")


def spend_on_text(n_chars: int) -> None:
    """Spend for work on a text that exists."""
    spend(1 + (n_chars >> _CHARS_PER_STEP_LOG2))


def check_chars(n_chars: int) -> None:
    """Spend for a text that is about to be made.

    Raises:
        Fault: It would be too long.
    """
    if n_chars > MAX_CHARS:
        raise Fault(
            f"the chat template makes a text of more than {MAX_CHARS} characters"
        )
    spend_on_text(n_chars)


def check_items(n_items: int) -> None:
    """Spend for a list that is about to be made, likewise."""
    if n_items > MAX_ITEMS:
        raise Fault(f"the chat template makes a list of more than {MAX_ITEMS} items")
    spend(1 + n_items)


def walk(value: object) -> None:
    """Spend for every node of a value that is about to be printed.

    A list that holds the same list twice, and so on, is small in memory and endless in
    print.
    """
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            check_chars(len(node))
        elif isinstance(node, Mapping):
            spend(ITEM_STEPS * (1 + len(node)))
            stack.extend(node.keys())
            stack.extend(node.values())
        elif isinstance(node, (list, tuple, set, frozenset)):
            spend(ITEM_STEPS * (1 + len(node)))
            stack.extend(node)
        elif isinstance(node, Namespace):
            raise Fault("the chat template prints a namespace")


def to_text(value: object) -> str:
    """Print a value as Python does."""
    walk(value)
    return str(value)


def join(separator: str, items: Iterable[object]) -> str:
    """Join what is printed of `items`, unless it grows too long."""
    texts: list[str] = []
    n_chars = 0
    for item in items:
        texts.append(to_text(item))
        n_chars += len(texts[-1]) + len(separator)
        if n_chars > MAX_CHARS:
            check_chars(n_chars)
    return separator.join(texts)


def counted(items: Iterable[Any], steps: int) -> Iterator[Any]:
    """Yield `items`, each paid for."""
    for item in items:
        spend(steps)
        yield item


class MeteredTurns:
    """An iterable whose turns are paid for; has a length if `items` has one."""

    def __init__(self, items: Any, steps: int) -> None:
        self._items = items
        self._steps = steps

    def __iter__(self) -> Iterator[Any]:
        return counted(self._items, self._steps)

    def __len__(self) -> int:
        return len(self._items)


def check_padding(width: object) -> int:
    """Return the number of characters a width stands for.

    Raises:
        Fault: There are too many.
    """
    n_chars = len(width) if isinstance(width, str) else width
    if not isinstance(n_chars, int) or n_chars > MAX_PADDING:
        raise Fault(f"the chat template pads by more than {MAX_PADDING} characters")
    return n_chars


def percent_format(text: str, values: Any) -> str:
    """Format as `text % values` does, with small written widths only."""
    if _PERCENT_WIDTH.search(text):
        raise Fault("the chat template formats with a computed or a large width")
    walk(values)
    made: str = text % values
    check_chars(len(made))
    return made


def check_brace_format(text: str) -> None:
    """Refuse computed and large widths in the text of a `str.format`."""
    if _BRACE_WIDTH.search(text):
        raise Fault("the chat template formats with a computed or a large width")


def check_replacement(text: str, old: str, new: str) -> None:
    """Spend for `text.replace(old, new)` before it is made."""
    spend_on_text(len(text))
    if len(new) > len(old):
        check_chars(len(text) + text.count(old) * (len(new) - len(old)))


def check_sum(left: object, right: object) -> None:
    """Spend for `left + right` before it is made."""
    if isinstance(left, str) and isinstance(right, str):
        check_chars(len(left) + len(right))
    elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        check_items(len(left) + len(right))
    else:
        _check_numbers(left, right)


def check_product(left: object, right: object) -> None:
    """Spend for `left * right` before it is made."""
    for sized, times in ((left, right), (right, left)):
        if isinstance(times, int) and isinstance(sized, str):
            check_chars(len(sized) * max(times, 0))
        elif isinstance(times, int) and isinstance(sized, (list, tuple)):
            check_items(len(sized) * max(times, 0))
    _check_numbers(left, right)


def check_power(left: object, right: object) -> None:
    """Refuse a `left ** right` that would be too large."""
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() * abs(right))


def _check_numbers(left: object, right: object) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())


def _check_bits(n_bits: int) -> None:
    if n_bits > MAX_INT_BITS:
        raise Fault(
            f"the chat template makes a number of more than {MAX_INT_BITS} bits"
        )
