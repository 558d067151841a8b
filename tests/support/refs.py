"""A stand-in for an actor's reference, for actors that are tried without a thread."""

from __future__ import annotations


class Ref:
    """Keeps what it is told."""

    def __init__(self):
        self.told: list[object] = []

    def tell(self, message):
        """As pykka's references do."""
        self.told.append(message)

    def is_alive(self):
        """Always."""
        return True

    def of(self, kind):
        """What it was told of one kind, in order."""
        return [message for message in self.told if isinstance(message, kind)]
