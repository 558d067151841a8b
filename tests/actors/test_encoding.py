"""One picture at a time becomes vectors, in pieces, and the last ones are kept."""

from __future__ import annotations

import contextlib
import queue

import numpy as np
import pytest

from kinetic.actors import encoding
from kinetic.actors.encoding import PictureRun
from kinetic.errors import InternalError
from kinetic.model.job import Picture
from tests.support.pictures import png

LIMIT_S = 30


class Prepared:
    def __init__(self, pixels):
        self.value = pixels.rgb[0]
        self.tiles = (None, None)


class Encoder:
    """Gives two tiles of 1 KiB after a number of looks."""

    def __init__(self, n_looks=5):
        self.n_looks = n_looks
        self.n_tiles = 0
        self.error = None

    @contextlib.contextmanager
    def prepared(self, pixels):
        yield Prepared(pixels)

    def encode(self, picture, tile, go_on):
        if self.error is not None:
            raise self.error
        for _ in range(self.n_looks):
            if not go_on():
                return None
        self.n_tiles += 1
        return np.full((16, 16), picture.value + tile, np.float32)


@pytest.fixture(autouse=True)
def every_look_is_a_piece(monkeypatch):
    monkeypatch.setattr(encoding, "PIECE_S", 0.0)


class Decoder:
    """Hears what the Decoder hears, in the test's thread."""

    def __init__(self, encoder, **named):
        self.told = queue.Queue()
        self.run = PictureRun(encoder, self.told.put, **named)
        self.n_steps = 0

    def encode(self, picture, wanted=None):
        """Step until a picture's end."""
        assert self.run.vectors(picture) is None
        message = self.told.get(timeout=LIMIT_S)
        while True:
            self.n_steps += 1
            keep = {picture.digest} if wanted is None else wanted(self.n_steps)
            ended = self.run.step(message, keep)
            if ended is not None:
                assert self.told.empty()
                return ended


def picture(seed):
    return Picture.of(png(8, 8, seed))


def test_a_picture_is_encoded_in_pieces_and_then_at_hand():
    encoder = Encoder(n_looks=5)
    decoder = Decoder(encoder)
    ended = decoder.encode(picture(1))
    # A piece for each look at each of two tiles, and what is behind the last one.
    assert decoder.n_steps == 11
    assert ended.error is None
    assert [tile.shape for tile in ended.vectors] == [(16, 16)] * 2
    assert decoder.run.vectors(picture(1)) is ended.vectors
    assert encoder.n_tiles == 2


def test_the_pictures_seen_last_are_kept_within_a_number_of_bytes():
    decoder = Decoder(Encoder(), kept_bytes=3 * 2048)
    for seed in range(3):
        decoder.encode(picture(seed))
    assert decoder.run.vectors(picture(0)) is not None
    decoder.encode(picture(3))
    assert decoder.run.vectors(picture(0)) is not None
    assert decoder.run.vectors(picture(3)) is not None
    ended = decoder.encode(picture(1))
    assert ended.vectors


def test_a_picture_larger_than_what_is_kept_is_handed_out_once():
    decoder = Decoder(Encoder(), kept_bytes=100)
    assert decoder.encode(picture(1)).vectors
    assert decoder.encode(picture(1)).vectors


@pytest.mark.parametrize("n_wanted", [0, 1, 4])
def test_a_picture_that_nobody_wants_is_given_up(n_wanted):
    encoder = Encoder(n_looks=100)
    decoder = Decoder(encoder)
    one = picture(1)
    ended = decoder.encode(one, lambda n: {one.digest} if n <= n_wanted else set())
    assert decoder.n_steps == n_wanted + 1
    assert (ended.vectors, ended.error) == ((), None)
    assert encoder.n_tiles == 0
    encoder.n_looks = 1
    assert decoder.encode(picture(2)).vectors


def test_failures_are_told_and_the_next_picture_is_encoded():
    encoder = Encoder()
    decoder = Decoder(encoder)
    encoder.error = InternalError("out of order")
    assert "out of order" in str(decoder.encode(picture(1)).error)
    encoder.error = ValueError("details")
    assert str(decoder.encode(picture(1)).error) == "a picture could not be encoded"
    encoder.error = None
    broken = Picture.of(b"no picture")
    assert decoder.encode(broken).error is not None
    assert decoder.encode(picture(1)).vectors


def test_another_picture_waits_for_its_turn():
    decoder = Decoder(Encoder())
    assert decoder.run.vectors(picture(1)) is None
    assert decoder.run.vectors(picture(2)) is None
    message = decoder.told.get(timeout=LIMIT_S)
    wanted = {picture(1).digest, picture(2).digest}
    while (ended := decoder.run.step(message, wanted)) is None:
        pass
    assert ended.digest == picture(1).digest
    assert decoder.encode(picture(2)).vectors


def test_a_stale_message_does_nothing():
    decoder = Decoder(Encoder())
    decoder.encode(picture(1))
    message = encoding.EncodeStep(serial=1)
    assert decoder.run.step(message, set()).digest == ""
    assert decoder.run.vectors(picture(2)) is None
    stale = decoder.run.step(message, {picture(2).digest})
    assert stale.digest == ""
    decoder.run.close()


@pytest.mark.parametrize("n_steps", [0, 1, 3])
def test_closing_ends_the_thread_wherever_it_is(n_steps, kept_threads):
    decoder = Decoder(Encoder(n_looks=1000))
    one = picture(1)
    assert decoder.run.vectors(one) is None
    if n_steps:
        message = decoder.told.get(timeout=LIMIT_S)
    for _ in range(n_steps):
        assert decoder.run.step(message, {one.digest}) is None
    decoder.run.close()
    decoder.run.close()


def test_a_server_without_an_encoder_says_so():
    with pytest.raises(InternalError, match="without a projector"):
        PictureRun(None, lambda step: None).vectors(picture(1))
