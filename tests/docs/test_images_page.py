"""docs/images.md tells the limits that the code has."""

from pathlib import Path

import pytest

from kinetic.actors import encoding
from kinetic.config import MIB
from kinetic.model.native import images
from kinetic.model.vision import pictures, vision

PAGE = (Path(__file__).parents[2] / "docs" / "images.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("row", "number"),
    [
        ("images of a request", vision.MAX_PICTURES),
        ("bytes of an image's file", pictures.MAX_BYTES),
        ("pixels of an image, as its header says", pictures.MAX_PIXELS),
        ("pixels of an image, as its header says", pictures.MAX_JPEG_PIXELS),
        ("pixels of a request's images together", vision.MAX_REQUEST_PIXELS),
        ("the longer side against the shorter one", images.MAX_ASPECT),
        ("passes over a JPEG's pixels", pictures.MAX_SCANS),
        ("Images of more than", pictures.WORKING_PIXELS),
        ("stay in memory", encoding.KEPT_BYTES // MIB),
    ],
)
def test_a_limit_stands_in_the_page_as_the_code_has_it(row, number):
    (line,) = [line for line in PAGE.splitlines() if row in line]
    assert f"{number:,}" in line


@pytest.mark.parametrize("kind", pictures.FORMATS)
def test_every_format_stands_in_the_page(kind):
    (line,) = [line for line in PAGE.splitlines() if line.startswith("**Formats.**")]
    assert kind.lower() in line.lower()


@pytest.mark.parametrize("kind", sorted(images._UNSUPPORTED))
def test_every_kind_that_is_refused_stands_in_the_page(kind):
    assert f"`{kind}`" in PAGE
