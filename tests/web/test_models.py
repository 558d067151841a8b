"""The list of models, as clients of OpenAI and of llama-server read it."""

from __future__ import annotations

import pytest

from kinetic.web.models import model_entry, models_body
from tests.support.served import model_info


def test_openais_clients_find_the_model_and_its_context():
    body = models_body(model_info(id="m"))
    assert body["object"] == "list"
    (entry,) = body["data"]
    assert entry == model_entry(model_info(id="m"))
    first = {name: entry[name] for name in list(entry)[:5]}
    assert first == {
        "id": "m",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "kinetic",
        "context_length": 4096,
    }


def test_llama_servers_clients_find_what_it_tells_of_a_model():
    entry = model_entry(model_info(id="m"))
    assert (entry["aliases"], entry["tags"]) == (["m"], [])
    assert list(entry["meta"]) == [
        "vocab_type",
        "n_vocab",
        "n_ctx",
        "n_ctx_train",
        "n_embd",
        "n_params",
        "size",
        "ftype",
    ]
    assert entry["meta"]["n_ctx_train"] == 8192


@pytest.mark.parametrize(
    ("info", "capabilities"),
    [
        ({}, ["completion"]),
        ({"has_vision": True}, ["completion", "multimodal"]),
        ({"kind": "embedding"}, ["embedding"]),
        ({"kind": "rerank"}, ["rerank"]),
    ],
)
def test_capabilities_are_told_beside_the_list(info, capabilities):
    (entry,) = models_body(model_info(id="m", **info))["models"]
    assert (entry["name"], entry["model"]) == ("m", "m")
    assert entry["capabilities"] == capabilities
    assert entry["details"]["format"] == "gguf"
