"""What the loads are made of: how large they are, shapes, and texts to repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large the loads are: tokens, unless the name says otherwise."""

    short_prompt: int = 128
    middle_prompt: int = 512
    long_prompt: int = 2000
    answer: int = 128
    context: int = 1600
    long_answer: int = 64
    opening: int = 500
    turn_answer: int = 32
    kept: int = 1500
    others: int = 8
    other_prompt: int = 150
    held_limit: int = 256
    arriving: int = 1000
    beside_answer: int = 160
    brief: int = 16
    few_clients: int = 16
    few_answers: int = 32
    many_clients: int = 64
    many_answers: int = 64
    few_texts: int = 32
    many_texts: int = 256
    text_tokens: int = 100


SCHEMA: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {
            "type": "array",
            "items": {"type": "string", "maxLength": 12},
            "maxItems": 4,
        },
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
ARGUMENTS: Final = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 30},
        "nights": {"type": "integer", "minimum": 1, "maximum": 30},
        "breakfast": {"type": "boolean"},
    },
    "required": ["city", "nights", "breakfast"],
    "additionalProperties": False,
}
TOOL: Final = {
    "type": "function",
    "function": {
        "name": "book_room",
        "description": "Books a hotel room.",
        "parameters": ARGUMENTS,
    },
}
TEXT: Final = (
    "The harbour lies behind a long wall of grey stone. Every morning the boats leave"
    " before sunrise, and every evening the families wait at the gate until the last"
    " of them is home. In winter the wall is white with salt."
)
CODE: Final = """\
def summarise(rows, limit):
    count = 0
    for row in rows:
        if row.is_valid():
            count += row.amount
        if count > limit:
            raise ValueError(f"{count} is more than {limit}")
    print(f"count: {count}")
    return count
"""
