"""No character of an answer ends a line: clients that read lines get whole JSON."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import ollama
import pytest
from openai import OpenAI

from kinetic.web.http.written import dumps
from tests.support.web_app import Script, delta, finished, talk

ENDS = "".join(
    chr(code) for code in range(0x2100) if len(f"a{chr(code)}b".splitlines()) > 1
)
TEXT = "one" + "two".join(ENDS) + "three"
HI = [{"role": "user", "content": "hi"}]


def with_client(work):
    """What a blocking client finds at a server whose answers are TEXT."""
    found = []

    async def story(client):
        with ThreadPoolExecutor(1) as pool:
            loop = asyncio.get_running_loop()
            found.append(await loop.run_in_executor(pool, work, client.url))

    talk(story, Script([delta(TEXT[:5]), delta(TEXT[5:]), finished()]))
    return found[0]


def test_all_line_ends_are_tried():
    assert set("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029") == set(ENDS)


@pytest.mark.parametrize("end", ENDS)
def test_json_is_one_line_and_says_the_same(end):
    written = dumps({f"a{end}b": [f"é{end}"]})
    assert written.splitlines() == [written]
    assert json.loads(written) == {f"a{end}b": [f"é{end}"]}


@pytest.mark.parametrize("stream", [False, True])
def test_the_openai_client_reads_chats_and_texts_whole(stream):
    def work(url):
        with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
            chat = client.chat.completions.create(
                model="any", messages=HI, stream=stream
            )
            text = client.completions.create(model="any", prompt="hi", stream=stream)
            if not stream:
                return chat.choices[0].message.content, text.choices[0].text
            return (
                "".join(part.choices[0].delta.content or "" for part in chat),
                "".join(part.choices[0].text for part in text),
            )

    assert with_client(work) == (TEXT, TEXT)


@pytest.mark.parametrize("stream", [False, True])
def test_the_ollama_client_reads_chats_and_texts_whole(stream):
    def work(url):
        with ollama.Client(host=url) as client:
            chat = client.chat(model="tiny", messages=HI, stream=stream)
            text = client.generate(model="tiny", prompt="hi", stream=stream)
            if not stream:
                return chat.message.content, text.response
            return (
                "".join(part.message.content for part in chat),
                "".join(part.response for part in text),
            )

    assert with_client(work) == (TEXT, TEXT)


@pytest.mark.parametrize("path", ["/completion", "/v1/chat/completions"])
def test_a_reader_of_lines_gets_whole_events(path):
    def work(url):
        body = {"prompt": "hi"} if path == "/completion" else {"messages": HI}
        with httpx.stream("POST", url + path, json={**body, "stream": True}) as answer:
            return [line for line in answer.iter_lines() if line]

    for line in with_client(work):
        assert line.startswith("data: ")
        assert line == "data: [DONE]" or json.loads(line.removeprefix("data: "))
