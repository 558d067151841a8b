"""What /props and /slots tell."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kinetic.actors.messages import Job
from kinetic.types import ModelInfo, SamplingParams
from kinetic.web.llama_server import describe


def words(text: str) -> list[str]:
    return text.split()


INFO = ModelInfo(
    id="m",
    path="folder/m.gguf",
    kind="text",
    architecture="llama",
    description="llama 1B",
    ftype="Q4_1",
    n_params=1,
    size_bytes=2,
    n_vocab=3,
    n_embd=4,
    n_ctx_train=64,
    n_ctx=32,
    n_slots=2,
    vocab_type=2,
    created=1,
    metadata={},
    sampling=SamplingParams(temperature=0.5),
    chat_template="{{ x }}",
    template_caps={"supports_tools": True, "supports_system_role": False},
    knows_thinking=False,
    bos_token="<s>",
    eos_token="</s>",
    plan="uniform",
    plan_reason="probed",
    drafting="off: it is a test",
    versions={"kinetic": "1.2.3", "llama_cpp_python": "4.5.6"},
)
PROPS_KEYS = words(
    "default_generation_settings total_slots model_alias model_ftype model_path"
    " modalities media_marker endpoint_slots endpoint_props endpoint_metrics ui"
    " ui_settings chat_template chat_template_caps bos_token eos_token build_info"
    " is_sleeping cors_proxy_enabled"
)


@dataclass(frozen=True)
class Seat:
    slot_id: int = 0
    is_processing: bool = False
    job: Job | None = None
    n_cached: int = 0
    n_prompt_done: int = 0
    n_generated: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    has_new_line: bool = False
    task: int = -1


def job(**fields) -> Job:
    return Job(
        request_id="r", index=0, prompt=(72, 105), sampling=SamplingParams(), **fields
    )


def test_props_have_llama_servers_names_and_then_ours():
    found = describe.props(INFO, max_tokens=None)
    assert list(found) == [*PROPS_KEYS, "kinetic"]
    assert found["kinetic"] == {
        "plan": "uniform",
        "plan_reason": "probed",
        "drafting": "off: it is a test",
        "versions": {"kinetic": "1.2.3", "llama_cpp_python": "4.5.6"},
    }
    assert found["build_info"] == "kinetic-1.2.3 (llama-cpp-python 4.5.6)"


def test_props_tell_the_models_defaults():
    found = describe.props(INFO, max_tokens=9)["default_generation_settings"]
    assert found["n_ctx"] == 32
    assert (found["params"]["temperature"], found["params"]["n_predict"]) == (0.5, 9)


def test_a_second_template_for_tools_is_told_where_the_file_has_one():
    key = "tokenizer.chat_template.tool_use"
    with_it = replace(INFO, metadata={key: "{{ y }}"})
    assert (
        describe.props(with_it, max_tokens=None)["chat_template_tool_use"] == "{{ y }}"
    )


def test_a_slot_that_has_served_nobody_tells_little():
    (found,) = describe.slots([Seat()], INFO, detokenize=bytes)
    assert found == {
        "id": 0,
        "n_ctx": 32,
        "speculative": False,
        "is_processing": False,
    }


def test_a_busy_slot_tells_its_request_without_the_prompt():
    seat = Seat(
        slot_id=1,
        is_processing=True,
        job=job(max_tokens=5, settings={"stream": True}),
        n_cached=1,
        n_prompt_done=2,
        n_generated=3,
        has_new_line=True,
        task=7,
    )
    (found,) = describe.slots([seat], INFO, detokenize=None)
    params = found.pop("params")
    assert params["stream"]
    assert params["n_predict"] == 5
    assert "prompt" not in found
    assert found == {
        "id": 1,
        "n_ctx": 32,
        "speculative": False,
        "is_processing": True,
        "id_task": 7,
        "n_prompt_tokens": 2,
        "n_prompt_tokens_processed": 1,
        "n_prompt_tokens_cache": 1,
        "next_token": [
            {
                "has_next_token": True,
                "has_new_line": True,
                "n_remain": 2,
                "n_decoded": 3,
            }
        ],
    }


def test_a_slot_that_drafts_tells_how_well():
    seat = Seat(job=job(), task=0, n_generated=9, n_drafted=8, n_accepted=5)
    drafting = replace(INFO, n_draft=8)
    idle, busy = describe.slots([Seat(), seat], drafting, detokenize=None)
    assert idle["speculative"]
    assert (busy["n_draft"], busy["n_draft_accepted"]) == (8, 5)


def test_the_prompt_is_shown_where_the_operator_asked_for_it():
    (found,) = describe.slots([Seat(job=job(), task=0)], INFO, detokenize=bytes)
    assert found["prompt"] == "Hi"
    assert found["next_token"][0]["n_remain"] == -1
