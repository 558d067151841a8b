import pytest

from kinetic.errors import ModelNotFound, RequestError
from kinetic.web.ollama.names import check_name, display_name, is_served

NAMES = ("SmolLM2-135M.Q4_1", "SmolLM2-135M.Q4_1.gguf")


def test_a_name_is_shown_with_its_tag():
    assert display_name("smollm2") == "smollm2:latest"
    assert display_name("qwen3:4b") == "qwen3:4b"
    assert display_name("owner/name") == "owner/name:latest"


@pytest.mark.parametrize(
    "asked",
    [
        "SmolLM2-135M.Q4_1",
        "smollm2-135m.q4_1",
        "SmolLM2-135M.Q4_1:latest",
        "SmolLM2-135M.Q4_1.gguf",
        "library/SmolLM2-135M.Q4_1",
        "registry.ollama.ai/library/SmolLM2-135M.Q4_1:latest",
        " SmolLM2-135M.Q4_1 ",
    ],
)
def test_the_served_model_goes_by_many_names(asked):
    assert is_served(asked, NAMES)
    assert check_name({"model": asked}, NAMES) == asked


@pytest.mark.parametrize(
    "asked", ["x", "SmolLM2-135M", "SmolLM2-135M.Q4_1:1b", "latest"]
)
def test_another_name_is_not_found_in_ollamas_words(asked):
    with pytest.raises(ModelNotFound) as error:
        check_name({"model": asked}, NAMES)
    assert str(error.value) == f"model '{asked}' not found"


def test_a_tag_of_the_alias_counts():
    assert is_served("qwen3:4b", ["qwen3:4b", "file.gguf"])
    assert not is_served("qwen3", ["qwen3:4b", "file.gguf"])
    assert not is_served("qwen3:8b", ["qwen3:4b", "file.gguf"])


@pytest.mark.parametrize("body", [{}, {"model": ""}, {"model": None}, {"name": ""}])
def test_no_name_is_missing_or_unknown_as_the_route_has_it(body):
    with pytest.raises(RequestError, match="model is required"):
        check_name(body, NAMES)
    with pytest.raises(ModelNotFound, match="model '' not found"):
        check_name(body, NAMES, is_needed=False)


def test_the_older_field_is_read_where_the_newer_one_is_missing():
    assert check_name({"name": NAMES[0]}, NAMES) == NAMES[0]
    with pytest.raises(ModelNotFound):
        check_name({"name": NAMES[0], "model": "x"}, NAMES)


@pytest.mark.parametrize("name", [5, ["x"], {}, True])
def test_a_name_that_is_no_text_is_refused(name):
    with pytest.raises(RequestError, match="model must be a string"):
        check_name({"model": name}, NAMES)


def test_a_name_of_megabytes_is_not_repeated():
    with pytest.raises(ModelNotFound) as refused:
        check_name({"model": "a" * 1_000_000}, NAMES)
    assert len(str(refused.value)) < 400
    long = "registry.example/" + "a" * 300
    with pytest.raises(ModelNotFound, match=long):
        check_name({"model": long}, NAMES)
