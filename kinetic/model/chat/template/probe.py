"""Learns from probe conversations what a template can print, and in which form.

All is decided once, when a template is loaded, by looking at what it prints; its source
is searched only where the output says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from kinetic.model.chat.template.metering import Fault, OutOfSteps
from kinetic.model.chat.template.normalise import Call, Turn
from kinetic.model.chat.template.printer import Printer, Request
from kinetic.model.chat.template.skeleton import TOOL_NAME, TOOLS
from kinetic.model.chat.template.treatment import Treatment
from kinetic.model.chat.thinking import ThinkTags, find_tags

_MAX_PROBE_STEPS: Final = 4_000_000
_NAME, _KEY, _VALUE = "qzxcall", "qzxkey", "qzxvalue"
_USER, _TEXT, _RESULT, _THOUGHT = "qzxuser", "qzxtext", "qzxresult", "qzxthought"
_JOINERS = ("", "\n", " ", "\n\n")
# llama.cpp trims all texts for templates with this line: white space left at their ends
# has made the model think in circles.
_TRIM_HINT = "You have access to the following functions in JSONSchema format"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What is known of one template."""

    treatment: Treatment
    joiner: str
    """What the template puts between text parts; else a newline."""
    think_tags: ThinkTags | None


def probe_template(printer: Printer, source: str) -> Profile:
    """Find out how to use a template.

    Raises:
        OutOfSteps: It does not come to an end on the smallest conversation.
    """
    prober = _Prober(printer, source)
    treatment = prober.with_answer_start(
        prober.system_treatment(prober.content_treatment())
    )
    tags = find_tags(prober.prompt_ends(treatment), source)
    treatment = prober.tool_treatment(treatment)
    return Profile(treatment=treatment, joiner=prober.joiner(), think_tags=tags)


def classify(rendered_call: str, source: str) -> tuple[str, str | None]:
    """Return a template's family and call form.

    Args:
        rendered_call: What the template printed of a call to `qzxcall`, from the user's
            text before it to the result after it; "" if it printed none.
        source: Decides where the output does not show a call.
    """
    name = re.escape(_NAME)
    if _NAME not in rendered_call:
        return _classify_source(source)
    if re.search(rf"<tool_call>\s*<function={name}>", rendered_call):
        return "qwen3.5", None
    if re.search(rf'<tool_call>\s*\{{"name": ?"{name}"', rendered_call):
        return "hermes", None
    if "<|tool_call_start|>" in rendered_call:
        return "lfm2", None
    if match := re.search(rf"\[TOOL_CALLS\]\s*(\[|{name}\[\w+\])", rendered_call):
        return "mistral", _mistral_form(match[1])
    if f"to=functions.{_NAME}" in rendered_call and "<|channel|>" in rendered_call:
        return "gpt-oss", None
    if re.search(rf'\s\{{"name": ?"{name}", ?"parameters"', rendered_call):
        return "llama3", None
    return "generic", None


def _mistral_form(text: str) -> str:
    if "[CALL_ID]" in text:
        return "call_id"
    return "args" if "[ARGS]" in text else "list"


def _classify_source(source: str) -> tuple[str, str | None]:
    def has(*markers: str) -> bool:
        return all(marker in source for marker in markers)

    if has("<|channel|>", "<|message|>"):
        return "gpt-oss", None
    if has("[TOOL_CALLS]"):
        return "mistral", _mistral_form(source)
    if has("<tool_call>", "<function=", "<parameter="):
        return "qwen3.5", None
    lists_tools = has("<|tool_list_start|>") or has("List of tools: [", "<|im_start|>")
    if has("<|tool_call_start|>") or lists_tools:
        return "lfm2", None
    others = ("<arg_key>", "<invoke name", "<function")
    if has("<tool_call>") and not any(map(has, others)):
        return "hermes", None
    if has("<|start_header_id|>") and (
        has("<|python_tag|>") or has("Environment: ipython")
    ):
        return "llama3", None
    return "generic", None


def _turn(role: str, text: str = "", **more: Any) -> Turn:
    return Turn(origin=0, role=role, text=text, **more)


def _call(call_id: str, name: str = _NAME) -> Call:
    arguments = {_KEY: _VALUE}
    return Call(
        id=call_id, name=name, arguments=arguments, source=f'{{"{_KEY}": "{_VALUE}"}}'
    )


def _result(call_id: str, name: str = _NAME, text: str = _RESULT) -> Turn:
    return _turn("tool", text, call_id=call_id, name=name)


class _Prober:
    def __init__(self, printer: Printer, source: str) -> None:
        self._printer = printer
        self._source = source

    def content_treatment(self) -> Treatment:
        """Find out whether the template prints texts, or only parts."""
        treatment = Treatment(is_trimmed=_TRIM_HINT in self._source)
        turns = (_turn("user", _USER),)
        try:
            if _USER in self._print_or_raise(turns, treatment):
                return treatment
        except OutOfSteps:
            raise
        except Fault:
            pass
        parts = replace(treatment, has_parts=True)
        return parts if _USER in self._print(turns, parts) else treatment

    def with_answer_start(self, treatment: Treatment) -> Treatment:
        """Find out how the template ends a user's message and begins an answer."""
        turns = (_turn("user", _USER),)
        printed = [
            self._print(turns, treatment, has_generation_prompt=begins)
            for begins in (False, True)
        ]
        user_end, answer_start = (text.rpartition(_USER)[2] for text in printed)
        if not answer_start.startswith(user_end):
            return treatment
        return replace(
            treatment, user_end=user_end, answer_start=answer_start[len(user_end) :]
        )

    def system_treatment(self, treatment: Treatment) -> Treatment:
        """Find out whether the template has a system role."""
        turns = (_turn("system", "qzxsystem"), _turn("user", _USER))
        has_system = _holds(self._print(turns, treatment), "qzxsystem", _USER)
        return treatment if has_system else replace(treatment, moves_systems=True)

    def joiner(self) -> str:
        """Find out what the template puts between two text parts."""
        printed = self._print_content([{"type": "text", "text": w} for w in "qz"])
        for joiner in _JOINERS:
            if printed and printed == self._print_content(f"q{joiner}z"):
                return joiner
        return "\n"

    def prompt_ends(self, treatment: Treatment) -> Iterator[str]:
        """Yield what follows the last user text, with thinking on, unset and off."""
        for value in (True, None, False):
            switch = {"enable_thinking": value, "thinking": value}
            variables = {} if value is None else switch
            printed = self._print(
                (_turn("user", _USER),), treatment, variables=variables
            )
            yield printed.rpartition(_USER)[2]

    def tool_treatment(self, treatment: Treatment) -> Treatment:
        """Find out how the template takes tools, calls and results."""
        treatment = self._with_tool_list(treatment)
        treatment = self._with_call_form(treatment)
        if not treatment.writes_calls:
            treatment = self._with_number_of_calls(treatment)
            treatment = self._with_text_beside_calls(treatment)
            treatment = self._with_short_ids(treatment)
        return self._with_reasoning(treatment)

    def _with_call_form(self, treatment: Treatment) -> Treatment:
        forms = [
            replace(treatment, has_text_arguments=as_text, has_null_content=is_null)
            for as_text in (False, True)
            for is_null in (False, True)
        ]
        family, call_form = classify("", self._source)
        for form in forms:
            printed = self._rendered_call(form)
            # Python's way of printing an object is not the template's intention.
            if f"{{'{_KEY}'" not in printed and _holds(printed, _NAME, _KEY, _VALUE):
                family, call_form = classify(printed, self._source)
                if treatment.writes_tools and family == "generic":
                    # The model is to write calls as it is told, not as it sees them.
                    break
                found = replace(form, family=family, call_form=call_form)
                return self._with_embedded_results(found, printed)
        written = replace(
            treatment, family=family, call_form=call_form, writes_calls=True
        )
        if _holds(self._rendered_call(written), _NAME, _KEY, _VALUE):
            return written
        return replace(written, writes_results=True)

    def _with_embedded_results(self, treatment: Treatment, printed: str) -> Treatment:
        """Find out whether results are wanted in the message with the calls."""
        if "tool_responses" not in self._source or printed.count(_NAME) > 1:
            return treatment
        embedded = replace(treatment, embeds_results=True)
        # Results so given are printed with the name of their function.
        has_name = self._rendered_call(embedded).count(_NAME) > 1
        return embedded if has_name else treatment

    def _with_number_of_calls(self, treatment: Treatment) -> Treatment:
        ids = ("call00001", "call00002")
        names = ("qzxcallone", "qzxcalltwo")
        pairs = list(zip(ids, names, strict=True))
        turns = (
            _turn("user", _USER),
            _turn("assistant", calls=tuple(_call(*pair) for pair in pairs)),
            _result(*pairs[0], text="qzxresultone"),
            _result(*pairs[1], text="qzxresulttwo"),
            _turn("assistant", _TEXT),
            _turn("user", "qzxlast"),
        )
        words = (*names, "qzxresultone", "qzxresulttwo")
        one = replace(treatment, is_one_call=True)
        for candidate in (treatment, one):
            if _holds(self._print(turns, candidate, with_tools=True), *words):
                return candidate
        return treatment

    def _with_text_beside_calls(self, treatment: Treatment) -> Treatment:
        # Behind the result it would stand in the wrong place.
        if _holds(self._rendered_call(treatment, text=_TEXT), _TEXT, _NAME):
            return treatment
        opener = self._call_opener(treatment)
        if opener is not None:
            spliced = replace(
                treatment, text_beside_calls="spliced", call_opener=opener
            )
            if _TEXT in self._rendered_call(spliced, text=_TEXT).partition(_NAME)[0]:
                return spliced
        return replace(treatment, text_beside_calls="split")

    def _call_opener(self, treatment: Treatment) -> str | None:
        """Return what stands between where an answer begins and a call's name."""
        printed = self._print(
            (_turn("user", _USER), _turn("assistant", _TEXT), _turn("user", "qzxlast")),
            treatment,
            with_tools=True,
        )
        header = _between(printed, _USER, _TEXT)
        before_call = self._rendered_call(treatment).partition(_NAME)[0]
        if not header or not before_call.startswith(header):
            return None
        return before_call[len(header) :] or None

    def _with_short_ids(self, treatment: Treatment) -> Treatment:
        is_refused = not self._rendered_call(treatment, call_id="call_0123456789abcdef")
        return replace(treatment, has_short_ids=True) if is_refused else treatment

    def _with_tool_list(self, treatment: Treatment) -> Treatment:
        user = _turn("user", _USER)
        for turns in ((user,), (_turn("system", "qzxsystem"), user)):
            if TOOL_NAME in self._print(turns, treatment, with_tools=True):
                return treatment
        return replace(treatment, writes_tools=True)

    def _with_reasoning(self, treatment: Treatment) -> Treatment:
        """Find out whether thoughts are wanted as a field or as a content part."""
        if _THOUGHT in self._rendered_call(treatment, reasoning=_THOUGHT):
            return treatment
        as_part = replace(treatment, has_reasoning_part=True)
        printed = self._rendered_call(as_part, reasoning=_THOUGHT)
        is_dumped = re.search(r"""['"]thinking['"]""", printed)
        return as_part if _THOUGHT in printed and not is_dumped else treatment

    def _rendered_call(self, treatment: Treatment, **more: Any) -> str:
        """Return what stands between the user's text and the call's result."""
        printed = self._print(self._call_turns(**more), treatment, with_tools=True)
        return _between(printed, _USER, _RESULT)

    def _call_turns(self, *, call_id: str = "call00001", **more: Any) -> list[Turn]:
        return [
            _turn("user", _USER),
            _turn("assistant", calls=(_call(call_id),), **more),
            _result(call_id),
            # Mistral's check of roles fails without an answer here.
            _turn("assistant", "qzxanswer"),
            _turn("user", "qzxlast"),
        ]

    def _print(
        self,
        turns: Iterable[Turn],
        treatment: Treatment,
        *,
        with_tools: bool = False,
        variables: dict[str, Any] | None = None,
        has_generation_prompt: bool = True,
    ) -> str:
        request = Request(
            turns=tuple(turns),
            tools=TOOLS if with_tools else (),
            variables=variables or {},
            has_generation_prompt=has_generation_prompt,
        )
        try:
            return self._printer.print_with(
                request, treatment, max_steps=_MAX_PROBE_STEPS
            )
        except Fault:
            return ""

    def _print_or_raise(self, turns: Iterable[Turn], treatment: Treatment) -> str:
        request = Request(turns=tuple(turns), variables={})
        return self._printer.print_with(request, treatment, max_steps=_MAX_PROBE_STEPS)

    def _print_content(self, content: Any) -> str:
        """Print one user message with its content as it is given."""
        messages = [{"role": "user", "content": content}]
        try:
            return self._printer.print_raw({"messages": messages}, _MAX_PROBE_STEPS)
        except Fault:
            return ""


def _holds(text: str, *words: str) -> bool:
    return all(word in text for word in words)


def _between(text: str, start: str, end: str) -> str:
    """Return what stands between two words, or "" if one is missing."""
    _, found, rest = text.partition(start)
    middle, ended, _ = rest.partition(end)
    return middle if found and ended else ""
