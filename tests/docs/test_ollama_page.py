"""docs/ollama.md tells what the code does: fields, ranges, defaults, routes."""

import pytest

from kinetic.web.ollama import ROUTES
from scripts import field_tables

PAGE = field_tables.OLLAMA_PAGE.read_text("utf-8")


def test_every_field_stands_in_the_page_as_the_code_has_it():
    fresh = field_tables.filled(PAGE, field_tables.ollama_tables())
    assert fresh == PAGE, "python -m scripts.field_tables writes the tables anew"


def test_every_table_has_its_place_once():
    expected = sorted(field_tables.ollama_tables())
    assert sorted(field_tables.names_in(PAGE)) == expected


@pytest.mark.parametrize("path", [path for path, _ in ROUTES])
def test_every_route_stands_in_the_page(path):
    assert f"`{path.replace('(.+)', '{digest}')}`" in PAGE
