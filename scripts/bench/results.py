"""What a run found: kept as JSON while it goes on, and read again for the page."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from scripts.bench.actors import Cost

FORMAT: Final = 1


@dataclass(slots=True, kw_only=True)
class Failure:
    """A load that did not come to its end."""

    load: str
    server: str
    round: int
    error: str


@dataclass(slots=True, kw_only=True)
class Section:
    """One model, the servers that ran it and their figures."""

    key: str
    title: str
    file: str
    n_bytes: int
    rounds: int
    sizes: dict[str, int]
    commands: dict[str, str]
    """Each server's command line, without this machine's paths; Kinetic first."""
    said: dict[str, str] = field(default_factory=dict)
    """What Kinetic says of how it runs the model: its plan, and what it drafts from."""
    lacks: dict[str, dict[str, str]] = field(default_factory=dict)
    """Why a server has no such figure."""
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """By figure and server: one value for each round."""
    failures: list[Failure] = field(default_factory=list)

    @property
    def servers(self) -> list[str]:
        """Names of the servers."""
        return list(self.commands)

    def add(self, server: str, found: dict[str, float]) -> None:
        """Takes in what one load found, to four digits."""
        for key, value in found.items():
            values = self.figures.setdefault(key, {}).setdefault(server, [])
            values.append(float(f"{value:.4g}"))


@dataclass(slots=True, kw_only=True)
class Results:
    """A whole run."""

    made: str
    """The day, as YYYY-MM-DD."""
    command: str
    machine: dict[str, str]
    versions: dict[str, str]
    n_threads: int
    minutes: float = 0.0
    is_finished: bool = False
    sections: list[Section] = field(default_factory=list)
    actors: list[Cost] = field(default_factory=list)

    def section(self, key: str) -> Section | None:
        """Finds a section."""
        return next((one for one in self.sections if one.key == key), None)


def write(results: Results, path: Path) -> None:
    """Writes the file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    value = {"format": FORMAT, **asdict(results)}
    beside.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def read(path: Path) -> Results:
    """Reads what `write` wrote.

    Raises:
        SystemExit: The file is of another format.
    """
    value: dict[str, Any] = json.loads(path.read_text("utf-8"))
    if value.pop("format", None) != FORMAT:
        raise SystemExit(f"{path} is not a result of this benchmark's format {FORMAT}")
    sections = [
        Section(**{**one, "failures": [Failure(**f) for f in one["failures"]]})
        for one in value.pop("sections")
    ]
    actors = [Cost(**one) for one in value.pop("actors")]
    return Results(**value, sections=sections, actors=actors)
