"""A model in several files loads, and is, as the same model in one."""

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter

from kinetic.errors import ModelError
from kinetic.files.gguf import read_header, read_headers
from kinetic.files.store import shards
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.rows import Rows
from tests.support import tiny_models


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    """The tiny Qwen3 in files of seven tensors; the first one's path."""
    folder = tmp_path_factory.mktemp("split")
    reader = GGUFReader(tiny_models.qwen3())
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(folder / "m.gguf", architecture, split_max_tensors=7)
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            kind, items = field.types[0], field.types[-1]
            sub_type = items if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), kind, sub_type=sub_type)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return min(folder.iterdir())


def logits(path):
    engine = LlamaEngine(path, EngineOptions(n_ctx=64, n_parallel=1, n_threads=1))
    try:
        tokens = np.arange(1, 9, dtype=np.int32)
        (rows,) = engine.decode([Rows(0, 0, tokens, 1)])
        return engine.model.n_params, rows
    finally:
        engine.close()


def test_a_split_model_has_the_same_weights_and_gives_the_same_bits(split):
    assert split.name.startswith("m-00001-of-")
    n_params, rows = logits(split)
    whole_params, whole_rows = logits(tiny_models.qwen3())
    assert n_params == whole_params
    np.testing.assert_array_equal(rows, whole_rows)


def test_a_split_models_header_lists_every_tensor(split):
    header = read_headers(shards(split))
    whole = read_header(tiny_models.qwen3())
    assert {t.name for t in header.tensors} == {t.name for t in whole.tensors}
    assert header.values["general.name"] == whole.values["general.name"]


def test_the_memory_of_all_parts_is_asked_for(split):
    first = split.stat().st_size
    options = EngineOptions(n_ctx=64, n_parallel=1)
    with pytest.raises(ModelError, match="MiB of memory are free"):
        LlamaEngine(split, options, free_bytes=first + 1)


def test_a_missing_part_is_named(split, tmp_path):
    copy = tmp_path / split.name
    copy.write_bytes(split.read_bytes())
    with pytest.raises(ModelError, match="no m-00002-of-"):
        LlamaEngine(copy, EngineOptions(n_ctx=64, n_parallel=1))
