"""Write the tables of docs/api.md from the tables that the server reads requests by.

Run `python -m scripts.field_tables` after a field has changed; a test says when.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kinetic.web.fields import DRAWING, SAMPLING, Field
from kinetic.web.openai.fields import (
    ACCEPTED,
    CHAT_ONLY,
    DELIVERY,
    LIMITS,
    REFUSED,
    SHAPE,
    TEXT_ONLY,
)

API_PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"

_BLOCK = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def field_table(fields: Sequence[Field]) -> str:
    """A table with a row for each field."""
    rows = ["| Field | What fits | Default | From | Meaning |", "|---|---|---|---|---|"]
    for field in fields:
        names = " or ".join(f"`{name}`" for name in field.spellings)
        cells = (names, field.range, field.default, field.source, field.meaning)
        rows.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(rows) + "\n"


def refused_table() -> str:
    """A table of the fields that are refused."""
    rows = ["| Field | Instead, or why not |", "|---|---|"]
    rows += [
        f"| `{name}` | {_cell(refused.reason)} |" for name, refused in REFUSED.items()
    ]
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def tables() -> Mapping[str, str]:
    """Every table of the page by its name."""
    return {
        "limits": field_table(LIMITS),
        "sampling": field_table((*SAMPLING, *DRAWING)),
        "shape": field_table(SHAPE),
        "delivery": field_table(DELIVERY),
        "chat": field_table(CHAT_ONLY),
        "completions": field_table(TEXT_ONLY),
        "accepted": ", ".join(f"`{name}`" for name in ACCEPTED) + "\n",
        "refused": refused_table(),
    }


def filled(page: str) -> str:
    """The page with every table as it should be; raises KeyError for unknown names."""
    known = tables()
    return _BLOCK.sub(lambda block: block[1] + known[block[2]] + block[3], page)


def names_in(page: str) -> list[str]:
    """The tables that the page has room for."""
    return [block[2] for block in _BLOCK.finditer(page)]


if __name__ == "__main__":
    API_PAGE.write_text(filled(API_PAGE.read_text("utf-8")), "utf-8")
