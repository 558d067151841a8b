"""The pages tell what the code has: flags, commands, routes, links."""

import re
from pathlib import Path

import pytest

from kinetic.web.routes import all_routes
from scripts import flag_tables

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
TEXT = "\n".join(page.read_text("utf-8") for page in PAGES)


def test_every_flag_stands_in_operations_as_the_parser_has_it():
    page = flag_tables.PAGE.read_text("utf-8")
    fresh = flag_tables.filled(page)
    assert fresh == page, "python -m scripts.flag_tables writes the tables anew"


@pytest.mark.parametrize("name", flag_tables.commands())
def test_every_command_is_described(name):
    assert f"kinetic {name}" in flag_tables.PAGE.read_text("utf-8")


@pytest.mark.parametrize("path", sorted({path for path, _ in all_routes()} - {"/"}))
def test_every_route_stands_in_some_page(path):
    shown = re.sub(r"/\([^)]*\)", "", path)
    assert shown in TEXT


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_files_that_pages_name_are_there():
    for name in re.findall(r"`((?:kinetic|tests|scripts|docs)/[\w./]+\.\w+)`", TEXT):
        assert (ROOT / name).exists(), name
