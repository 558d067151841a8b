"""What is said of a whole answer that decoding could not hold to its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinetic.model.constraints.json_schema.judge import Judge
    from kinetic.types import ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The schemas that a whole answer is judged by. Thread: any."""

    answer: Judge | None = None
    """The schema of the whole text."""
    calls: Mapping[str, Judge] = field(default_factory=dict)
    """The schemas of calls' arguments, by the functions' names."""
    think_end: str | None = None
    """What ends reasoning that may stand before the answer."""

    def warnings(self, text: str, calls: Sequence[ToolCall]) -> tuple[str, ...]:
        """What is wrong with an answer, each in one short sentence.

        Args:
            text: Everything that the model wrote.
            calls: The calls read from it.
        """
        said: list[str] = []
        if self.answer is not None:
            complaint = self.answer.complaint(self._answer_in(text))
            said += [] if complaint is None else [f"the answer: {complaint}"]
        for i, call in enumerate(calls):
            judge = self.calls.get(call.name)
            complaint = None if judge is None else judge.complaint(call.arguments)
            said += [] if complaint is None else [f"call {i}, {call.name}: {complaint}"]
        return tuple(said)

    def _answer_in(self, text: str) -> str:
        """The text without reasoning; an answer may hold the marker too."""
        if self.think_end is None:
            return text
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return text.partition(self.think_end)[2]
        return text
