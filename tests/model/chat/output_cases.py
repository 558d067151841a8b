"""Texts that models write, with how each is to be read, and ways to feed them."""

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinetic.model.chat.reply.calls import OutputFormat, OutputParser, parser_for
from kinetic.types import CallPiece, ContentPiece, OutputPiece, ReasoningPiece, ToolCall

CASES = Path(__file__).parent / "cases"
TOOLS: dict[str, dict[str, Any]] = json.loads((CASES / "tools.json").read_text("utf-8"))


def tools(*names: str) -> tuple[dict[str, Any], ...]:
    return tuple({"type": "function", "function": TOOLS[name]} for name in names)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A text and its right reading; `calls` are names with arguments."""

    name: str
    why: str
    family: str
    text: str
    tools: list[str]
    content: str = ""
    reasoning: str = ""
    calls: list[list[Any]] = field(default_factory=list)
    ids: list[str | None] | None = None
    think_open: str | None = None
    think_tags: list[str] | None = None
    truncated: bool = False
    parallel: bool = True
    split_reasoning: bool = True
    forced: bool = False

    @property
    def format(self) -> OutputFormat:
        opener, closer = self.think_tags or ("", "")
        return OutputFormat(
            family=self.family,
            tools=tools(*self.tools),
            think_open=self.think_open,
            think_tags=(opener, closer) if self.think_tags else None,
            parallel=self.parallel,
            split_reasoning=self.split_reasoning,
            forced=self.forced,
        )


def load() -> dict[str, Case]:
    """All cases by file and name."""
    found = {}
    for path in sorted(CASES.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            case = Case(**json.loads(line))
            found[f"{path.stem}-{case.name}"] = case
    return found


@dataclass(frozen=True)
class Result:
    """What a client puts together from all pieces."""

    content: str
    reasoning: str
    calls: tuple[ToolCall, ...]

    @classmethod
    def of(cls, pieces: Iterable[OutputPiece]) -> "Result":
        content = reasoning = ""
        calls: list[ToolCall] = []
        for piece in pieces:
            match piece:
                case ContentPiece(text):
                    content += text
                case ReasoningPiece(text):
                    reasoning += text
                case CallPiece(index, call):
                    assert index == len(calls)
                    calls.append(call)
        return cls(content, reasoning, tuple(calls))

    def starts(self, other: "Result") -> bool:
        """True if `other` is this and more."""
        return (
            other.content.startswith(self.content)
            and other.reasoning.startswith(self.reasoning)
            and other.calls[: len(self.calls)] == self.calls
        )


def counted_ids() -> Iterator[str]:
    return (f"made{n:05d}" for n in itertools.count())


def parser(fmt: OutputFormat) -> OutputParser:
    return parser_for(fmt, counted_ids().__next__)


def read(fmt: OutputFormat, *chunks: str, truncated: bool = False) -> Result:
    reader = parser(fmt)
    pieces = [piece for chunk in chunks for piece in reader.feed(chunk)]
    return Result.of([*pieces, *reader.finish(truncated=truncated)])


def chunked(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]
