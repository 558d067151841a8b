"""Why a figure may be behind a peer's: by topic, true whatever the figures are."""

from __future__ import annotations

from typing import Final

BY_TOPIC: Final = {
    "New prompts": (
        "What makes every row independent of its neighbours"
        " ([exactness](exactness.md)) leaves llama.cpp's fast prompt kernels unused:"
        " repacked weights, tiles from eight rows on, flash attention."
    ),
    "Answers": (
        "The same settings cost a little in each step, more where several streams"
        " share it; the rest is Python between two passes, and HTTP."
    ),
    "Answers behind a long context": (
        "Flash attention is off, so that each step goes through the whole context in"
        " plain products, and each stream attends over its own cells alone."
    ),
    "Conversations": (
        "What is new in a turn is a prompt, and is run with the kernels that prompts"
        " are run with here; putting a kept state back takes some milliseconds."
    ),
    "Held answers": (
        "They are short: their prompt is a good part of them, and each step costs what"
        " a step of any answer costs. A schema or a tool's shape is compiled before the"
        " first token. Tools are described in the prompt also where a model's template"
        " has no place for them; peers leave them out there and read a shorter prompt."
    ),
    "Many at once": (
        "Beside running streams a new prompt is run in chunks of 32 tokens, so that"
        " they keep flowing: its own first token comes later for that. Short answers to"
        " many clients are mostly prompts, and HTTP in Python."
    ),
    "The process": (
        "Python and its libraries are loaded before the model and stay in memory beside"
        " it; a first start measures the model's exactness, later ones remember the"
        " verdict. Kept states of conversations are held in memory too."
    ),
    "Drafting": (
        "Drafting pays where checking a row more is cheap. On few cores a row costs"
        " most of a step, so that little is drafted, and what is left is the speed of"
        " plain steps."
    ),
    "Vectors": (
        "Inputs are run one at a time, since several in a pass would change each"
        " other's bits."
    ),
}
"""By `Figure.topic`; every topic has one."""

_LOOSE = (
    "its grammar of a schema leaves out a number's limits, and lets control characters"
    " into strings"
)
NOT_HELD: Final = {
    ("llama-server", "tool_ok"): (
        "it leaves the reply free where a model's template has no place for tools"
    ),
    ("llama-cpp-python", "schema_ok"): _LOOSE,
    ("llama-cpp-python", "tool_ok"): _LOOSE,
}
"""Why answers may miss the shape that was asked for, by server and figure."""
