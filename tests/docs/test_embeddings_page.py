"""docs/embeddings.md tells what the code does: fields, ranges, defaults, routes."""

import pytest

from kinetic.web.llama_server import vector_handlers as native
from kinetic.web.ollama import embed_handlers as ollama
from kinetic.web.openai import vector_handlers as openai
from scripts import field_tables

PAGE = field_tables.VECTOR_PAGE.read_text("utf-8")
ROUTES = [*openai.ROUTES, *native.ROUTES, *ollama.ROUTES]


def test_every_field_stands_in_the_page_as_the_code_has_it():
    fresh = field_tables.filled(PAGE, field_tables.vector_tables())
    assert fresh == PAGE, "python -m scripts.field_tables writes the tables anew"


def test_every_table_has_its_place_once():
    expected = sorted(field_tables.vector_tables())
    assert sorted(field_tables.names_in(PAGE)) == expected


@pytest.mark.parametrize("path", [path for path, _ in ROUTES])
def test_every_route_stands_in_the_page(path):
    assert f"`{path}`" in PAGE
