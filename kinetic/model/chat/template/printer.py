"""Prints conversations with one template, and sees to it that nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from kinetic.model.chat.template.arrange import arrange
from kinetic.model.chat.template.filters import tojson
from kinetic.model.chat.template.metering import Fault, OutOfSteps
from kinetic.model.chat.template.normalise import TemplateError, Turn
from kinetic.model.chat.template.sandbox import MAX_STEPS, Sandbox
from kinetic.model.chat.template.skeleton import TOOL_NAME, TOOLS, shape_of, skeleton_of
from kinetic.model.chat.template.toolforms import tool_forms
from kinetic.model.chat.template.treatment import (
    Arranged,
    Marks,
    Treatment,
    stricter_treatments,
)

_PROBE_DATE: Final = datetime(2024, 1, 1, tzinfo=UTC)
_PROBE_MARKS: Final = Marks(splice="\ufdee", end="\ufdef")
_STEPS_PER_PAIR: Final = 20
"""Some templates look at every earlier message for each, which is fair work."""
_MAX_REMEMBERED: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A conversation that is ready to be printed."""

    turns: tuple[Turn, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    variables: Mapping[str, Any]
    """Further variables of the template, the client's included."""
    marks: Marks = _PROBE_MARKS
    now: datetime = _PROBE_DATE
    has_generation_prompt: bool = True


class Printer:
    """One compiled template with the constants it is rendered with.

    Immutable but for a memory of shapes, which threads may fill at the same time.

    Args:
        sandbox: The compiled template.
        constants: `bos_token` and `eos_token`.
    """

    def __init__(self, sandbox: Sandbox, constants: Mapping[str, str]) -> None:
        self.sandbox = sandbox
        self._constants = dict(constants)
        self._refusals: dict[tuple[object, ...], str | None] = {}

    def print_all(self, request: Request, treatment: Treatment) -> str:
        """Print with `treatment`, or the mildest change of it that loses nothing.

        Raises:
            TemplateError: No arrangement does; the text is the template's own if it
                has one.
        """
        refusal: str | None = None
        shape = shape_of(request.turns)
        prints_tools = True
        for candidate in stricter_treatments(treatment, has_tools=_has_tools(request)):
            if request.tools and not (prints_tools or candidate.writes_tools):
                continue
            lost = self._refusal(request, candidate, shape)
            if lost is not None:
                refusal = refusal or lost
                continue
            try:
                return self._print_with_any_tools(request, candidate)
            except OutOfSteps:
                raise
            except Fault as fault:
                refusal = refusal or str(fault)
                # The shape is right, so it is the tools, or nothing helps.
                prints_tools = False
        # The template's own words, if any, are of the client's texts, not of stand-ins.
        raise _error(request.turns, self._own_words(request, treatment) or refusal)

    def print_with(
        self, request: Request, treatment: Treatment, *, max_steps: int = MAX_STEPS
    ) -> str:
        """Print with exactly this treatment.

        Raises:
            Fault: The template refuses it.
        """
        arranged = arrange(request.turns, request.tools, treatment, request.marks)
        is_prefill = any(turn.is_prefill for turn in request.turns)
        text = self.sandbox.render(
            {
                **self._variables(request, arranged),
                "add_generation_prompt": request.has_generation_prompt
                and not is_prefill,
            },
            now=request.now,
            max_steps=max_steps + _STEPS_PER_PAIR * len(request.turns) ** 2,
        )
        text = _spliced(text, arranged, treatment, request.marks)
        if not is_prefill:
            return text
        head, mark, _ = text.rpartition(request.marks.end)
        if not mark:
            raise Fault("the chat template does not print the end of the last message")
        return head.replace(request.marks.end, "")

    def print_raw(self, variables: Mapping[str, Any], max_steps: int) -> str:
        """Render `variables` as they are, for probes.

        Raises:
            Fault: The template refuses them.
        """
        given = {
            **_dates(_PROBE_DATE),
            **self._constants,
            "add_generation_prompt": True,
        }
        return self.sandbox.render(
            {**given, **variables}, now=_PROBE_DATE, max_steps=max_steps
        )

    def _variables(self, request: Request, arranged: Arranged) -> dict[str, Any]:
        variables = {
            **_dates(request.now),
            **self._constants,
            **request.variables,
            "messages": arranged.messages,
        }
        # Left out when there are none: some templates take an empty list for tools.
        if arranged.tools is not None:
            variables["tools"] = arranged.tools
            variables["functions"] = tojson(
                [tool["function"] for tool in arranged.tools], indent=2
            )
        return variables

    def _own_words(self, request: Request, treatment: Treatment) -> str | None:
        """Return what the template itself says against a conversation, if anything."""
        try:
            self.print_with(request, treatment)
        except Fault as fault:
            return str(fault)
        return None

    def _print_with_any_tools(self, request: Request, treatment: Treatment) -> str:
        first: Fault | None = None
        for tools in tool_forms(request.tools):
            try:
                return self.print_with(replace(request, tools=tuple(tools)), treatment)
            except OutOfSteps:
                raise
            except Fault as fault:
                first = first or fault
        raise first or Fault("the chat template prints nothing")

    def _refusal(
        self, request: Request, treatment: Treatment, shape: bytes
    ) -> str | None:
        """Return what speaks against a treatment for conversations of this shape."""
        has_tools = bool(request.tools)
        key = (treatment, shape, has_tools, request.has_generation_prompt)
        if key not in self._refusals:
            if len(self._refusals) >= _MAX_REMEMBERED:
                self._refusals.clear()
            self._refusals[key] = self._try_skeleton(request, treatment)
        return self._refusals[key]

    def _try_skeleton(self, request: Request, treatment: Treatment) -> str | None:
        skeleton = skeleton_of(request.turns)
        stand_in = Request(
            turns=skeleton.turns,
            tools=TOOLS if request.tools else (),
            variables={},
            has_generation_prompt=request.has_generation_prompt,
        )
        try:
            text = self.print_with(stand_in, treatment)
        except OutOfSteps:
            raise
        except Fault as fault:
            return str(fault)
        lowered = text.lower()
        for word, origin in skeleton.words:
            # Some template may print in capitals.
            if word not in lowered:
                return f"the chat template does not print all of messages[{origin}]"
        if request.tools and TOOL_NAME not in text:
            return "the chat template does not print tools"
        if request.has_generation_prompt and self._lacks_start(
            stand_in, treatment, text
        ):
            return "the chat template does not begin the answer"
        return None

    def _lacks_start(self, request: Request, treatment: Treatment, text: str) -> bool:
        """Tell whether the answer is not begun though the template begins answers.

        Behind a tool's result some templates begin none on purpose: the answer that
        made the call goes on. Behind a message of a user or the system, or where the
        output looks as if there were one, the model would go on with that message.
        """
        last = request.turns[-1]
        begins = not treatment.answer_start or text.endswith(treatment.answer_start)
        if begins or last.is_prefill or not text.endswith(treatment.user_end):
            return False
        if last.role == "tool" and not treatment.user_end:
            return False
        without = replace(request, has_generation_prompt=False)
        return last.role != "assistant" and self.print_with(without, treatment) == text


def _dates(now: datetime) -> dict[str, str]:
    """Return the variables that templates expect beside the messages.

    Source: llama.cpp gives the same two dates. Firefunction needs `functions`.
    """
    return {
        "date_string": now.strftime("%d %b %Y"),
        "datetime": now.strftime("%b %d %Y"),
        "functions": "",
    }


def _error(turns: Sequence[Turn], refusal: str | None) -> TemplateError:
    known = ("system", "user", "assistant", "tool")
    for turn in turns:
        if turn.role not in known:
            return TemplateError(
                f"messages[{turn.origin}].role {turn.role!r} is not one that the"
                f" model's chat template prints: {refusal}",
                param="messages",
            )
    return TemplateError(refusal or "", param="messages")


def _has_tools(request: Request) -> bool:
    return bool(request.tools) or any(
        turn.calls or turn.role == "tool" for turn in request.turns
    )


def _spliced(text: str, arranged: Arranged, treatment: Treatment, marks: Marks) -> str:
    """Put the texts in that a template drops when a message has calls."""
    for mark, words in arranged.splices.items():
        place = text.find(mark) - len(treatment.call_opener)
        if place < 0 or not text.startswith(treatment.call_opener + mark, place):
            raise Fault("the chat template drops the text beside a call")
        text = text[:place] + words + text[place:]
    if arranged.splices:
        text = re.sub(f"{marks.splice}[0-9]+{marks.splice}", "", text)
    return text
