"""Where pictures stand in a prompt, and which positions they take."""

import numpy as np

from kinetic.model.job import ImageSpan, Picture, outside, position_of
from kinetic.model.tiles import Axes, Tile

CAT = Picture.of(b"cat")


def span(first, n_tokens, n_positions=None):
    axes = None
    if n_positions is not None:
        zeros = np.zeros((4, n_tokens), np.int32)
        axes = Axes(zeros, zeros)
    tile = Tile(n_tokens=n_tokens, n_positions=n_positions or n_tokens, axes=axes)
    return ImageSpan(first=first, tile=tile, number=0, picture=CAT, sees_ahead=False)


def test_equal_files_have_equal_digests():
    assert CAT.digest == Picture.of(b"cat").digest != Picture.of(b"dog").digest


def test_without_pictures_a_position_is_an_index():
    assert [position_of((), i) for i in range(5)] == [0, 1, 2, 3, 4]


def test_a_picture_whose_positions_go_on_by_one_moves_nothing():
    images = (span(2, 4),)
    assert [position_of(images, i) for i in range(9)] == list(range(9))


def test_a_picture_with_axes_takes_fewer_positions_than_tokens():
    images = (span(2, 6, 3), span(10, 4, 2))
    before, inside, between = [0, 1], [2] * 6, [5, 6]
    second, behind = [7] * 4, [9, 10]
    expected = [*before, *inside, *between, *second, *behind]
    assert [position_of(images, i) for i in range(16)] == expected


def test_a_cut_inside_a_picture_moves_to_its_start():
    images = (span(2, 4), span(6, 3))
    found = [outside(images, i) for i in range(11)]
    assert found == [0, 1, 2, 2, 2, 2, 6, 6, 6, 9, 10]
