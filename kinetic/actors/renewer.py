"""The Renewer: compiles constraints again, so that no stream waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinetic.actors.base import KineticActor, tell
from kinetic.actors.messages import Renew, Renewed, RenewerMessage
from kinetic.errors import KineticError

if TYPE_CHECKING:
    from kinetic.actors.peers import Peers


class Renewer(KineticActor):
    """Makes matchers for answers whose own has met a limit.

    Hears: Renew. Tells: Slot. Each takes up to a second, and a slot has one at a time:
    meanwhile its answer stands still, and passes are run for the others.
    """

    def __init__(self, peers: Peers) -> None:
        super().__init__(peers.on_death)
        self._peers = peers

    def hear(self, message: RenewerMessage) -> None:
        """There is one kind of message."""
        tell(self._peers.slots[message.slot_id], _renewed(message))


def _renewed(renew: Renew) -> Renewed:
    try:
        walker = renew.renewal.walker()
    except KineticError as error:
        return Renewed(serial=renew.serial, walker=None, error=error)
    return Renewed(serial=renew.serial, walker=walker)
