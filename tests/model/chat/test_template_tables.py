"""What is known of each of llama.cpp's seventy templates."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from kinetic.model.chat.template.template import CHATML, ChatTemplate
from tests.model.chat.conftest import NOW

RECORDED = json.loads(
    (Path(__file__).parent / "llama_cpp_prompts.json").read_text(encoding="utf-8")
)

FAMILIES = {
    "qwen3.5": {
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        "Qwen3-Coder",
        "Qwen3.5-4B",
        "StepFun3.5-Flash",
    },
    "hermes": {
        "Bielik-11B-v3.0-Instruct",
        "MiMo-VL",
        "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
        "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
        "Qwen-QwQ-32B",
        "Qwen-Qwen2.5-7B-Instruct",
        "Qwen-Qwen3-0.6B",
        "Reka-Edge",
        "ibm-granite-granite-4.0",
        "ibm-granite-granite-4.1",
    },
    "lfm2": {"LFM2-8B-A1B", "LFM2.5-8B-A1B", "LFM2.5-Instruct"},
    "llama3": {
        "meta-llama-Llama-3.1-8B-Instruct",
        "meta-llama-Llama-3.2-3B-Instruct",
        "meta-llama-Llama-3.3-70B-Instruct",
    },
    "mistral": {
        "Mistral-Small-3.2-24B-Instruct-2506",
        "mistralai-Ministral-3-14B-Reasoning-2512",
        "mistralai-Mistral-Nemo-Instruct-2407",
        "unsloth-mistral-Devstral-Small-2507",
    },
    "gpt-oss": {"openai-gpt-oss-120b"},
}

# Where the prompt ends in an open block: with thinking unset, true, false.
OPEN_BLOCKS = {
    "Apriel-1.6-15b-Thinker-fixed": "111",
    "Bielik-11B-v3.0-Instruct": "010",
    "Cohere2MoE": "111",
    "GLM-4.7-Flash": "110",
    "Kimi-K3": "110",
    "MiniMax-M2": "111",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "110",
    "NVIDIA-Nemotron-Nano-v2": "111",
    "Qwen-QwQ-32B": "010",
    "Qwen3.5-4B": "110",
    "Reka-Edge": "010",
    "Spark2.5": "110",
    "StepFun3.5-Flash": "111",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "111",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "010",
    "deepseek-ai-DeepSeek-V3.1": "010",
    "deepseek-ai-DeepSeek-V3.2": "010",
    "deepseek-ai-DeepSeek-V4": "010",
    "deepseek-ai-DeepSeek-V4-Flash-0731": "010",
    "inclusionai-ling-3.0-flash": "110",
    "llama-cpp-deepseek-r1": "111",
    "llama-cpp-rwkv-world": "010",
    "openbmb-MiniCPM5-1B": "010",
    "poolside-Laguna-S-2.1": "110",
    "poolside-Laguna-XS-2.1": "010",
    "poolside-Laguna-XS.2": "010",
}

WITHOUT_TAGS = {
    "CohereForAI-c4ai-command-r-plus-tool_use",
    "GigaChat3-10B-A1.8B",
    "GigaChat3.1-10B-A1.8B",
    "Kimi-K2-Instruct",
    "LFM2-8B-A1B",
    "MiMo-VL",
    "MiniMax-M1",
    "Mistral-Small-3.2-24B-Instruct-2506",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
    "Qwen-Qwen2.5-7B-Instruct",
    "Qwen3-Coder",
    "fireworks-ai-llama-3-firefunction-v2",
    "google-gemma-2-2b-it",
    "ibm-granite-granite-4.0",
    "ibm-granite-granite-4.1",
    "meetkai-functionary-medium-v3.1",
    "meetkai-functionary-medium-v3.2",
    "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct",
    "meta-llama-Llama-3.3-70B-Instruct",
    "microsoft-Phi-3.5-mini-instruct",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "moonshotai-Kimi-K2",
    "muse-glimmer",
    "openai-gpt-oss-120b",
    "unsloth-mistral-Devstral-Small-2507",
    "upstage-Solar-Open-100B",
}

PLAIN = [
    {"role": "system", "content": "Be <b>brief</b>."},
    {"role": "user", "content": '  Wie spät ist\'s? "日本" & {x}\n'},
    {"role": "assistant", "content": "Five."},
    {"role": "user", "content": "Thanks\t!"},
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather's <state>.",
            "parameters": {
                "type": "object",
                "properties": {
                    "town": {"type": "string", "description": "Ort"},
                    "days": {"type": "integer", "description": "How many"},
                },
                "required": ["town"],
            },
        },
    }
]
CALLS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Oslo?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "abc123xyz",
                "type": "function",
                "function": {
                    "name": "get_weather",
                    "arguments": '{"town": "Oslo <N>", "days": 2}',
                },
            }
        ],
    },
    {
        "role": "tool",
        "tool_call_id": "abc123xyz",
        "name": "get_weather",
        "content": '{"temp": 3}',
    },
    {"role": "assistant", "content": "Three degrees."},
    {"role": "user", "content": "Thanks."},
]


def test_there_are_seventy_templates(template_names):
    assert len(template_names) == 70


def test_every_template_is_put_into_its_family(load, template_names):
    named = {name: family for family, names in FAMILIES.items() for name in names}
    found = {name: load(name).family for name in template_names}
    assert found == {name: named.get(name, "generic") for name in template_names}


def test_mistral_templates_have_three_call_forms(load, template_names):
    forms = {name: load(name).call_form for name in template_names}
    assert {name: form for name, form in forms.items() if form} == {
        "Mistral-Small-3.2-24B-Instruct-2506": "call_id",
        "mistralai-Ministral-3-14B-Reasoning-2512": "args",
        "mistralai-Mistral-Nemo-Instruct-2407": "list",
        "unsloth-mistral-Devstral-Small-2507": "args",
    }


def test_capabilities_are_those_llama_server_reports(load, template_names):
    found = {}
    for name in template_names:
        capabilities = load(name).capabilities()
        assert list(capabilities) == sorted(capabilities)
        found[name] = "".join(str(int(value)) for value in capabilities.values())
    assert found == RECORDED["caps"]


def digest(text):
    for pattern in ("%Y-%m-%d", "%d %b %Y", "%b %d %Y", "%B %d, %Y"):
        text = text.replace(NOW.strftime(pattern), "<date>")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_plain_conversations_are_printed_as_llama_cpp_prints_them(
    render, template_names
):
    found = {
        name: digest(render(name, PLAIN, kwargs={"enable_thinking": True}).text)
        for name in template_names
    }
    assert found == RECORDED["plain"]


def test_calls_are_printed_as_llama_cpp_prints_them_where_it_loses_nothing(render):
    assert len(RECORDED["calls"]) == 59
    on = {"enable_thinking": True}
    found = {
        name: digest(render(name, CALLS, tools=TOOLS, kwargs=on).text)
        for name in RECORDED["calls"]
    }
    assert found == RECORDED["calls"]


def test_an_open_thinking_block_is_seen_in_the_prompt(load, render, template_names):
    user = [{"role": "user", "content": "Hi"}]
    found = {}
    for name in template_names:
        opened = [
            render(name, user, kwargs=kwargs)
            for kwargs in ({}, {"enable_thinking": True}, {"enable_thinking": False})
        ]
        for rendered in opened:
            if rendered.think_open is not None:
                assert rendered.think_open == load(name).think_tags[0]
                assert rendered.text.rstrip().endswith(rendered.think_open)
        found[name] = "".join(str(int(one.think_open is not None)) for one in opened)
    assert {name: bits for name, bits in found.items() if "1" in bits} == OPEN_BLOCKS


def test_templates_that_know_a_thinking_block_have_its_tags(load, template_names):
    tags = {name: load(name).think_tags for name in template_names}
    assert {name for name, pair in tags.items() if pair is None} == WITHOUT_TAGS
    assert all(load(name).knows_think == bool(pair) for name, pair in tags.items())
    unusual = {
        name: pair for name, pair in tags.items() if pair and pair[0] != "<think>"
    }
    assert unusual == {
        "Apertus-8B-Instruct": ("<|inner_prefix|>", "<|inner_suffix|>"),
        "Apriel-1.6-15b-Thinker-fixed": (
            "Here are my reasoning steps:",
            "[BEGIN FINAL RESPONSE]",
        ),
        "ByteDance-Seed-OSS": ("<seed:think>", "</seed:think>"),
        "Cohere2MoE": ("<|START_THINKING|>", "<|END_THINKING|>"),
        "CohereForAI-c4ai-command-r7b-12-2024-tool_use": (
            "<|START_THINKING|>",
            "<|END_THINKING|>",
        ),
        "Kimi-K3": ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
        "MiniMax-M3": ("<mm:think>", "</mm:think>"),
        "google-gemma-4-31B-it": ("<|channel>thought", "<channel|>"),
        "google-gemma-4-31B-it-interleaved": ("<|channel>thought", "<channel|>"),
        "mistralai-Ministral-3-14B-Reasoning-2512": ("[THINK]", "[/THINK]"),
        "tencent-Hy3": ("<think:opensource>", "</think:opensource>"),
        "unsloth-Apriel-1.5": ("<thinking>", "</thinking>"),
    }


def test_a_model_without_a_template_gets_chatml(render):
    template = ChatTemplate(None)
    assert template.source == CHATML
    assert template.family == "generic"
    assert not template.knows_think
    rendered = render(template, PLAIN[:2])
    assert rendered.text == (
        "<|im_start|>system\nBe <b>brief</b>.<|im_end|>\n"
        '<|im_start|>user\n  Wie spät ist\'s? "日本" & {x}\n<|im_end|>\n'
        "<|im_start|>assistant\n"
    )
    assert (rendered.think_open, rendered.guard) == (None, None)


def test_the_tool_use_template_is_for_requests_with_tools(render, templates_dir):
    name = "NousResearch-Hermes-3-Llama-3.1-8B-tool_use"
    source = (templates_dir / f"{name}.jinja").read_text(encoding="utf-8")
    template = ChatTemplate(None, tool_use_source=source)
    assert template.family == "hermes"
    assert "function calling AI" not in render(template, PLAIN).text
    assert "function calling AI" in render(template, PLAIN, tools=TOOLS).text


@pytest.mark.parametrize("bos", ["", "<s>"])
def test_a_template_prints_the_bos_token_it_is_given(render, templates_dir, bos):
    path = templates_dir / "mistralai-Mistral-Nemo-Instruct-2407.jinja"
    template = ChatTemplate(path.read_text(encoding="utf-8"), bos_token=bos)
    text = render(template, [{"role": "user", "content": "Hi"}]).text
    assert text == f"{bos}[INST]Hi[/INST]"
