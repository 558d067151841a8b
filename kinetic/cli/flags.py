"""Flags as rows, and the parser that a command's rows make."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kinetic.config import ServeOptions

DEFAULTS: Final = ServeOptions(model=Path())
"""Where every flag of an option finds its default, and its help the words for it."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag or argument."""

    names: str
    """As help shows it: every name, then what stands for the value, if it has one."""
    to: str
    """The option it sets: a field of `ServeOptions`, or a name of the command's own."""
    read: Callable[[str], Any] | None = None
    action: str | None = None
    const: Any = None
    choices: Sequence[str] | None = None
    nargs: str | None = None
    default: Any = None
    """None is what `ServeOptions` has."""

    def add(self, group: argparse._ActionsContainer, meaning: str) -> None:
        """Have a parser take it, and say what it means."""
        words = self.names.split()
        names = [word for word in words if word.startswith("-")] or [self.to]
        given = {
            "dest": None if names == [self.to] else self.to,
            "metavar": None if words == names else words[-1],
            "help": meaning,
            "type": self.read,
            "action": self.action,
            "const": self.const,
            "choices": self.choices,
            "nargs": self.nargs,
            "default": self.default if self.default is not None else _usual(self.to),
        }
        group.add_argument(*names, **{k: v for k, v in given.items() if v is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command: its words, its flags by group, and what runs it."""

    name: str
    help: str
    run: Callable[[argparse.Namespace], int]
    flags: Mapping[Flag, str] = field(default_factory=dict)
    """What is under no title, and what each means."""
    groups: Sequence[tuple[str, Mapping[Flag, str]]] = ()
    """Titles and what is under them; one that comes again goes on."""
    description: str | None = None

    def add(self, commands: argparse._SubParsersAction[Any]) -> None:
        """Have a parser take it."""
        parser = commands.add_parser(
            self.name, help=self.help, description=self.description
        )
        groups: dict[str, argparse._ActionsContainer] = {"": parser}
        for title, rows in ("", self.flags), *self.groups:
            group = groups.get(title) or parser.add_argument_group(title)
            groups[title] = group
            for flag, meaning in rows.items():
                flag.add(group, meaning)
        parser.set_defaults(run=self.run)


def whole(
    least: int, most: int | None = None, to: Callable[[int], Any] = int
) -> Callable[[str], Any]:
    """What reads whole numbers within limits and turns them into what is kept."""

    def read(text: str) -> Any:
        value = int(text)
        if value < least or (most is not None and value > most):
            bounds = f"from {least} to {most}" if most is not None else f">= {least}"
            raise argparse.ArgumentTypeError(f"{value} is not {bounds}")
        return to(value)

    read.__name__ = "whole number"
    return read


def _usual(option: str) -> Any:
    value = getattr(DEFAULTS, option, None)
    return list(value) if isinstance(value, tuple) else value
