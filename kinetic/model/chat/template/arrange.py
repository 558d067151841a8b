"""Carries out a treatment on a conversation. Pure: nothing given is changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kinetic.model.chat.reply.jsontext import loads
from kinetic.model.chat.template.fallback import (
    between_text_and_calls,
    write_calls,
    write_result,
    write_tools,
)
from kinetic.model.chat.template.normalise import Call, Turn, short_id
from kinetic.model.chat.template.treatment import Arranged, Marks, Treatment

_HIDING_ESCAPE = re.compile(r"\\[^nrt]")


def arrange(
    turns: Sequence[Turn],
    tools: Sequence[Mapping[str, Any]],
    treatment: Treatment,
    marks: Marks,
) -> Arranged:
    """Build what a template is given.

    Args:
        turns: The conversation, markers broken up.
        tools: The request's tools, in any form the template may like.
        treatment: What to do.
        marks: Characters that stand in neither.
    """
    arranged = list(turns)
    if treatment.is_trimmed:
        arranged = [_trimmed(turn) for turn in arranged]
    if tools and treatment.writes_tools:
        text = write_tools(treatment.family, treatment.call_form, tools)
        arranged = _with_system_text(arranged, text)
    if treatment.is_one_call:
        arranged = _one_call_each(arranged)
    if treatment.writes_calls:
        arranged = [_with_written_calls(turn, treatment) for turn in arranged]
    if treatment.writes_results:
        arranged = [_with_written_result(turn) for turn in arranged]
    if treatment.text_beside_calls == "split":
        arranged = [part for turn in arranged for part in _split(turn)]
    arranged = _arrange_roles(arranged, treatment)
    if treatment.embeds_results:
        arranged = _embed_results(arranged)
    if treatment.has_short_ids:
        arranged = [_with_short_ids(turn) for turn in arranged]

    splices: dict[str, str] = {}
    messages = [_message(turn, treatment, marks, splices) for turn in arranged]
    shown = list(map(dict, tools)) if tools and not treatment.writes_tools else None
    return Arranged(messages=messages, tools=shown, splices=splices)


# What is done to texts and calls.


def _trimmed(turn: Turn) -> Turn:
    # The end of a prefill is the place where the model goes on.
    text = turn.text.lstrip() if turn.is_prefill else turn.text.strip()
    return replace(turn, text=text, reasoning=turn.reasoning.strip())


def _with_system_text(turns: list[Turn], text: str) -> list[Turn]:
    if turns and turns[0].role == "system":
        first = turns[0]
        joined = f"{first.text}\n\n{text}" if first.text else text
        return [replace(first, text=joined), *turns[1:]]
    return [Turn(origin=0, role="system", text=text), *turns]


def _one_call_each(turns: list[Turn]) -> list[Turn]:
    """Turn `calls, result, result` into `call, result, call, result`."""
    arranged: list[Turn] = []
    index = 0
    while index < len(turns):
        turn = turns[index]
        index += 1
        if len(turn.calls) <= 1:
            arranged.append(turn)
            continue
        end = index
        while end < len(turns) and turns[end].role == "tool":
            end += 1
        results = turns[index:end]
        index = end
        for number, call in enumerate(turn.calls):
            is_first = number == 0
            arranged.append(
                replace(
                    turn,
                    calls=(call,),
                    text=turn.text if is_first else "",
                    reasoning=turn.reasoning if is_first else "",
                )
            )
            answers = [result for result in results if result.call_id == call.id]
            results = [result for result in results if result.call_id != call.id]
            arranged += answers
        arranged += results
    return arranged


def _with_written_calls(turn: Turn, treatment: Treatment) -> Turn:
    if not turn.calls:
        return turn
    text = write_calls(treatment.family, treatment.call_form, turn.calls)
    if turn.text:
        text = turn.text + between_text_and_calls(treatment.family) + text
    return replace(turn, text=text, calls=())


def _with_written_result(turn: Turn) -> Turn:
    if turn.role != "tool":
        return turn
    text = write_result(turn.name, turn.text)
    return replace(turn, role="user", text=text, call_id=None, name=None)


def _embed_results(turns: list[Turn]) -> list[Turn]:
    """Turn `call, result, answer` into one turn, the answer's text its own.

    Source: llama.cpp does so for the older templates of Gemma 4.
    """
    embedded: list[Turn] = []
    for turn in turns:
        last = embedded[-1] if embedded else None
        if last is not None and last.calls and turn.role == "tool":
            result = (turn.name or "unknown", turn.text)
            embedded[-1] = replace(last, results=(*last.results, result))
        elif (
            last is not None
            and last.results
            and not last.answer
            and turn.role == "assistant"
            and not (turn.calls or turn.is_prefill)
        ):
            embedded[-1] = replace(last, answer=turn.text)
        else:
            embedded.append(turn)
    return embedded


def _split(turn: Turn) -> tuple[Turn, ...]:
    if not (turn.calls and turn.text):
        return (turn,)
    return replace(turn, calls=(), reasoning=""), replace(turn, text="")


def _with_short_ids(turn: Turn) -> Turn:
    calls = tuple(replace(call, id=short_id(call.id)) for call in turn.calls)
    call_id = None if turn.call_id is None else short_id(turn.call_id)
    return replace(turn, calls=calls, call_id=call_id)


# What is done to roles and their order.


def _arrange_roles(turns: list[Turn], treatment: Treatment) -> list[Turn]:
    arranged = turns
    if treatment.drops_empty:
        arranged = [turn for turn in arranged if not _is_empty(turn)]
    if treatment.merges:
        arranged = _merge_neighbours(arranged)
    if treatment.moves_systems or treatment.moves_later_systems:
        first = 0 if treatment.moves_systems else 1
        arranged = arranged[:first] + [_as_user(turn) for turn in arranged[first:]]
        if treatment.merges or treatment.moves_systems:
            arranged = _merge_neighbours(arranged)
    if treatment.begins_with_user:
        arranged = _begin_with_user(arranged)
    if treatment.filler is not None:
        arranged = _fill(arranged, treatment.filler)
    return arranged


def _is_empty(turn: Turn) -> bool:
    return (
        turn.role == "assistant"
        and not (turn.text or turn.calls or turn.reasoning)
        and not turn.is_prefill
    )


def _as_user(turn: Turn) -> Turn:
    # Source: llama.cpp joins a system text and the user's with one newline.
    return replace(turn, role="user", glue="\n") if turn.role == "system" else turn


def _merge_neighbours(turns: list[Turn]) -> list[Turn]:
    merged: list[Turn] = []
    for turn in turns:
        last = merged[-1] if merged else None
        if last is None or last.role != turn.role or last.calls or turn.role == "tool":
            merged.append(turn)
            continue
        texts = [text for text in (last.text, turn.text) if text]
        thoughts = [text for text in (last.reasoning, turn.reasoning) if text]
        merged[-1] = replace(
            turn,
            origin=last.origin,
            text=last.glue.join(texts),
            reasoning="\n\n".join(thoughts),
            name=last.name or turn.name,
        )
    return merged


def _begin_with_user(turns: list[Turn]) -> list[Turn]:
    place = next((i for i, turn in enumerate(turns) if turn.role != "system"), None)
    if place is None or turns[place].role == "user":
        return turns
    empty = Turn(origin=turns[place].origin, role="user")
    return [*turns[:place], empty, *turns[place:]]


def _fill(turns: list[Turn], filler: str) -> list[Turn]:
    """Put an answer between user turns, and an empty user turn between answers.

    Calls and results between them do not count, as Mistral's templates have it.
    """
    filled: list[Turn] = []
    last_role = None
    for turn in turns:
        counts = turn.role == "user" or (turn.role == "assistant" and not turn.calls)
        if counts and turn.role == last_role:
            role, text = ("assistant", filler) if turn.role == "user" else ("user", "")
            filled.append(Turn(origin=turn.origin, role=role, text=text))
        filled.append(turn)
        last_role = turn.role if counts else last_role
    return filled


# What a template is given.


def _message(
    turn: Turn, treatment: Treatment, marks: Marks, splices: dict[str, str]
) -> dict[str, Any]:
    content = _content(turn, treatment, marks)
    message: dict[str, Any] = {"role": turn.role, "content": content}
    if turn.name is not None:
        message["name"] = turn.name
    if turn.role == "tool":
        message["tool_call_id"] = turn.call_id
    if turn.reasoning and not treatment.has_reasoning_part:
        reasoning = turn.reasoning
        if turn.is_prefill and not turn.text:
            reasoning += marks.end
        # Templates look for the one or the other.
        message["reasoning_content"] = message["thinking"] = reasoning
    if turn.calls:
        spliced = turn.text if treatment.text_beside_calls == "spliced" else ""
        mark = ""
        if spliced:
            mark = f"{marks.splice}{len(splices)}{marks.splice}"
            splices[mark] = spliced + between_text_and_calls(treatment.family)
            message["content"] = turn.answer
        message["tool_calls"] = [
            _call(call, treatment, mark if index == 0 else "")
            for index, call in enumerate(turn.calls)
        ]
    if turn.results:
        message["tool_responses"] = [
            {"name": name, "response": _response(text)} for name, text in turn.results
        ]
    return message


def _response(text: str) -> Any:
    """Return a result as the value it stands for, if it is JSON.

    Not if it has escapes, for they might hide a marker that was to be broken up.
    """
    if _HIDING_ESCAPE.search(text):
        return text
    try:
        return loads(text, strict=True)
    except (ValueError, RecursionError):
        return text


def _content(turn: Turn, treatment: Treatment, marks: Marks) -> Any:
    text = turn.text + turn.answer + (marks.end if _ends_in_text(turn) else "")
    if turn.reasoning and treatment.has_reasoning_part:
        thought = turn.reasoning
        if turn.is_prefill and not turn.text:
            thought += marks.end
        parts = [{"type": "thinking", "thinking": thought}]
        return [*parts, {"type": "text", "text": text}] if text else parts
    if treatment.has_parts:
        return [{"type": "text", "text": text}]
    if turn.calls and not text and treatment.has_null_content:
        return None
    return text


def _ends_in_text(turn: Turn) -> bool:
    return turn.is_prefill and bool(turn.text or not turn.reasoning)


def _call(call: Call, treatment: Treatment, mark: str) -> dict[str, Any]:
    arguments = call.source if treatment.has_text_arguments else dict(call.arguments)
    function = {"name": mark + call.name, "arguments": arguments}
    return {"type": "function", "id": call.id, "function": function}
