"""Projectors: what a picture becomes, the same bits every time, and clear refusals."""

import contextlib
import shutil

import numpy as np
import pytest

from kinetic.errors import ModelError, RequestError
from kinetic.model.native.images import Projector, ProjectorOptions
from kinetic.model.native.model import Model
from kinetic.model.tiles import Markers, Tile
from kinetic.model.vision.pictures import decode
from tests.support import tiny_models, tiny_projectors
from tests.support.pictures import drawing, encoded

pytestmark = pytest.mark.usefixtures("smollm2_path")

PAIRS = {
    "gemma3": (tiny_models.gemma3, tiny_projectors.gemma3),
    "idefics3": (tiny_models.smolvlm, tiny_projectors.idefics3),
    "qwen2vl": (tiny_models.qwen2vl, tiny_projectors.qwen2vl),
    "qwen35": (tiny_models.qwen35, tiny_projectors.qwen2vl),
}


@contextlib.contextmanager
def loaded(model_path, projector_path, **options):
    model = Model(model_path)
    try:
        asked = ProjectorOptions(**{"n_threads": 1, **options})
        projector = Projector(projector_path, model, asked)
        try:
            yield projector
        finally:
            projector.close()
    finally:
        model.close()


@pytest.fixture(params=PAIRS)
def projector(request):
    make_model, make_projector = PAIRS[request.param]
    with loaded(make_model(), make_projector()) as found:
        yield found


def tiles_of(layout):
    return [piece for piece in layout if isinstance(piece, Tile)]


def vectors(projector, image, go_on=lambda: True):
    with projector.prepared(decode(encoded(image))) as prepared:
        every = range(len(prepared.tiles))
        return [projector.encode(prepared, i, go_on) for i in every]


def test_a_layout_tells_what_encoding_gives(projector):
    image = drawing(200, 120)
    tiles = tiles_of(projector.layout(200, 120))
    found = vectors(projector, image)
    assert [v.shape for v in found] == [(t.n_tokens, projector.n_embd) for t in tiles]
    assert all(np.isfinite(v).all() for v in found)
    assert not any(v.flags.writeable for v in found)


def test_the_same_picture_gives_the_same_bits(projector):
    first = vectors(projector, drawing())
    vectors(projector, drawing(130, 70, seed=9))
    again = vectors(projector, drawing())
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_every_part_of_a_picture_tells(projector):
    image = drawing(128, 128)
    whole = vectors(projector, image)
    for corner in ((0, 0), (96, 0), (0, 96), (96, 96)):
        other = image.copy()
        other.paste((0, 0, 0), (*corner, corner[0] + 32, corner[1] + 32))
        changed = vectors(projector, other)
        pairs = zip(whole, changed, strict=True)
        assert any(np.abs(a - b).max() > 0.01 for a, b in pairs)


def test_encoding_looks_up_often_and_can_be_given_up(projector):
    looks = []
    found = vectors(projector, drawing(), lambda: looks.append(1) or True)
    n_looks = len(looks) // len(found)
    assert n_looks > 80

    looks.clear()
    gone = vectors(projector, drawing(), lambda: looks.append(1) or len(looks) % 5 > 0)
    assert gone[0] is None
    again = vectors(projector, drawing())
    assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))


@pytest.mark.parametrize("size", [(1, 1), (1, 60), (60, 1), (3, 2), (1000, 500)])
def test_odd_sizes_are_taken(projector, size):
    tiles = tiles_of(projector.layout(*size))
    assert sum(tile.n_tokens for tile in tiles) >= 4
    assert len(vectors(projector, drawing(*size))) == len(tiles)


def test_a_strip_that_would_scale_to_nothing_is_refused(projector):
    for size in ((1, 5000), (5000, 1)):
        with pytest.raises(RequestError, match="at most 64 times the shorter one"):
            projector.layout(*size)


def test_tiles_stand_between_markers_of_the_vocabulary():
    with loaded(tiny_models.smolvlm(), tiny_projectors.idefics3()) as projector:
        layout = projector.layout(200, 200)
    kinds = [type(piece) for piece in layout]
    assert kinds == [Markers, Tile] * 5 + [Markers]
    assert [tile.n_tokens for tile in tiles_of(layout)] == [16] * 5
    # Two rows of two tiles, then the whole picture.
    texts = ("<row_1_col_1>", "<row_1_col_2>", "<row_2_col_1>", "<row_2_col_2>")
    model = Model(tiny_models.smolvlm())
    firsts = [
        model.tokenize(t.encode(), add_special=False, parse_special=True) for t in texts
    ]
    model.close()
    found = [piece.tokens for piece in layout if isinstance(piece, Markers)]
    assert all(first[0] in tokens for first, tokens in zip(firsts, found, strict=False))


def test_positions_follow_rows_and_columns_where_the_model_looks_at_them():
    with loaded(tiny_models.qwen2vl(), tiny_projectors.qwen2vl()) as projector:
        (tile,) = tiles_of(projector.layout(96, 64))
    assert (tile.n_tokens, tile.n_positions) == (24, 6)
    time, row, column, rest = tile.axes.at(10)
    assert time.tolist() == [10] * 24
    assert row.tolist() == [10 + i // 6 for i in range(24)]
    assert column.tolist() == [10 + i % 6 for i in range(24)]
    assert not rest.any()


def test_the_size_in_tokens_can_be_bounded():
    model, path = tiny_models.qwen2vl(), tiny_projectors.qwen2vl()
    with loaded(model, path, max_tokens=16) as projector:
        (tile,) = tiles_of(projector.layout(640, 480))
        assert tile.n_tokens <= 16
    with loaded(model, path, min_tokens=100) as projector:
        (tile,) = tiles_of(projector.layout(16, 16))
        assert tile.n_tokens >= 100


def test_what_sees_ahead_is_told():
    for name, sees_ahead in (("gemma3", True), ("qwen2vl", False)):
        make_model, make_projector = PAIRS[name]
        with loaded(make_model(), make_projector()) as projector:
            assert projector.sees_ahead is sees_ahead


def refusal(model_path, projector_path):
    with (
        pytest.raises(ModelError) as caught,
        loaded(model_path, projector_path),
    ):
        pass
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_files_that_are_no_projector_are_refused_in_a_line(tmp_path):
    text_model = tiny_models.qwen3()
    assert "is not a file" in refusal(text_model, tmp_path / "none.gguf")
    assert "is no projector" in refusal(text_model, text_model)
    other = tmp_path / "other.gguf"
    other.write_bytes(b"hello, no GGUF at all")
    assert "other.gguf" in refusal(text_model, other)
    cut = tmp_path / "cut.gguf"
    shutil.copy(tiny_projectors.gemma3(), cut)
    with cut.open("r+b") as file:
        file.truncate(cut.stat().st_size // 2)
    assert "cut.gguf" in refusal(text_model, cut)


def test_a_projector_of_another_width_is_refused_with_both_widths():
    wide = tiny_projectors.gemma3(tiny_projectors.SMOLLM2_WIDTH)
    text = refusal(tiny_models.qwen3(), wide)
    assert "576" in text
    assert "256" in text


def test_a_projector_for_another_vocabulary_is_refused():
    text = refusal(tiny_models.qwen3(), tiny_projectors.idefics3())
    assert "markers that the model's vocabulary has not" in text
