"""The wall to mtmd, the engine's library for pictures: the only user of it.

A projector is the second file of a vision model. It says which tokens a picture of a
size becomes, and turns pixels into the vectors that stand for those tokens. Above this
module there are no pointers and no native objects but what `prepared` lends.

Rules kept here, beside those of library.py:

* One thread at a time encodes. `layout` and `prepared` only read the projector and may
  run in other threads meanwhile.
* A picture is always encoded on its own, never in a batch with others, and one node of
  the graph at a time (the engine may fuse neighbours), so that its vectors are the same
  bits every time.
* Native code aborts on sides that scale down to nothing: `check_shape` comes first.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kinetic.config import MIB
from kinetic.errors import InternalError, ModelError, RequestError
from kinetic.files.gguf import read_header
from kinetic.files.stamp import file_identity
from kinetic.model.memory import free_memory
from kinetic.model.native.library import (
    forget_reason,
    lib,
    library_folder,
    log_here,
    reason,
)
from kinetic.model.tiles import Axes, Markers, Tile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from kinetic.model.native.model import Model
    from kinetic.model.tiles import Layout, Pixels

MAX_ASPECT: Final = 200
"""Most that a picture's longer side may be of its shorter one."""

# What these two make of a picture depends on what stands before it in the prompt.
_UNSUPPORTED = frozenset(("hunyuanvl", "deepseek4v"))
_IMAGE = 1  # mtmd_input_chunk_type

# From where the engine's other libraries are: two builds would not fit together.
os.environ.setdefault("MTMD_CPP_LIB", library_folder())
try:
    mtmd: Any = importlib.import_module("llama_cpp.mtmd_cpp")
except (OSError, RuntimeError, AttributeError) as error:
    place = os.environ["MTMD_CPP_LIB"]
    raise ModelError(f"the engine's library for images is not in {place}") from error
log_here(mtmd.mtmd_helper_log_set)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectorOptions:
    """How a projector is to be loaded; zeros leave the choice to its file."""

    n_threads: int
    min_tokens: int = 0
    """Fewest tokens of a picture, for projectors that keep its shape."""
    max_tokens: int = 0
    """Most tokens of a picture, for projectors that keep its shape."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A picture, resized and cut as the encoder wants it; lent by `prepared`."""

    chunks: Any
    tiles: tuple[Tile, ...]


class Projector:
    """A loaded projector for one text model.

    Raises ModelError where the file cannot be used, or not with this model.
    """

    def __init__(self, path: Path, model: Model, options: ProjectorOptions) -> None:
        facts = read_facts(path)
        size, free = path.stat().st_size, free_memory()
        if size > free:
            raise ModelError(
                f"{path.name} needs {size // MIB} MiB and {free // MIB} MiB of memory"
                " are free"
            )
        params = mtmd.mtmd_context_params_default()
        params.print_timings = False
        params.n_threads = options.n_threads
        params.image_min_tokens = options.min_tokens or -1
        params.image_max_tokens = options.max_tokens or -1
        self._go_on: Callable[[], bool] = lambda: True
        self._is_dropped = False
        self._callback = lib.ggml_backend_sched_eval_callback(self._on_node)
        params.cb_eval = self._callback
        forget_reason()
        handle = mtmd.mtmd_init_from_file(
            str(path).encode(),
            model._handle,  # noqa: SLF001 - the two walls know each other
            params,
        )
        if not handle:
            why = reason("the engine refused the file")
            raise ModelError(f"cannot load the projector {path.name}: {why}")
        self._handle: Any = handle
        self.path = path
        self.options = options
        self.identity = (
            f"{file_identity(path)} {options.min_tokens} {options.max_tokens}"
        )
        """What a picture's tokens depend on besides the picture."""
        self.kind = facts.kind
        self.max_aspect = facts.max_aspect
        self.n_embd = model.n_embd_in
        self.sees_ahead = bool(mtmd.mtmd_decode_use_non_causal(handle, None))
        self._has_axes = bool(mtmd.mtmd_decode_use_mrope(handle))
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        if not mtmd.mtmd_support_vision(self._handle):
            raise ModelError(f"the projector {self.path.name} reads no pictures")
        # A small picture, and one that is cut into tiles where any is.
        for side in (64, 1024):
            for piece in self.layout(side, side):
                if isinstance(piece, Markers) and min(piece.tokens) < 0:
                    message = (
                        f"the projector {self.path.name} writes markers that the"
                        " model's vocabulary has not: is it for another model?"
                    )
                    raise ModelError(message)

    def check_shape(self, width: int, height: int) -> None:
        """Raise RequestError for sides that cannot be resized."""
        longer, shorter = max(width, height), min(width, height)
        if longer > self.max_aspect * shorter:
            raise RequestError(
                f"is {width} x {height} pixels; the longer side may be at most"
                f" {self.max_aspect} times the shorter one"
            )

    def layout(self, width: int, height: int) -> Layout:
        """The tokens of a picture of a size; any thread. Raises RequestError."""
        self.check_shape(width, height)
        with self._tokenized(width, height, None) as chunks:
            return self._pieces(chunks)

    @contextlib.contextmanager
    def prepared(self, pixels: Pixels) -> Iterator[Prepared]:
        """Lend a picture as the encoder wants it; any thread, any length of time."""
        self.check_shape(pixels.width, pixels.height)
        with self._tokenized(pixels.width, pixels.height, pixels.rgb) as chunks:
            pieces = self._pieces(chunks)
            tiles = tuple(piece for piece in pieces if isinstance(piece, Tile))
            yield Prepared(chunks, tiles)

    def encode(
        self, picture: Prepared, tile: int, go_on: Callable[[], bool]
    ) -> npt.NDArray[np.float32] | None:
        """The vectors of a picture's tile, [n_tokens, n_embd] float32, read-only.

        `go_on` is called again and again meanwhile, in the same thread; it may take
        its time, and the answer False gives the work up: the result is then None.
        Raises InternalError when the engine fails.
        """
        chunks = picture.chunks
        every = range(mtmd.mtmd_input_chunks_size(chunks))
        found = [mtmd.mtmd_input_chunks_get(chunks, i) for i in every]
        images = [c for c in found if mtmd.mtmd_input_chunk_get_type(c) == _IMAGE]
        self._is_dropped = False
        self._go_on = go_on
        forget_reason()
        try:
            result = mtmd.mtmd_encode_chunk(self._handle, images[tile])
        finally:
            self._go_on = lambda: True
        if self._is_dropped:
            return None
        if result != 0:
            why = reason("no reason given")
            raise InternalError(f"a picture could not be encoded: {why}")
        n_tokens = picture.tiles[tile].n_tokens
        pointer = mtmd.mtmd_get_output_embd(self._handle)
        vectors = np.ctypeslib.as_array(pointer, (n_tokens, self.n_embd)).copy()
        vectors.flags.writeable = False
        return vectors

    def close(self) -> None:
        """Free the projector; before the model."""
        if self._handle:
            mtmd.mtmd_free(self._handle)
            self._handle = None

    def _on_node(self, _node: object, ask: bool, _user: object) -> bool:
        """Asked before each node whether to stop after it, then told that it did.

        It stops after every one: measured, that costs an encoder of SigLIP's base size
        4 % of its time, and a pause is then never further away than one node.
        """
        if ask:
            return True
        try:
            self._is_dropped = not self._go_on()
        except BaseException:
            # Nothing can be raised through C; whoever asked sees the work given up.
            self._is_dropped = True
            raise
        return not self._is_dropped

    @contextlib.contextmanager
    def _tokenized(self, width: int, height: int, rgb: bytes | None) -> Iterator[Any]:
        data: Any = None
        if rgb is not None:
            if len(rgb) != width * height * 3:
                raise InternalError("a picture's pixels do not match its size")
            # The library copies them before it returns.
            data = ctypes.cast(ctypes.c_char_p(rgb), ctypes.POINTER(ctypes.c_uint8))
        bitmap = mtmd.mtmd_bitmap_init(width, height, data)
        chunks = mtmd.mtmd_input_chunks_init()
        try:
            part = mtmd.mtmd_input_part()
            part.bitmap = bitmap
            parts = (ctypes.POINTER(mtmd.mtmd_input_part) * 1)(ctypes.pointer(part))
            forget_reason()
            result = mtmd.mtmd_tokenize_from_parts(
                self._handle, chunks, parts, 1, False
            )
            if result != 0:
                why = reason("no reason given")
                raise RequestError(f"cannot be resized for this model: {why}")
            # What is left is the resized copy.
            mtmd.mtmd_bitmap_free(bitmap)
            bitmap = None
            yield chunks
        finally:
            mtmd.mtmd_bitmap_free(bitmap)
            mtmd.mtmd_input_chunks_free(chunks)

    def _pieces(self, chunks: Any) -> Layout:
        pieces: list[Markers | Tile] = []
        for i in range(mtmd.mtmd_input_chunks_size(chunks)):
            chunk: Any = mtmd.mtmd_input_chunks_get(chunks, i)
            if mtmd.mtmd_input_chunk_get_type(chunk) == _IMAGE:
                pieces.append(self._tile(chunk))
            else:
                n = ctypes.c_size_t()
                ids: Any = mtmd.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(n))
                pieces.append(Markers(tuple(int(ids[k]) for k in range(n.value))))
        return tuple(pieces)

    def _tile(self, chunk: Any) -> Tile:
        n_tokens = int(mtmd.mtmd_input_chunk_get_n_tokens(chunk))
        return Tile(
            n_tokens=n_tokens,
            n_positions=int(mtmd.mtmd_input_chunk_get_n_pos(chunk)),
            axes=self._axes(chunk, n_tokens) if self._has_axes else None,
        )

    @staticmethod
    def _axes(chunk: Any, n_tokens: int) -> Axes:
        tokens: Any = mtmd.mtmd_input_chunk_get_tokens_image(chunk)
        at = np.empty((2, 4, n_tokens), np.int32)
        for first in (0, 1):
            for i in range(n_tokens):
                place = mtmd.mtmd_image_tokens_get_decoder_pos(tokens, first, i)
                # The text model's order: time, row, column.
                at[first, :, i] = (place.t, place.y, place.x, place.z)
        axes = Axes(at[0].copy(), at[1] - at[0])
        axes.start.flags.writeable = axes.slope.flags.writeable = False
        return axes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectorFacts:
    """What a projector's file says of itself."""

    kind: str
    max_aspect: int


def read_facts(path: Path) -> ProjectorFacts:
    """Read a projector's header. Raises ModelError where it is another kind of file."""
    if not path.is_file():
        raise ModelError(f"the projector {path} is not a file")
    values = read_header(path, most_items=0).values
    architecture = values.get("general.architecture", "")
    if architecture != "clip":
        what = f'a model ("{architecture}")' if architecture else "something else"
        raise ModelError(
            f"{path.name} is no projector but {what}: --mmproj takes the mmproj file"
            " that belongs to the model"
        )
    if not values.get("clip.has_vision_encoder", False):
        raise ModelError(f"the projector {path.name} reads no pictures")
    kind = str(
        values.get("clip.projector_type")
        or values.get("clip.vision.projector_type")
        or "mlp"
    )
    if kind in _UNSUPPORTED:
        raise ModelError(
            f"the projector {path.name} is of the kind {kind}, which is not supported"
        )
    # A side must not become less than a pixel, however it is scaled down.
    sides = ("clip.vision.image_size", "clip.vision.preproc_image_size")
    known = [int(values[side]) for side in sides if values.get(side)]
    return ProjectorFacts(kind=kind, max_aspect=min([MAX_ASPECT, *known]))
