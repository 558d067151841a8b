"""What a GGUF file says of itself, with its types: metadata and the list of tensors.

The engine hands metadata out as text and leaves arrays away; clients want both. Only
the header is read, a few megabytes where the vocabulary is large.

Source: the layout is `docs/gguf.md` of ggml.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kinetic.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FILE_TYPES: Final = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
    41: "Q2_0",
}
"""Names of `general.file_type`, as files are called; `enum llama_ftype`."""

_TENSOR_TYPES: Final = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    6: "Q5_0",
    7: "Q5_1",
    8: "Q8_0",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    30: "BF16",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
    40: "NVFP4",
    41: "Q1_0",
    42: "Q2_0",
}
"""`enum ggml_type`."""

_SCALARS: Final = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING = 8
_ARRAY = 9
_VERSIONS = (2, 3)
_MAX_DIMENSIONS = 8


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of the file."""

    name: str
    type: str
    shape: tuple[int, ...]
    """The fastest-moving dimension first, as the file has it."""


@dataclass(frozen=True, slots=True)
class Header:
    """A file's metadata, in its order, and its tensors."""

    values: dict[str, Any]
    """Numbers, booleans, texts and lists of these."""
    tensors: tuple[Tensor, ...]


def read_headers(paths: Sequence[Path], *, most_items: int | None = None) -> Header:
    """The header of a model of one or more files: the first one's values, all tensors.

    See `read_header`.
    """
    headers = [read_header(path, most_items=most_items) for path in paths]
    tensors = tuple(tensor for header in headers for tensor in header.tensors)
    return Header(headers[0].values, tensors)


def read_header(path: Path, *, most_items: int | None = None) -> Header:
    """Read a file's header. Takes up to a second: not for the event loop.

    Args:
        path: The file, or the first part of a split one.
        most_items: Longer lists, such as a vocabulary, are left empty; None keeps all.

    Raises:
        ModelError: The file cannot be read, or its header makes no sense.
    """
    try:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return _Reader(data, most_items).header()
    except (OSError, ValueError, struct.error, IndexError) as error:
        raise ModelError(
            f"the header of {path.name} cannot be read: {error}"
        ) from error


class _Reader:
    """Reads forward; struct raises after the end of the data."""

    def __init__(self, data: mmap.mmap | bytes, most_items: int | None) -> None:
        self._data = data
        self._most_items = most_items
        self._at = 0

    def header(self) -> Header:
        magic, version, n_tensors, n_values = self._unpack("4sIQQ")
        if magic != b"GGUF" or version not in _VERSIONS:
            raise ValueError("it is no GGUF file of version 2 or 3")
        self._check_count(n_values, 13)
        self._check_count(n_tensors, 24)
        values = {}
        for _ in range(n_values):
            key = self._text()
            values[key] = self._value(self._unpack("I")[0])
        return Header(values, tuple(self._tensor() for _ in range(n_tensors)))

    def _unpack(self, layout: str) -> tuple[Any, ...]:
        shape = struct.Struct("<" + layout)
        if self._at + shape.size > len(self._data):
            raise ValueError("it is cut short")
        found = shape.unpack_from(self._data, self._at)
        self._at += shape.size
        return found

    def _check_count(self, count: int, least_bytes: int) -> None:
        """Refuse counts that the rest of the file has no room for."""
        if count * least_bytes > len(self._data) - self._at:
            raise ValueError(f"it lists {count} items and ends before them")

    def _text(self) -> str:
        n_bytes = self._unpack("Q")[0]
        self._check_count(n_bytes, 1)
        raw = self._data[self._at : self._at + n_bytes]
        self._at += n_bytes
        return raw.decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            return self._array()
        return self._unpack(_letter(kind))[0]

    def _array(self) -> list[Any]:
        kind, count = self._unpack("IQ")
        is_left_out = self._most_items is not None and count > self._most_items
        if kind == _STRING:
            self._check_count(count, 8)
            if is_left_out:
                self._skip_texts(count)
                return []
            return [self._text() for _ in range(count)]
        # Arrays of arrays are allowed by the format and written by nobody.
        letter = _letter(kind)
        self._check_count(count, struct.calcsize("<" + letter))
        if is_left_out:
            self._at += count * struct.calcsize("<" + letter)
            return []
        return list(self._unpack(f"{count}{letter}"))

    def _skip_texts(self, count: int) -> None:
        for _ in range(count):
            n_bytes = self._unpack("Q")[0]
            self._check_count(n_bytes, 1)
            self._at += n_bytes

    def _tensor(self) -> Tensor:
        name = self._text()
        n_dimensions = self._unpack("I")[0]
        if n_dimensions > _MAX_DIMENSIONS:
            raise ValueError(f"tensor {name} has {n_dimensions} dimensions")
        shape = self._unpack(f"{n_dimensions}Q")
        kind, _offset = self._unpack("IQ")
        return Tensor(name, _TENSOR_TYPES.get(kind, f"type {kind}"), shape)


def _letter(kind: int) -> str:
    letter = _SCALARS.get(kind)
    if letter is None:
        raise ValueError(f"it has a value of the unknown type {kind}")
    return letter
