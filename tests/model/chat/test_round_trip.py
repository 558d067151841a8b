"""What a template prints of a call is read as that call again."""

import json
import re
from typing import Any

import pytest

from kinetic.model.chat.reply.calls import OutputFormat
from tests.model.chat.output_cases import read

# What comes behind is the next turn; a bare call has to be the end.
ENDS = re.compile(
    r"<\|im_end\|>|<\|eot_id\|>|<\|eom_id\|>|</s>|<EOS>|<\|end_of_text\|>|<\|im_start\|>"
)
ARGUMENTS = {"wkey": 'it\'s "wvalue" é <b>\n  x', "wnum": 3, "wlist": [True, None, "a"]}
TOOL = {
    "type": "function",
    "function": {
        "name": "wname",
        "description": "wdescription",
        "parameters": {
            "type": "object",
            "properties": {
                "wkey": {"type": "string"},
                "wnum": {"type": "integer"},
                "wlist": {"type": "array"},
            },
            "required": ["wkey"],
        },
    },
}
CALL = {
    "id": "abc123DEF",
    "type": "function",
    "function": {"name": "wname", "arguments": json.dumps(ARGUMENTS)},
}


def printed(render, template, calls: list[dict[str, Any]]) -> str:
    """The model's part of the text between a question and a tool's result."""
    asked = [{"role": "user", "content": "wuser"}]
    answered: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "tool_calls": calls},
        *(
            {"role": "tool", "tool_call_id": call["id"], "content": "wresult"}
            for call in calls
        ),
    ]
    prompt = render(template, asked, tools=[TOOL]).text
    text = render(
        template, [*asked, *answered], tools=[TOOL], add_generation_prompt=False
    ).text
    prompt = prompt[prompt.rindex("wuser") :]
    text = text[text.rindex("wuser") : text.index("wresult")]
    # A prompt may open thoughts where history shows none; a marker begins alike.
    prompt = prompt.partition("<think>")[0]
    start = next((i for i in range(len(prompt)) if prompt[i] != text[i]), len(prompt))
    return ENDS.split(text[start:])[0]


@pytest.mark.parametrize("n_calls", [1, 2])
def test_calls_survive_the_way_through_a_template(
    template_names, load, render, n_calls
):
    n_read = 0
    for name in template_names:
        template = load(name)
        if template.family == "generic":
            continue
        calls = [CALL, {**CALL, "id": "abc123DEG"}][:n_calls]
        if n_calls > 1 and template.family in ("llama3", "gpt-oss"):
            continue  # these have one call a message
        fmt = OutputFormat(
            family=template.family,
            tools=(TOOL,),
            think_tags=template.think_tags,
            parallel=True,
        )
        text = printed(render, template, calls)
        for result in (read(fmt, text), read(fmt, *text)):
            found = [json.loads(call.arguments) for call in result.calls]
            assert found == [ARGUMENTS] * n_calls, (name, text)
        n_read += 1
    assert n_read >= (18 if n_calls > 1 else 20)
