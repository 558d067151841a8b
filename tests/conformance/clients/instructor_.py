"""instructor: answers as checked objects, by a tool and by a schema."""

from typing import Literal

import instructor
import openai
from common import CHAT, KEY, MODEL, QUESTION, check_city, tried
from pydantic import BaseModel, Field


class City(BaseModel):
    """A city."""

    name: Literal["Paris", "Oslo"]
    rank: int = Field(ge=1, le=9)


ASK = {
    "model": MODEL,
    "messages": [{"role": "user", "content": QUESTION}],
    "response_model": City,
    "max_tokens": 80,
    "max_retries": 0,
}

for mode, what in (
    (instructor.Mode.TOOLS, "tools"),
    (instructor.Mode.JSON_SCHEMA, "schemas"),
):
    with openai.OpenAI(base_url=CHAT, api_key=KEY, max_retries=0) as bare:
        client = instructor.from_openai(bare, mode=mode)
        check_city(client.chat.completions.create(**ASK).model_dump())
    tried(what)

with openai.OpenAI(base_url=CHAT, api_key=KEY, max_retries=0) as bare:
    client = instructor.from_openai(bare, mode=instructor.Mode.TOOLS)
    *_, last = client.chat.completions.create_partial(**ASK)
    check_city(last.model_dump())
tried("streams")
