"""Write the tables of pages from the tables that the server itself works by.

Run `python -m scripts.field_tables` after a field, a metric or an explained difference
from llama-server has changed; a test says when.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kinetic.actors.metrics.exposition import Facts, MetricsPage
from kinetic.actors.metrics.view import empty_view
from kinetic.model.constraints.json_schema import keywords
from kinetic.web.fields.sampling import DRAWING, SAMPLING
from kinetic.web.fields.tables import Field
from kinetic.web.llama_server import fields as native, sampling as native_sampling
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
from scripts.compat_compare import read_explained
from scripts.llama_server_compat import DIFFERENCES

DOCS = Path(__file__).resolve().parent.parent / "docs"
API_PAGE = DOCS / "api.md"
VECTOR_PAGE = DOCS / "embeddings.md"
OLLAMA_PAGE = DOCS / "ollama.md"
NATIVE_PAGE = DOCS / "llama-server.md"
METRICS_PAGE = DOCS / "metrics.md"

_BLOCK = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_METRIC = re.compile(r"# HELP (\S+) (.*)\n# TYPE \S+ (\w+)\n")


def field_table(fields: Sequence[Field]) -> str:
    """A table with a row for each field."""
    rows = ["| Field | What fits | Default | From | Meaning |", "|---|---|---|---|---|"]
    for field in fields:
        names = " or ".join(f"`{name}`" for name in field.spellings)
        cells = (names, field.range, field.default, field.source, field.meaning)
        rows.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(rows) + "\n"


def refused_table(
    fields: Mapping[str, Refused] | Mapping[str, native.Refused] = REFUSED,
) -> str:
    """A table of the fields that are refused."""
    rows = ["| Field | Instead, or why not |", "|---|---|"]
    rows += [
        f"| `{name}` | {_cell(refused.reason)} |" for name, refused in fields.items()
    ]
    return "\n".join(rows) + "\n"


def keyword_table() -> str:
    """A table with a row for each keyword of JSON Schema."""
    rows = ["| Keyword | While decoding | To know |", "|---|---|---|"]
    for names, served in (
        (keywords.HELD, "held"),
        (keywords.JUDGED, "as far as can be, then judged"),
        (keywords.REFUSED, "400"),
    ):
        plain = [name for name in names if name not in keywords.LIMITS]
        rows.append(f"| {', '.join(f'`{name}`' for name in plain)} | {served} | |")
        rows += [
            f"| `{name}` | {served} | {_cell(keywords.LIMITS[name])} |"
            for name in names
            if name in keywords.LIMITS
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
        "keywords": keyword_table(),
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


def native_tables() -> Mapping[str, str]:
    """Every table of the page about llama-server's API by its name."""
    return {
        "native-request": field_table(native.REQUEST),
        "native-sampling": field_table(native_sampling.SAMPLING),
        "native-refused": refused_table(native.REFUSED),
        "native-differences": difference_table(),
    }


def difference_table() -> str:
    """A table of the explained differences from llama-server, one row a reason."""
    places: dict[str, list[str]] = {}
    for entry in read_explained(DIFFERENCES):
        named = [entry.path]
        named += [f"of {entry.route}"] if entry.route != "*" else []
        named += [f"({entry.case})"] if entry.case != "*" else []
        place = f"`{' '.join(named)}`"
        places.setdefault(entry.reason, []).append(place)
    rows = ["| Where | Why it differs |", "|---|---|"]
    rows += [
        f"| {_cell(', '.join(where))} | {_cell(reason)} |"
        for reason, where in places.items()
    ]
    return "\n".join(rows) + "\n"


def metric_table(prefix: str) -> str:
    """A table with a row for each metric whose name begins so, as the page has it."""
    page = MetricsPage(empty_view(1), Facts(n_ctx=1, build={})).render().decode()
    rows = ["| Metric | Kind | Meaning |", "|---|---|---|"]
    rows += [
        f"| `{name}` | {kind} | {_cell(meaning)} |"
        for name, meaning, kind in _METRIC.findall(page)
        if name.startswith(prefix)
    ]
    return "\n".join(rows) + "\n"


def metric_tables() -> Mapping[str, str]:
    """Every table of the page about metrics by its name."""
    return {
        "metrics-llama-server": metric_table("llamacpp:"),
        "metrics-kinetic": metric_table("kinetic_"),
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
        (NATIVE_PAGE, native_tables()),
        (METRICS_PAGE, metric_tables()),
    ):
        path.write_text(filled(path.read_text("utf-8"), known), "utf-8")
