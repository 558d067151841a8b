"""Write every command's flags into docs/operations.md, as the parser has them.

    python -m scripts.flag_tables

A test compares the page with what this would write.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from kinetic.cli import program

PAGE = Path(__file__).parent.parent / "docs" / "operations.md"
_PLACE = re.compile(r"(?<=<!-- flags -->\n).*?(?=<!-- end of flags -->)", re.DOTALL)


def filled(page: str) -> str:
    """The page with fresh tables between its marks."""
    return _PLACE.sub(lambda _: _tables(), page)


def commands() -> dict[str, argparse.ArgumentParser]:
    """Every command's parser by its name."""
    for action in program.parser()._actions:  # noqa: SLF001 - argparse lists them nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    return {}


def _tables() -> str:
    parts = []
    for name, parser in commands().items():
        rows = [_row(action) for action in parser._actions if action.dest != "help"]  # noqa: SLF001
        if rows:
            head = f"\n### kinetic {name}\n\n| flag | meaning |\n|---|---|\n"
            parts.append(head + "\n".join(rows) + "\n")
    return "".join(parts) + "\n"


def _row(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else ""
    if not action.option_strings:
        name = f"`{value or action.dest}`"
    else:
        shown = f" {value}" if value else ""
        name = ", ".join(f"`{o}`" for o in action.option_strings[:-1])
        last = f"`{action.option_strings[-1]}{shown}`"
        name = f"{name}, {last}" if name else last
    meaning = (action.help or "").replace("|", "\\|").replace("%%", "%")
    return f"| {name} | {meaning} |"


def main() -> int:
    """Rewrite the page."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(filled(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
