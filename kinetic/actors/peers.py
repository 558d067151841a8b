"""The record of references by which actors know each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pykka

from kinetic.actors.base import OnDeath
from kinetic.actors.thread import SharedThread


@dataclass(slots=True)
class Peers:
    """Everyone's references; filled once, before the first message."""

    on_death: OnDeath
    thread: SharedThread = field(default_factory=lambda: SharedThread("decode"))
    """Of the Decoder and the Slots, who only have work between two passes."""
    slots: list[pykka.ActorRef[Any]] = field(default_factory=list)
    decoder: pykka.ActorRef[Any] = None  # type: ignore[assignment]
    detokenizer: pykka.ActorRef[Any] = None  # type: ignore[assignment]
    scheduler: pykka.ActorRef[Any] = None  # type: ignore[assignment]
    metrics: pykka.ActorRef[Any] = None  # type: ignore[assignment]
    renewer: pykka.ActorRef[Any] = None  # type: ignore[assignment]
    cache: pykka.ActorRef[Any] | None = None
    """None where no states are kept."""
    receipt: pykka.ActorRef[Any] | None = None
    """None where no receipts are made."""
