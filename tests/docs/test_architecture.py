"""The page of the house and the glossary tell what the tree has."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
HOUSE = (ROOT / "docs/architecture.md").read_text("utf-8")
GLOSSARY = (ROOT / "docs/glossary.md").read_text("utf-8")
DECISIONS = sorted((ROOT / "docs/decisions").glob("*.md"))


def rows(page):
    """The first column of a page's tables, and the second."""
    return re.findall(r"^\| `?([^|`]+?)`? \| ([^|]+?) \|$", page, re.MULTILINE)


def folders():
    """Every folder with code, from the root of the checkout."""
    found = {path.parent for path in (ROOT / "kinetic").rglob("*.py")}
    return {str(path.relative_to(ROOT)) for path in found}


def test_every_folder_has_its_line_and_every_line_its_folder():
    told = {name for name, _ in rows(HOUSE) if name.split("/")[0] == "kinetic"}
    assert told == folders()


def test_every_module_that_the_page_names_is_there():
    names = {path.name for path in (ROOT / "kinetic").rglob("*.py")}
    for name in re.findall(r"`(?:kinetic/)?([\w/]+\.py)`", HOUSE):
        there = (ROOT / "kinetic" / name).exists() if "/" in name else name in names
        assert there, name


def test_no_folder_is_crowded():
    for folder in folders():
        names = [p.name for p in (ROOT / folder).glob("*.py") if p.stem != "__init__"]
        assert len(names) <= 24, folder


def test_the_glossary_has_each_word_once_and_in_order():
    words = [word for word, _ in rows(GLOSSARY)][1:]
    assert len(words) > 40
    assert words == sorted(set(words))


def test_each_word_of_the_glossary_is_used():
    text = "\n".join(
        path.read_text("utf-8") for path in (ROOT / "kinetic").rglob("*.py")
    ).lower()
    for word, _ in rows(GLOSSARY)[1:]:
        stem = re.escape(word.lower()).replace(r"\ ", r"[\s_]+")
        assert re.search(rf"(?<![a-z]){stem}", text), word


def test_decisions_are_dated_and_say_context_choice_cost_and_change():
    assert DECISIONS
    for page in DECISIONS:
        text = page.read_text("utf-8")
        (date,) = re.findall(r"^(\d{4}-\d\d-\d\d)-[a-z0-9-]+$", page.stem)
        assert f"\n{date}\n" in text, page.name
        for part in ("Context", "Choice", "Cost", "What would change it"):
            assert f"**{part}.**" in text, page.name
