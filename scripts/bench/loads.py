"""The loads: small stories about one server, each giving some figures."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any, Final

from jsonschema import Draft202012Validator

from scripts.bench.client import Answer, Client, RequestError, chat, together
from scripts.bench.material import ARGUMENTS, CODE, SCHEMA, TEXT, TOOL, Sizes
from scripts.bench.prompts import Prompts
from scripts.bench.servers import Process, Setup

_UNDER_WAY = 8
"""Pieces after which a stream counts as running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One load's turn at one server."""

    process: Process
    setup: Setup
    prompts: Prompts
    sizes: Sizes

    def client(self) -> AbstractAsyncContextManager[Client]:
        """Opens a client of the server."""
        is_binding = self.process.server.is_binding
        return Client(self.process.base_url, is_binding=is_binding)

    def lacks(self, figure: str) -> bool:
        """Tells whether the server cannot give a figure."""
        return figure in self.process.server.lacks


Found = dict[str, float]
Run = Callable[[Visit], Awaitable[Found]]


def story(visit: Visit, *, turn: int = 0) -> str:
    """Asks for a story that no other request asks for."""
    about = visit.prompts.words(3)
    return f"{about}: tell a long story about these, part {turn + 1}."


async def cold(visit: Visit) -> Found:
    """First tokens of new prompts of three lengths."""
    found: Found = {}
    sizes = visit.sizes
    async with visit.client() as client:
        for name, n_tokens in (
            ("short", sizes.short_prompt),
            ("middle", sizes.middle_prompt),
            ("long", sizes.long_prompt),
        ):
            answer = await client.ask(chat(visit.prompts.text(n_tokens), 1))
            found[f"cold_{name}_s"] = answer.first_s
            if answer.n_prompt is not None:
                found[f"cold_{name}_tokens"] = answer.n_prompt
    return found


async def streams(visit: Visit) -> Found:
    """One, two and four answers at once behind short prompts."""
    found: Found = {}
    async with visit.client() as client:
        for name, n in (("one", 1), ("two", 2), ("four", 4)):
            bodies = [
                chat(story(visit, turn=i), visit.sizes.answer, ignore_eos=True)
                for i in range(n)
            ]
            found[f"{name}_tps"] = together(await _gathered(client, bodies))
    return found


async def long_context(visit: Visit) -> Found:
    """The same where each answer has a long conversation of its own behind it."""
    sizes = visit.sizes
    counts = [("one", 1), ("two", 2), ("four", 4)]
    counts = [(name, n) for name, n in counts if not visit.lacks(f"long_{name}_tps")]
    contexts = [visit.prompts.text(sizes.context) for _ in range(counts[-1][1])]
    found: Found = {}
    async with visit.client() as client:
        for context in contexts:
            await client.ask(chat(context, 1))
        for name, n in counts:
            bodies = [
                chat(f"{c} Go on with {name}.", sizes.long_answer, ignore_eos=True)
                for c in contexts[:n]
            ]
            found[f"long_{name}_tps"] = together(await _gathered(client, bodies))
    return found


async def turns(visit: Visit) -> Found:
    """A conversation of four turns."""
    messages = [{"role": "user", "content": visit.prompts.text(visit.sizes.opening)}]
    first_s = []
    async with visit.client() as client:
        for _ in range(4):
            answer = await client.ask(chat(list(messages), visit.sizes.turn_answer))
            first_s.append(answer.first_s)
            messages += [
                {"role": "assistant", "content": answer.text},
                {"role": "user", "content": f"Go on about {visit.prompts.words(3)}."},
            ]
    return {"turn_two_s": first_s[1], "turn_four_s": first_s[3]}


async def displaced(visit: Visit) -> Found:
    """A conversation that goes on after others took every slot."""
    sizes = visit.sizes
    opening = visit.prompts.text(sizes.kept)
    async with visit.client() as client:
        new = await client.ask(chat(opening, 1))
        for _ in range(sizes.others):
            await client.ask(chat(visit.prompts.text(sizes.other_prompt), 1))
        again = await client.ask(chat(f"{opening} Go on.", 1))
    return {"kept_new_s": new.first_s, "displaced_s": again.first_s}


async def restarted(visit: Visit) -> Found:
    """A conversation that goes on after its server was started again."""
    opening = visit.prompts.text(visit.sizes.kept)
    async with visit.client() as client:
        await client.ask(chat(opening, 1))
    memory_mib = visit.process.memory_mib()
    visit.process.stop()
    visit.process.start()
    async with visit.client() as client:
        await client.ask(chat("Hi", 1))
        again = await client.ask(chat(f"{opening} Go on.", 1))
    return {
        "start_s": visit.process.start_s,
        "restarted_s": again.first_s,
        "memory_mib": memory_mib,
    }


async def first_start(visit: Visit) -> Found:
    """The start of a second process that knows nothing from earlier ones."""
    with TemporaryDirectory() as folder:
        process = Process(visit.process.server, visit.setup)
        try:
            process.start({"XDG_CACHE_HOME": folder})
        finally:
            process.stop()
    return {"first_start_s": process.start_s}


async def prefilled(visit: Visit) -> Found:
    """A prompt that was sent ahead while its last word was still being written."""
    opening = visit.prompts.text(visit.sizes.kept)
    async with visit.client() as client:
        word = await client.ask(chat(visit.prompts.words(1), 1))
        typed = [{"role": "user", "content": f"{opening} What"}]
        await client.post("/v1/prefill", {"messages": typed})
        answer = await client.ask(chat(f"{opening} What?", 1))
    return {"prefilled_s": answer.first_s, "one_word_s": word.first_s}


async def schema(visit: Visit) -> Found:
    """An answer held to a JSON Schema."""
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    body = chat(
        f"Describe a person as JSON: {visit.prompts.words(3)}.",
        visit.sizes.held_limit,
        response_format=shape,
        chat_template_kwargs={"enable_thinking": False},
    )
    async with visit.client() as client:
        answer = await client.ask(body)
    return held("schema", answer, answer.text, SCHEMA)


async def tool(visit: Visit) -> Found:
    """A tool call that has to come."""
    body = chat(
        f"Book a room, please: {visit.prompts.words(3)}.",
        visit.sizes.held_limit,
        tools=[TOOL],
        tool_choice="required",
        chat_template_kwargs={"enable_thinking": False},
    )
    async with visit.client() as client:
        answer = await client.ask(body)
    return held("tool", answer, answer.arguments, ARGUMENTS)


def held(name: str, answer: Answer, text: str, shape: Any) -> Found:
    """Whether an answer fits its shape, and its speed if it was held to any JSON.

    Some servers send a call whole, so the clock starts with the request.

    Args:
        name: What the figures' names begin with.
        answer: What came.
        text: The part of it that has a shape.
        shape: A JSON Schema.
    """
    found = {f"{name}_ok": float(fits(text, shape))}
    try:
        # A raw newline in a string is wrong, but costs as much as a right one.
        json.loads(text, strict=False)
    except ValueError:
        return found
    return {**found, f"{name}_tps": answer.n_tokens / (answer.ended - answer.began)}


def fits(text: str, shape: Any) -> bool:
    """Tells whether a text is JSON of a shape."""
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return Draft202012Validator(shape).is_valid(value)


async def pause(visit: Visit) -> Found:
    """Three running streams while a long new prompt comes in."""
    sizes = visit.sizes
    under_way = asyncio.Semaphore(0)
    async with visit.client() as client, asyncio.TaskGroup() as group:

        async def stream(number: int) -> Answer:
            pieces = 0

            def on_piece() -> None:
                nonlocal pieces
                pieces += 1
                if pieces == _UNDER_WAY:
                    under_way.release()

            text = story(visit, turn=number)
            body = chat(text, sizes.beside_answer, ignore_eos=True)
            return await client.ask(body, on_piece)

        tasks = [group.create_task(stream(number)) for number in range(3)]
        for _ in tasks:
            await under_way.acquire()
        arriving = await client.ask(chat(visit.prompts.text(sizes.arriving), 1))
    found = [task.result() for task in tasks]
    gaps = [gap for answer in found for gap in answer.gaps_s]
    return {
        "pause_s": max(gaps),
        "gap_s": statistics.median(gaps),
        "beside_s": arriving.first_s,
    }


async def few_clients(visit: Visit) -> Found:
    """Short answers to some clients that ask at once."""
    sizes = visit.sizes
    return {"few_aps": await _crowd(visit, sizes.few_clients, sizes.few_answers)}


async def many_clients(visit: Visit) -> Found:
    """Short answers to as many clients as Kinetic takes connections."""
    sizes = visit.sizes
    return {"many_aps": await _crowd(visit, sizes.many_clients, sizes.many_answers)}


async def _crowd(visit: Visit, n_clients: int, n_answers: int) -> float:
    """Answers a second to clients that each ask again once they are answered."""
    waiting = [
        chat(story(visit), visit.sizes.brief, ignore_eos=True) for _ in range(n_answers)
    ]

    async def ask_on(client: Client) -> None:
        while waiting:
            await client.ask(waiting.pop())

    async with visit.client() as client:
        began = time.perf_counter()
        await _all([ask_on(client) for _ in range(n_clients)])
        return n_answers / (time.perf_counter() - began)


async def drafts(visit: Visit) -> Found:
    """Answers that repeat what is in the prompt, and one that does not."""
    n = visit.sizes.answer
    about = visit.prompts.words(2)
    asked = {
        "copy": f"({about}) Repeat this text word for word, nothing else:\n\n{TEXT}",
        "edit": f"({about}) Write this Python code again with the variable `count`"
        f" renamed to `total`, nothing else:\n\n```python\n{CODE}```",
        "story": story(visit),
    }
    async with visit.client() as client:
        return {
            f"{name}_tps": (await client.ask(chat(text, n))).rate
            for name, text in asked.items()
        }


async def vectors(visit: Visit) -> Found:
    """Lists of texts turned into vectors."""
    found: Found = {}
    sizes = visit.sizes
    async with visit.client() as client:
        for name, n in (("few", sizes.few_texts), ("many", sizes.many_texts)):
            texts = [visit.prompts.text(sizes.text_tokens) for _ in range(n)]
            began = time.perf_counter()
            answer = await client.post("/v1/embeddings", {"input": texts})
            found[f"vectors_{name}_tps"] = n / (time.perf_counter() - began)
            if len(answer["data"]) != n:
                raise RequestError(f"{len(answer['data'])} vectors of {n} texts")
    return found


async def _gathered(client: Client, bodies: list[dict[str, Any]]) -> list[Answer]:
    """Asks all at once; the first failure ends the others."""
    return await _all([client.ask(body) for body in bodies])


async def _all(waited: list[Any]) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in waited]
    return [task.result() for task in tasks]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A load and what it gives."""

    run: Run
    figures: tuple[str, ...]
    cost: float
    """Seconds a server takes with the small model, roughly: to tell what is left."""
    once: bool = False
    """One round says all."""


LOADS: Final = {
    "cold": Load(
        run=cold,
        figures=("cold_short_s", "cold_middle_s", "cold_long_s"),
        cost=11,
    ),
    "streams": Load(run=streams, figures=("one_tps", "two_tps", "four_tps"), cost=8),
    "long": Load(
        run=long_context,
        figures=("long_one_tps", "long_two_tps", "long_four_tps"),
        cost=35,
    ),
    "turns": Load(run=turns, figures=("turn_two_s", "turn_four_s"), cost=4),
    "displaced": Load(run=displaced, figures=("kept_new_s", "displaced_s"), cost=14),
    "prefill": Load(run=prefilled, figures=("prefilled_s", "one_word_s"), cost=8),
    "schema": Load(run=schema, figures=("schema_tps", "schema_ok"), cost=2),
    "tool": Load(run=tool, figures=("tool_tps", "tool_ok"), cost=2),
    "pause": Load(run=pause, figures=("pause_s", "gap_s", "beside_s"), cost=8),
    "few": Load(run=few_clients, figures=("few_aps",), cost=8),
    "many": Load(run=many_clients, figures=("many_aps",), cost=15),
    "restart": Load(
        run=restarted, figures=("restarted_s", "start_s", "memory_mib"), cost=15
    ),
    "first_start": Load(run=first_start, figures=("first_start_s",), cost=5, once=True),
    "drafts": Load(run=drafts, figures=("copy_tps", "edit_tps", "story_tps"), cost=5),
    "vectors": Load(
        run=vectors, figures=("vectors_few_tps", "vectors_many_tps"), cost=20
    ),
}
