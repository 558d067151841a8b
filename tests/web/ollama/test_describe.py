import json
from datetime import UTC, datetime, timedelta

import pytest
from ollama import ListResponse, ProcessResponse, ShowResponse

from kinetic.files.gguf import Header, Tensor
from kinetic.types import SamplingParams
from kinetic.web.http.written import dumps
from kinetic.web.ollama import describe
from tests.support.served import model_info

HEADER = Header(
    {
        "general.architecture": "llama",
        "general.name": "Tiny",
        "general.license": "mit",
        "llama.context_length": 8192,
        "x.nan": float("nan"),
        "x.list": [1.0, float("inf")],
        "tokenizer.ggml.tokens": [],
        "tokenizer.chat_template": "{{ messages }}",
    },
    (Tensor("a.weight", "Q4_K", (3, 2)),),
)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (7_000_000_000, "7B"),
        (7_615_616_512, "7.6B"),
        (268_098_176, "268.10M"),
        (134_515_008, "134.52M"),
        (22_000_000, "22M"),
        (1_500, "2K"),
        (999, "999"),
    ],
)
def test_parameters_are_counted_in_ollamas_way(count, text):
    assert describe.parameter_size(count) == text


@pytest.mark.parametrize(
    ("metadata", "level"),
    [
        ({"general.file_type": "15"}, "Q4_K_M"),
        ({"general.file_type": "0"}, "F32"),
        ({"general.file_type": "999"}, "unknown"),
        ({"general.file_type": "x"}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_the_quantisation_is_told_as_in_file_names(metadata, level):
    assert describe.quantization(model_info(metadata=metadata)) == level


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, ["completion", "tools"]),
        ({"knows_thinking": True}, ["completion", "tools", "thinking"]),
        ({"has_vision": True}, ["completion", "tools", "vision"]),
        ({"kind": "embedding"}, ["embedding"]),
        ({"kind": "rerank"}, []),
    ],
)
def test_capabilities_are_what_the_server_does_with_the_model(changes, found):
    assert describe.capabilities(model_info(**changes)) == found


def test_tags_have_every_field():
    model = describe.listed(model_info(), "f" * 64)
    modified = model.pop("modified_at")
    assert datetime.fromisoformat(modified).timestamp() == 1_700_000_000
    assert model == {
        "name": "tiny:latest",
        "model": "tiny:latest",
        "size": 800_000_000,
        "digest": "f" * 64,
        "details": {
            "parent_model": "",
            "format": "gguf",
            "family": "llama",
            "families": ["llama"],
            "parameter_size": "1.2B",
            "quantization_level": "Q4_K_M",
            "context_length": 4096,
            "embedding_length": 2048,
        },
        "capabilities": ["completion", "tools"],
    }


def test_the_model_in_memory_stays_for_ever():
    model = describe.loaded(model_info(), "f" * 64, 0)
    assert datetime.fromisoformat(model["expires_at"]) > datetime.now(UTC) + timedelta(
        days=365 * 100
    )
    assert model["context_length"] == 4096
    assert "context_length" not in model["details"]


@pytest.mark.parametrize(
    ("n_gpu_layers", "share"),
    [(0, 0), (17, 800_000_000), (99, 800_000_000), (8, 376_470_588)],
)
def test_the_accelerators_share_goes_by_layers(n_gpu_layers, share):
    assert describe.loaded(model_info(), "", n_gpu_layers)["size_vram"] == share


def test_show_tells_metadata_with_types_and_no_text_twice():
    shown = json.loads(dumps(describe.shown(model_info(), HEADER)))
    assert shown["model_info"] == {
        "general.parameter_count": 1_234_000_000,
        "general.architecture": "llama",
        "general.license": "mit",
        "llama.context_length": 8192,
        "x.nan": None,
        "x.list": [1.0, None],
        "tokenizer.ggml.tokens": [],
    }
    assert shown["template"] == "{{ messages }}"
    assert shown["license"] == "mit"
    assert shown["tensors"] == [{"name": "a.weight", "type": "Q4_K", "shape": [3, 2]}]
    assert shown["parameters"] == f"{'num_ctx':30} 4096"
    assert "FROM tiny-Q4_K_M.gguf" in shown["modelfile"]
    assert "/models/" not in dumps(shown)


def test_show_tells_the_sampling_that_the_file_recommends():
    info = model_info(sampling=SamplingParams(temperature=0.6, top_k=20))
    lines = describe.shown(info, HEADER)["parameters"].splitlines()
    assert [line.split() for line in lines] == [
        ["num_ctx", "4096"],
        ["temperature", "0.6"],
        ["top_k", "20"],
    ]


def test_the_official_client_reads_all_three():
    info = model_info(knows_thinking=True)
    tags = ListResponse.model_validate({"models": [describe.listed(info, "f" * 64)]})
    assert tags.models[0].model == "tiny:latest"
    ps = ProcessResponse.model_validate(
        {"models": [describe.loaded(info, "f" * 64, 0)]}
    )
    assert ps.models[0].expires_at is not None
    show = ShowResponse.model_validate(describe.shown(info, HEADER))
    assert show.capabilities == ["completion", "tools", "thinking"]
    assert show.modelinfo is not None


def test_the_version_is_three_numbers():
    parts = describe.API_VERSION.split(".")
    assert len(parts) == 3
    assert all(part.isdigit() for part in parts)


def test_a_digest_not_known_yet_is_as_long_as_one():
    assert len(describe.UNKNOWN_DIGEST) == 64


def test_a_projector_is_shown_beside_the_model():
    assert "projector_info" not in describe.shown(model_info(), HEADER)
    projector = Header({"clip.projector_type": "mlp", "x": float("inf")}, ())
    found = describe.shown(model_info(), HEADER, projector)["projector_info"]
    assert found == {"clip.projector_type": "mlp", "x": None}
