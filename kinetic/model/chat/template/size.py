"""How much a client may hand a chat template beside its texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kinetic.model.chat.template.normalise import TemplateError

MAX_VALUES: Final = 300_000
"""In tools, in template variables, or in the arguments of all calls.

They are walked and copied for each way in which a template might take them, 1 us and
more a value each time: the ten millions that a body has room for took minutes.
"""


def check_size(value: object, what: str, *, param: str) -> None:
    """Raise TemplateError for more than MAX_VALUES values inside lists and mappings."""
    left = MAX_VALUES
    stack: list[object] = [value]
    while stack:
        found = stack.pop()
        if isinstance(found, Mapping):
            found = list(found.values())
        if not isinstance(found, (list, tuple)):
            continue
        left -= len(found)
        if left < 0:
            message = f"{what} hold more than {MAX_VALUES} values"
            raise TemplateError(message, param=param)
        stack.extend(found)
