import pytest

from kinetic.errors import ModelError
from kinetic.files import paths, store


@pytest.fixture
def root(tmp_path):
    for name in (
        "bge-small-en-v1.5-f16.gguf",
        "Qwen/Qwen3-GGUF/Qwen3-Q4_K_M.gguf",
        "Qwen/Qwen3-GGUF/Qwen3-Q8_0.gguf",
        "google/gemma-GGUF/gemma-Q4_0.gguf",
        "google/gemma-GGUF/mmproj-gemma-F16.gguf",
        "a/split/x/big-00001-of-00002.gguf",
        "a/split/x/big-00002-of-00002.gguf",
        "a/torn/torn-00001-of-00003.gguf",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"GGUF")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("bge-small-en-v1.5-f16", "bge-small-en-v1.5-f16.gguf"),
        ("BGE-small-en-v1.5-f16.gguf", "bge-small-en-v1.5-f16.gguf"),
        ("Qwen/Qwen3-GGUF:Q8_0", "Qwen3-Q8_0.gguf"),
        ("qwen3-gguf:q4_k_m", "Qwen3-Q4_K_M.gguf"),
        ("Qwen3-Q8_0", "Qwen3-Q8_0.gguf"),
        ("gemma-GGUF", "gemma-Q4_0.gguf"),
        ("gemma-GGUF:F16", "mmproj-gemma-F16.gguf"),
        ("google/gemma-GGUF:latest", "gemma-Q4_0.gguf"),
        ("a/split", "big-00001-of-00002.gguf"),
        ("big", "big-00001-of-00002.gguf"),
        ("a/split:big", "big-00001-of-00002.gguf"),
    ],
)
def test_a_model_is_found_by_its_names(root, name, file):
    assert store.find(name, root).path.name == file


def test_a_name_of_several_models_lists_them(root):
    with pytest.raises(
        ModelError, match="Qwen/Qwen3-GGUF:Q4_K_M, Qwen/Qwen3-GGUF:Q8_0"
    ):
        store.find("Qwen3-GGUF", root)


def test_an_unknown_name_says_how_to_get_it(root):
    with pytest.raises(ModelError, match="`kinetic pull x/y:Q4_0` fetches it"):
        store.find("x/y:Q4_0", root)
    with pytest.raises(ModelError, match="`kinetic list` shows all"):
        store.find("y", root)


def test_every_listed_name_finds_its_model(root):
    models = store.stored_models(root)
    assert len(models) == 6
    assert [store.find(m.name, root) for m in models] == models


def test_a_split_model_is_one_with_the_size_of_all_its_parts(root):
    model = store.find("big", root)
    assert (model.size_bytes, len(model.files), model.stem) == (8, 2, "big")


def test_a_part_other_than_the_first_is_refused(root):
    folder = root / "a/split/x"
    with pytest.raises(ModelError, match="name the first part"):
        store.shards(folder / "big-00002-of-00002.gguf")
    with pytest.raises(ModelError, match="no torn-00002-of-00003"):
        store.shards(root / "a/torn/torn-00001-of-00003.gguf")


@pytest.mark.parametrize(
    ("name", "quant"),
    [
        ("m-Q4_K_M.gguf", "Q4_K_M"),
        ("m.IQ2_XXS.gguf", "IQ2_XXS"),
        ("m-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("m-bf16.gguf", "bf16"),
        ("gpt-oss-mxfp4.gguf", "mxfp4"),
        ("m-Q8_0-00001-of-00002.gguf", "Q8_0"),
        ("Qwen3-0.6B.gguf", None),
    ],
)
def test_a_quantisation_is_read_from_a_files_name(name, quant):
    assert store.quant_of(name) == quant


def test_a_path_stays_a_path_and_a_name_is_looked_up(root, monkeypatch):
    monkeypatch.setattr(paths, "cache_dir", lambda _kind: root)
    file = root / "bge-small-en-v1.5-f16.gguf"
    missing = root / "missing.gguf"
    assert store.locate(file) == file
    assert store.locate(missing) == missing
    assert store.locate(type(file)("models/missing.gguf")).name == "missing.gguf"
    assert store.locate(type(file)("bge-small-en-v1.5-f16")) == file
    with pytest.raises(ModelError, match="no file and no pulled model"):
        store.locate(type(file)("nothing"))


def test_a_store_that_is_not_there_is_empty(tmp_path):
    assert store.stored_models(tmp_path / "no") == []
    assert list(tmp_path.iterdir()) == []
