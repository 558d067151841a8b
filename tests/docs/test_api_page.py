"""docs/api.md tells what the code does: fields, ranges, defaults, routes, statuses."""

import re

import pytest

from kinetic.web.openai import ROUTES
from scripts import field_tables

PAGE = field_tables.API_PAGE.read_text("utf-8")


def test_every_field_stands_in_the_page_as_the_code_has_it():
    fresh = field_tables.filled(PAGE)
    assert fresh == PAGE, "python -m scripts.field_tables writes the tables anew"


def test_every_table_has_its_place_once():
    assert sorted(field_tables.names_in(PAGE)) == sorted(field_tables.tables())


@pytest.mark.parametrize("path", [path for path, _ in ROUTES if "(" not in path])
def test_every_route_stands_in_the_page(path):
    assert f"`{path}`" in PAGE


def test_a_changed_range_is_noticed():
    changed = PAGE.replace("a number from 0 to 100", "a number from 0 to 99", 1)
    assert changed != PAGE
    assert field_tables.filled(changed) == PAGE


def test_tables_have_five_cells_a_row():
    for name in ("limits", "sampling", "shape", "delivery", "chat", "completions"):
        for row in field_tables.tables()[name].splitlines():
            assert len(re.findall(r"(?<!\\)\|", row)) == 6, row
