import struct

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter

from kinetic.errors import ModelError
from kinetic.files.gguf import FILE_TYPES, Tensor, read_header


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "m.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_uint32("llama.context_length", 4096)
    writer.add_float32("x.float", 0.5)
    writer.add_bool("x.yes", val=True)
    writer.add_int8("x.small", -3)
    writer.add_uint64("x.large", 2**40)
    writer.add_string("x.number", "7")
    writer.add_string("x.wörter", "ж漢")
    writer.add_array("x.texts", ["a", "", "ё"])
    writer.add_array("x.ints", [1, -2, 3])
    writer.add_tensor("a.weight", np.zeros((2, 3), np.float32))
    writer.add_tensor("b.weight", np.zeros(4, np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_values_keep_their_types_and_their_order(written):
    values = read_header(written).values
    assert values == {
        "general.architecture": "llama",
        "llama.context_length": 4096,
        "x.float": 0.5,
        "x.yes": True,
        "x.small": -3,
        "x.large": 2**40,
        "x.number": "7",
        "x.wörter": "ж漢",
        "x.texts": ["a", "", "ё"],
        "x.ints": [1, -2, 3],
    }
    assert values["x.yes"] is True
    assert next(iter(values)) == "general.architecture"


def test_tensors_have_names_types_and_shapes(written):
    assert read_header(written).tensors == (
        Tensor("a.weight", "F32", (3, 2)),
        Tensor("b.weight", "F16", (4,)),
    )


def test_long_lists_are_left_out_on_demand_and_all_else_is_the_same(written):
    whole, brief = read_header(written), read_header(written, most_items=2)
    assert brief.values == {**whole.values, "x.texts": [], "x.ints": []}
    assert brief.tensors == whole.tensors


def test_every_shorter_file_is_refused_and_none_crashes(written, tmp_path):
    whole = written.read_bytes()
    end = whole.index(b"b.weight") + 40
    cut = tmp_path / "cut.gguf"
    for n in range(0, end, 7):
        cut.write_bytes(whole[: min(n, end - 30)])
        with pytest.raises(ModelError, match="cannot be read"):
            read_header(cut)


@pytest.mark.parametrize(
    "raw",
    [
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60),
        b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0),
        b"GGUF" + struct.pack("<IQQ", 1, 0, 0),
        b"NOPE" + struct.pack("<IQQ", 3, 0, 0),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**50) + b"x" * 30,
        b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 4, 2**50) + b"x" * 30,
        b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 9, 1) + b"x" * 30,
        b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 99) + b"x" * 30,
        b"GGUF" + struct.pack("<IQQQ1sI", 3, 1, 0, 1, b"k", 2**31) + b"x" * 30,
    ],
)
def test_a_header_that_lies_is_refused(raw, tmp_path):
    path = tmp_path / "bad.gguf"
    path.write_bytes(raw)
    with pytest.raises(ModelError, match="cannot be read"):
        read_header(path)


def test_the_real_models_header_is_what_the_gguf_package_reads(smollm2_path):
    header = read_header(smollm2_path)
    peer = GGUFReader(smollm2_path)
    theirs = {
        key: field.contents()
        for key, field in peer.fields.items()
        if not key.startswith("GGUF.")
    }
    assert header.values == theirs
    assert [(t.name, t.type, list(t.shape)) for t in header.tensors] == [
        (t.name, t.tensor_type.name, t.shape.tolist()) for t in peer.tensors
    ]
    assert FILE_TYPES[header.values["general.file_type"]] == "Q4_1"
