"""From pictures in messages to their places in a prompt.

    an image part -> a marker text in its place (the template prints it)
    the rendered prompt -> cut at the markers -> token ids, with a picture's between

A picture is decoded here to find out that it can be, and how many tokens it becomes;
the pixels are dropped again. What is kept of pictures seen before is that layout alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import PIL

from kinetic.errors import RequestError, UnsupportedFeature, about
from kinetic.model.job import ImageSpan, Picture
from kinetic.model.tiles import Markers, Tile
from kinetic.model.vision.pictures import decode, read_source

if TYPE_CHECKING:
    from kinetic.model.native.images import Projector
    from kinetic.model.tiles import Layout
    from kinetic.model.vocab import Vocab

MAX_PICTURES: Final = 32
"""Most pictures of a request."""

MAX_REQUEST_PIXELS: Final = 1 << 27
"""Most pixels of a request's pictures together, those seen before aside."""

MARKERS: Final = tuple(f"<__image_{i}__>" for i in range(MAX_PICTURES))
"""Stand for a request's pictures in the rendered prompt; whoever writes one into a
message has written text."""

_MARKER = re.compile("|".join(map(re.escape, MARKERS)))
_LAYOUTS = 256  # pictures whose layout is kept
_FEW_TOKENS = 4
"""Fewer ids than this could be met by chance, or by somebody who looks for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureSource:
    """A picture as a request has it, not looked at yet."""

    text: str
    where: str
    """Message and part, for errors."""


def with_markers(
    messages: Sequence[Mapping[str, Any]],
) -> tuple[tuple[Mapping[str, Any], ...], tuple[PictureSource, ...]]:
    """Messages with a marker in every picture's place, and the pictures in order.

    Raises RequestError where there are too many.
    """
    sources: list[PictureSource] = []

    def marked(part: Any) -> Any:
        if not isinstance(part, Mapping) or part.get("type") != "image":
            return part
        source = PictureSource(text=str(part["source"]), where=str(part["where"]))
        if len(sources) == MAX_PICTURES:
            raise RequestError(
                f"{source.where} is one picture more than the {MAX_PICTURES} that a"
                " request may have",
                param=source.where,
            )
        sources.append(source)
        return {"type": "image", "marker": MARKERS[len(sources) - 1]}

    def read(message: Mapping[str, Any]) -> Mapping[str, Any]:
        content = message.get("content")
        if not isinstance(content, list | tuple):
            return message
        return {**message, "content": [marked(part) for part in content]}

    return tuple(map(read, messages)), tuple(sources)


def refuse(sources: Sequence[PictureSource]) -> None:
    """Raise UnsupportedFeature for a model that reads no pictures."""
    if sources:
        where = sources[0].where
        raise UnsupportedFeature(
            f"{where} is a picture, and this model reads no images", param=where
        )


class Vision:
    """Puts pictures into prompts for one model and its projector.

    Thread: any.
    """

    def __init__(self, projector: Projector, vocab: Vocab, n_batch: int) -> None:
        self._projector = projector
        self._vocab = vocab
        self._n_batch = n_batch
        # Another release may decode a JPEG to slightly other pixels.
        self._seed = f"{projector.identity} {PIL.__version__}"
        self._layouts: OrderedDict[str, Layout] = OrderedDict()
        self._lock = threading.Lock()

    def tokens(
        self, text: str, guard: str | None, sources: Sequence[PictureSource]
    ) -> tuple[list[int], tuple[ImageSpan, ...]]:
        """A rendered prompt's ids, and where its pictures stand.

        Raises RequestError, naming message and part, for a picture that cannot be
        used.
        """
        pictures = self._read(sources)
        ids: list[int] = []
        spans: list[ImageSpan] = []
        seen = set()
        end = 0
        for match in _MARKER.finditer(text):
            number = MARKERS.index(match[0])
            if number >= len(sources):
                continue
            seen.add(number)
            ids += self._vocab.guarded_ids(text[end : match.start()], guard)
            picture, layout = pictures[number]
            self._place(picture, layout, ids, spans)
            end = match.end()
        for number, source in enumerate(sources):
            if number not in seen:
                raise RequestError(
                    f"{source.where}: the model's chat template leaves it out",
                    param=source.where,
                )
        ids += self._vocab.guarded_ids(text[end:], guard)
        n_without = len(ids)
        ids = self._vocab.with_bos(ids)
        shift = len(ids) - n_without
        return ids, tuple(replace(span, first=span.first + shift) for span in spans)

    def _read(self, sources: Sequence[PictureSource]) -> list[tuple[Picture, Layout]]:
        n_before = 0
        found = []
        for source in sources:
            with about(source.where):
                picture = Picture.of(read_source(source.text))
                layout = self._known(picture.digest)
                if layout is None:
                    layout, n_pixels = self._look(picture, n_before)
                    n_before += n_pixels
            found.append((picture, layout))
        return found

    def _known(self, digest: str) -> Layout | None:
        with self._lock:
            layout = self._layouts.get(digest)
            if layout is not None:
                self._layouts.move_to_end(digest)
            return layout

    def _look(self, picture: Picture, n_before: int) -> tuple[Layout, int]:
        """A new picture's layout and pixels, after others of `n_before` pixels."""
        pixels = decode(picture.data)
        n_pixels = pixels.width * pixels.height
        if n_before + n_pixels > MAX_REQUEST_PIXELS:
            raise RequestError(
                "is too much: the pictures of a request may have"
                f" {MAX_REQUEST_PIXELS} pixels together"
            )
        layout = self._projector.layout(pixels.width, pixels.height)
        for piece in layout:
            if isinstance(piece, Tile) and self._projector.sees_ahead:
                self._check_pass(piece)
        with self._lock:
            self._layouts[picture.digest] = layout
            while len(self._layouts) > _LAYOUTS:
                self._layouts.popitem(last=False)
        return layout, n_pixels

    def _check_pass(self, tile: Tile) -> None:
        if tile.n_tokens > self._n_batch:
            raise RequestError(
                f"becomes {tile.n_tokens} tokens, which this model reads in one pass,"
                f" and a pass takes {self._n_batch}: start the server with a larger"
                " --batch-size"
            )

    def _place(
        self, picture: Picture, layout: Layout, ids: list[int], spans: list[ImageSpan]
    ) -> None:
        number = 0
        for piece in layout:
            if isinstance(piece, Markers):
                ids += piece.tokens
                continue
            span = ImageSpan(
                first=len(ids),
                tile=piece,
                number=number,
                picture=picture,
                sees_ahead=self._projector.sees_ahead,
            )
            spans.append(span)
            ids += tile_ids(f"{self._seed} {picture.digest}", number, piece)
            number += 1


def tile_ids(picture: str, number: int, tile: Tile) -> list[int]:
    """Ids for a tile's tokens: below zero, the same for the same tile alone.

    `picture` is whatever tells the picture from others, and how it was read. A tile of
    few tokens has other ids each time, so that nothing is ever built on it.
    """
    seed = f"{picture} {number} {tile.n_tokens} {tile.n_positions}".encode()
    if tile.n_tokens < _FEW_TOKENS:
        seed += os.urandom(16)
    raw = hashlib.shake_128(seed).digest(4 * tile.n_tokens)
    found: list[int] = (np.frombuffer(raw, "<u4") | 0x80000000).view(np.int32).tolist()
    return found
