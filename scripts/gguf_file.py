"""Writing a GGUF file from plain metadata values and float tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from gguf import (
    GGML_QUANT_SIZES,
    GGMLQuantizationType,
    GGUFValueType,
    GGUFWriter,
)
from gguf.quants import quantize


class Int32(int):
    """A metadata number to write as INT32.

    A plain int is written as UINT32, as llama.cpp wants counts and ids.
    """


MetaValue = bool | int | float | str | Sequence[int | float | str]
Metadata = Mapping[str, MetaValue]
Tensor = npt.NDArray[np.float32]

# Kernels that ggml has in float32 only, and tables too small to be worth packing:
# llama.cpp's own converter leaves the same ones alone.
_ALWAYS_F32 = (
    "ffn_gate_inp.weight",
    "ssm_conv1d.weight",
    "shortconv.conv.weight",
    "position_embd.weight",
    "token_types.weight",
    "cls.weight",
    "cls.output.weight",
)


def write_gguf(
    path: Path,
    metadata: Metadata,
    tensors: Iterable[tuple[str, Tensor]],
    matrix_type: GGMLQuantizationType,
) -> None:
    """Writes one model file.

    Args:
        path: Where to write; an existing file is replaced.
        metadata: Every key of the file, `general.architecture` among them.
        tensors: Names and float32 values, outermost dimension first as numpy
            has them (GGUF lists dimensions the other way round).
        matrix_type: Stored type of the matrices. Vectors, and matrices whose
            rows do not fill whole blocks of that type, stay float32.
    """
    writer = GGUFWriter(path, str(metadata["general.architecture"]))
    for key, value in metadata.items():
        if key != "general.architecture":  # the writer has put it in already
            _add(writer, key, value)
    for name, tensor in tensors:
        stored = _stored_type(name, tensor, matrix_type)
        writer.add_tensor(name, quantize(tensor, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add(writer: GGUFWriter, key: str, value: MetaValue) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case Int32():
            writer.add_int32(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            # `add_string` leaves an empty one out.
            writer.add_key_value(key, value, GGUFValueType.STRING)
        case _:
            writer.add_array(key, list(value))


def _stored_type(
    name: str, tensor: Tensor, matrix_type: GGMLQuantizationType
) -> GGMLQuantizationType:
    block, _ = GGML_QUANT_SIZES[matrix_type]
    keep = tensor.ndim == 1 or name.endswith(_ALWAYS_F32)
    if keep or tensor.shape[-1] % block:
        return GGMLQuantizationType.F32
    return matrix_type


def stream_gguf(
    path: Path,
    metadata: Metadata,
    shapes: Sequence[tuple[str, tuple[int, ...]]],
    tensors: Iterable[Tensor],
) -> None:
    """Writes one model file that need not fit into memory.

    Args:
        path: Where to write; an existing file is replaced.
        metadata: Every key of the file, `general.architecture` among them.
        shapes: Names and sizes of all tensors, outermost dimension first.
        tensors: Their float32 values, in the same order; one at a time is held.
            Matrices are stored in half precision, vectors as they are.
    """
    writer = GGUFWriter(path, str(metadata["general.architecture"]))
    for key, value in metadata.items():
        if key != "general.architecture":  # the writer has put it in already
            _add(writer, key, value)
    kinds = [
        np.dtype(np.float32 if len(size) == 1 else np.float16) for _, size in shapes
    ]
    for (name, size), kind in zip(shapes, kinds, strict=True):
        writer.add_tensor_info(name, size, kind, math.prod(size) * kind.itemsize)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor, kind in zip(tensors, kinds, strict=True):
        writer.write_tensor_data(tensor.astype(kind))
    writer.close()
