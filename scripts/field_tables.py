"""Write the tables of three pages from the tables that the server reads requests by.

Run `python -m scripts.field_tables` after a field has changed; a test says when.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kinetic.web.fields import DRAWING, SAMPLING, Field
from kinetic.web.llama_server.embedding import EMBEDDING
from kinetic.web.ollama import embed, fields as ollama
from kinetic.web.openai.embeddings import EMBEDDINGS, REFUSED_EMBEDDINGS
from kinetic.web.openai.fields import (
    ACCEPTED,
    CHAT_ONLY,
    DELIVERY,
    LIMITS,
    REFUSED,
    SHAPE,
    TEXT_ONLY,
    Refused,
)
from kinetic.web.openai.rerank import REFUSED_RERANK, RERANK

DOCS = Path(__file__).resolve().parent.parent / "docs"
API_PAGE = DOCS / "api.md"
VECTOR_PAGE = DOCS / "embeddings.md"
OLLAMA_PAGE = DOCS / "ollama.md"

_BLOCK = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def field_table(fields: Sequence[Field]) -> str:
    """A table with a row for each field."""
    rows = ["| Field | What fits | Default | From | Meaning |", "|---|---|---|---|---|"]
    for field in fields:
        names = " or ".join(f"`{name}`" for name in field.spellings)
        cells = (names, field.range, field.default, field.source, field.meaning)
        rows.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(rows) + "\n"


def refused_table(fields: Mapping[str, Refused] = REFUSED) -> str:
    """A table of the fields that are refused."""
    rows = ["| Field | Instead, or why not |", "|---|---|"]
    rows += [
        f"| `{name}` | {_cell(refused.reason)} |" for name, refused in fields.items()
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


def vector_tables() -> Mapping[str, str]:
    """Every table of the page about vectors and scores by its name."""
    return {
        "embeddings": field_table(EMBEDDINGS),
        "embedding": field_table(EMBEDDING),
        "ollama-embed": field_table(embed.EMBED),
        "ollama-embeddings": field_table(embed.EMBEDDINGS),
        "rerank": field_table(RERANK),
        "refused-embeddings": refused_table(REFUSED_EMBEDDINGS),
        "refused-rerank": refused_table(REFUSED_RERANK),
    }


def ollama_tables() -> Mapping[str, str]:
    """Every table of the page about Ollama's API by its name."""
    chat = {field.name for field in ollama.CHAT}
    own = [field for field in ollama.GENERATE if field.name not in chat]
    return {
        "ollama-chat": field_table(ollama.CHAT),
        "ollama-generate": field_table(own),
        "ollama-options": field_table(ollama.OPTIONS),
    }


def filled(page: str, known: Mapping[str, str] | None = None) -> str:
    """The page with every table as it should be; raises KeyError for unknown names."""
    known = tables() if known is None else known
    return _BLOCK.sub(lambda block: block[1] + known[block[2]] + block[3], page)


def names_in(page: str) -> list[str]:
    """The tables that the page has room for."""
    return [block[2] for block in _BLOCK.finditer(page)]


if __name__ == "__main__":
    for path, known in (
        (API_PAGE, tables()),
        (VECTOR_PAGE, vector_tables()),
        (OLLAMA_PAGE, ollama_tables()),
    ):
        path.write_text(filled(path.read_text("utf-8"), known), "utf-8")
