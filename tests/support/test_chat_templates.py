"""The templates of the tiny models write the layouts of their families."""

import json
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tests.support import chat_templates

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Rain in Oslo?"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"function": {"name": "rain", "arguments": {"city": "Oslo"}}}],
}
RESULT = {"role": "tool", "content": "yes"}
TOOL = {"type": "function", "function": {"name": "rain", "parameters": {}}}


def render(source: str, messages: list[dict[str, Any]], **more: Any) -> str:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = json.dumps
    return environment.from_string(source).render(
        messages=messages, add_generation_prompt=True, bos_token="<s>", **more
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            chat_templates.QWEN3,
            (
                "<|im_start|>system\nBe brief.<|im_end|>\n"
                "<|im_start|>user\nRain in Oslo?<|im_end|>\n<|im_start|>assistant\n"
            ),
        ),
        (
            chat_templates.LFM2,
            (
                "<s><|im_start|>system\nBe brief.<|im_end|>\n"
                "<|im_start|>user\nRain in Oslo?<|im_end|>\n<|im_start|>assistant\n"
            ),
        ),
        (
            chat_templates.LLAMA3,
            (
                "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
                "<|start_header_id|>user<|end_header_id|>\n\nRain in Oslo?<|eot_id|>"
                "<|start_header_id|>assistant<|end_header_id|>\n\n"
            ),
        ),
        (
            chat_templates.GEMMA,
            (
                "<s><start_of_turn>user\nBe brief.\n\nRain in Oslo?<end_of_turn>\n"
                "<start_of_turn>model\n"
            ),
        ),
    ],
    ids=["qwen3", "lfm2", "llama3", "gemma"],
)
def test_a_plain_conversation(source: str, expected: str) -> None:
    assert render(source, [SYSTEM, USER]) == expected


@pytest.mark.parametrize(
    ("source", "call", "result"),
    [
        (
            chat_templates.QWEN3,
            (
                "<|im_start|>assistant\n<tool_call>\n"
                '{"name": "rain", "arguments": {"city": "Oslo"}}\n</tool_call><|im_end|>'
            ),
            "<tool_response>\nyes\n</tool_response>",
        ),
        (
            chat_templates.LLAMA3,
            '\n\n{"name": "rain", "parameters": {"city": "Oslo"}}<|eot_id|>',
            "<|start_header_id|>ipython<|end_header_id|>\n\nyes<|eot_id|>",
        ),
    ],
    ids=["qwen3", "llama3"],
)
def test_a_tool_call_and_its_result(source: str, call: str, result: str) -> None:
    text = render(source, [USER, CALL, RESULT], tools=[TOOL])

    assert text.index('"name": "rain"') < text.index(call) < text.index(result)


def test_thinking_is_switched_off_by_a_closed_block() -> None:
    text = render(chat_templates.QWEN3, [USER], enable_thinking=False)

    assert text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
