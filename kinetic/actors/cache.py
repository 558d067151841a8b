"""The Cache: kept sequence states, in memory and on disk."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, assert_never

from kinetic.actors import messages as m
from kinetic.actors.base import KineticActor, tell
from kinetic.actors.policy.kept import (
    Kept,
    PrefixIndex,
    Rates,
    StateRules,
    is_worth,
    to_evict,
)
from kinetic.actors.policy.plan import BatchPlan, Held, usable_prefix
from kinetic.actors.state_files import StateFiles
from kinetic.model.engine.snapshot import StateFolder, StateHead

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kinetic.actors.peers import Peers

_log = logging.getLogger(__name__)

_SMOOTHING = 0.3  # weight of the newest measurement of a speed


_MOST_LOOKS = 256  # that wait for files: a disk may stand still while requests come


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """A look-up whose state is being read from its file."""

    message: m.Match
    kept: Kept
    n_keep: int
    failed: frozenset[int]
    """States that could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """How much is kept, and where."""

    memory_bytes: int
    folder: Path | None
    disk_bytes: int
    identity: str
    """Model, engine build and plan: states of another are never used."""
    rules: StateRules


class Cache(KineticActor):
    """Owns the kept states. Hears: Match, Keep, RatesMeasured, StateWritten, StateRead.

    Tells: Scheduler, Metrics. It never waits for the disk (state_files.py). What waits
    to be written counts as memory: where that has no room, it is not written.
    """

    def __init__(self, options: CacheOptions, plan: BatchPlan, peers: Peers) -> None:
        super().__init__(peers.on_death)
        self._options = options
        self._plan = plan
        self._peers = peers
        self._index = PrefixIndex()
        self._states: dict[int, bytes] = {}  # in memory
        self._files: StateFiles | None = None
        self._reading: dict[int, list[_Look]] = {}  # who waits for a state's file
        self._n_looks = 0  # in all of these
        self._rates = Rates()
        self._ids = count()
        self._seen = m.CacheChanged(
            n_states=0,
            memory_bytes=0,
            disk_bytes=0,
            n_hits=0,
            n_misses=0,
            n_kept=0,
            n_evicted=0,
            n_unwritten=0,
        )

    def acquire(self) -> None:
        """Read the heads of the files that an earlier process left."""
        if self._options.folder is None or self._options.disk_bytes <= 0:
            return
        folder = StateFolder(self._options.folder, self._options.identity)
        me = self.actor_ref
        self._files = StateFiles(folder, lambda message: tell(me, message))
        n_found = 0
        try:
            folder.open()
            for name, head in folder.scan():
                self._enter_file(name, head)
                n_found += 1
        except OSError as error:
            _log.warning("for now states are kept in memory only: %s", error)
        self._evict()
        if n_found:
            _log.info("%d kept states found in %s", n_found, folder.path)

    def release(self) -> None:
        """Wait until what is being written is whole."""
        if self._files is not None:
            self._files.close()

    def hear(self, message: m.CacheMessage) -> None:
        """One case per message, in the order of messages/cache.py."""
        match message:
            case m.Match():
                self._look(message)
            case m.Keep():
                self._keep(message)
            case m.RatesMeasured():
                self._measured(message)
            case m.StateWritten():
                self._written(message)
            case m.StateRead():
                self._read(message)
            case _:
                assert_never(message)

    # --- Finding --------------------------------------------------------------------

    def _look(self, message: m.Match, failed: frozenset[int] = frozenset()) -> None:
        """Answer with the best state that is there, once its bytes are."""
        best = self._best(message, failed)
        if best is None:
            self._publish(n_misses=self._seen.n_misses + 1)
            self._answer(message, None)
            return
        kept, n_keep = best
        look = _Look(message=message, kept=kept, n_keep=n_keep, failed=failed)
        state = self._states.get(kept.state_id)
        if state is not None:
            self._found(look, state)
        elif self._files is None or self._n_looks == _MOST_LOOKS:
            self._answer(message, None)
        else:
            self._n_looks += 1
            if kept.state_id not in self._reading:
                self._files.read(kept.state_id)
            self._reading.setdefault(kept.state_id, []).append(look)

    def _best(
        self, message: m.Match, failed: frozenset[int]
    ) -> tuple[Kept, int] | None:
        """The state that saves most, and how many tokens of it."""
        n_prompt = len(message.prompt)
        for match in self._index.matches(message.scope, message.prompt):
            kept = match.kept
            held = Held(
                n_tokens=len(kept.tokens),
                n_prompt=kept.n_prompt,
                n_shared=match.n_shared,
                can_cut=self._options.rules.can_cut,
            )
            n_keep = usable_prefix(
                self._plan, held, n_prompt=n_prompt, images=message.images
            )
            if kept.state_id not in failed and is_worth(
                kept, n_keep - message.n_have, self._rates
            ):
                return kept, n_keep
        return None

    def _found(self, look: _Look, state: bytes) -> None:
        message, kept = look.message, look.kept
        if self._index.get(kept.state_id) is not None:
            self._index.used(kept.state_id, time.monotonic())
        _log.info(
            "resuming at token %d of %d from a kept state (%d in the slot)",
            look.n_keep,
            len(message.prompt),
            message.n_have,
        )
        self._publish(n_hits=self._seen.n_hits + 1)
        found = m.KeptState(
            state=state, tokens=kept.tokens, n_prompt=kept.n_prompt, n_keep=look.n_keep
        )
        self._answer(message, found)

    def _answer(self, message: m.Match, found: m.KeptState | None) -> None:
        matched = m.Matched(generation=message.generation, kept=found)
        tell(self._peers.scheduler, matched)

    def _read(self, message: m.StateRead) -> None:
        """Answer those who wait for a file; one that cannot be used is forgotten."""
        looks = self._reading.pop(message.state_id, [])
        self._n_looks -= len(looks)
        kept, state = self._index.get(message.state_id), message.state
        if state is None:
            if kept is not None:
                self._forget_file(kept)
            for look in looks:
                self._look(look.message, look.failed | {message.state_id})
            return
        speed = len(state) / max(message.seconds, 1e-9)
        rate = _smooth(self._rates.read_bytes_per_s, speed)
        self._rates = replace(self._rates, read_bytes_per_s=rate)
        for look in looks:
            self._found(look, state)
        if kept is not None and self._has_room(len(state)):
            self._states[message.state_id] = state
            self._place(message.state_id, in_memory=True)
            self._evict()

    # --- Keeping --------------------------------------------------------------------

    def _keep(self, message: m.Keep) -> None:
        if self._index.covers(message.scope, message.tokens):
            return
        n_bytes, files = len(message.state), self._files
        if files is not None and n_bytes > self._options.disk_bytes:
            files = None
        if not self._has_room(n_bytes) and (files is None or files.writing is not None):
            if files is not None:
                self._publish(n_unwritten=self._seen.n_unwritten + 1)
            return
        state_id = next(self._ids)
        self._states[state_id] = message.state
        self._index.add(
            Kept(
                state_id=state_id,
                scope=message.scope,
                tokens=message.tokens,
                n_prompt=message.n_prompt,
                n_bytes=n_bytes,
                in_memory=True,
                on_disk=False,
                kept_s=time.monotonic(),
            )
        )
        self._drop_covered(state_id, files=files is None)
        if files is not None:
            head = StateHead(
                identity=self._options.identity,
                scope=message.scope,
                tokens=message.tokens,
                n_prompt=message.n_prompt,
                n_bytes=n_bytes,
            )
            files.write(state_id, head, message.state)
        self._evict()
        self._publish(n_kept=self._seen.n_kept + 1)

    def _has_room(self, n_bytes: int) -> bool:
        """Whether memory could hold a state beside what cannot be freed now."""
        taken = 0 if self._files is None else self._files.n_writing_bytes
        return n_bytes + taken <= self._options.memory_bytes

    def _drop_covered(self, state_id: int, *, files: bool) -> None:
        """The longer state serves whatever a shorter one does.

        A shorter one's file goes only when the longer one has its own.
        """
        longer = self._index.get(state_id)
        if longer is None or not self._options.rules.can_cut:
            return
        for kept in self._index.covered_by(longer.scope, longer.tokens):
            if kept.state_id != state_id:
                self._free(kept.state_id)
                if files and self._files is not None:
                    self._files.remove(kept.state_id)
                if files or not kept.on_disk:
                    self._index.remove(kept.state_id)
                else:
                    self._place(kept.state_id, in_memory=False)

    def _written(self, message: m.StateWritten) -> None:
        files, state_id = self._files, message.state_id
        if files is None:
            return
        is_whole = files.written(message)
        if not is_whole:
            self._publish(n_unwritten=self._seen.n_unwritten + 1)
        elif self._index.get(state_id) is None:
            # Dropped while it was written.
            files.remove(state_id)
        else:
            self._place(state_id, on_disk=True)
            self._drop_covered(state_id, files=True)
        self._evict()

    def _enter_file(self, name: str, head: StateHead) -> None:
        state_id = next(self._ids)
        if self._files is not None:
            self._files.found(state_id, name)
        self._index.add(
            Kept(
                state_id=state_id,
                scope=head.scope,
                tokens=head.tokens,
                n_prompt=head.n_prompt,
                n_bytes=head.n_bytes,
                in_memory=False,
                on_disk=True,
                kept_s=time.monotonic(),
            )
        )

    def _evict(self) -> None:
        """Make memory and disk fit their budgets, least valuable states first."""
        now = time.monotonic()
        files = self._files
        budget = self._options.memory_bytes
        if files is not None:
            # The writer holds these bytes, whatever becomes of their state.
            budget -= files.n_writing_bytes
        # What waits to be written would be lost, not only slower: it goes last.
        here, waiting = [], []
        for kept in self._index:
            if files is not None and files.is_waiting(kept.state_id):
                waiting.append(kept)
                budget -= kept.n_bytes
            elif kept.in_memory and (files is None or files.writing != kept.state_id):
                here.append(kept)
        for kept in to_evict(here, budget, now):
            self._free(kept.state_id)
            self._place(kept.state_id, in_memory=False)
        for kept in to_evict(waiting, budget + sum(k.n_bytes for k in waiting), now):
            self._free(kept.state_id)
            self._place(kept.state_id, in_memory=False)
            self._publish(n_unwritten=self._seen.n_unwritten + 1)
        there = [k for k in self._index if k.on_disk]
        for kept in to_evict(there, self._options.disk_bytes, now):
            self._forget_file(kept)
        self._publish()

    def _free(self, state_id: int) -> None:
        """Let a state's bytes go, and the wish to write them."""
        self._states.pop(state_id, None)
        if self._files is not None:
            self._files.give_up(state_id)

    def _forget_file(self, kept: Kept) -> None:
        if self._files is not None:
            self._files.remove(kept.state_id)
        self._place(kept.state_id, on_disk=False)

    def _place(
        self,
        state_id: int,
        *,
        in_memory: bool | None = None,
        on_disk: bool | None = None,
    ) -> None:
        """Enter anew where a state lies; one that lies nowhere any more is evicted."""
        kept = self._index.get(state_id)
        if kept is None:
            return
        kept = replace(
            kept,
            in_memory=kept.in_memory if in_memory is None else in_memory,
            on_disk=kept.on_disk if on_disk is None else on_disk,
        )
        if kept.in_memory or kept.on_disk:
            self._index.add(kept)
        else:
            self._index.remove(state_id)
            self._publish(n_evicted=self._seen.n_evicted + 1)

    # --- Telling --------------------------------------------------------------------

    def _measured(self, message: m.RatesMeasured) -> None:
        rates = self._rates
        self._rates = replace(
            rates,
            prompt_tokens_per_s=_smooth(
                rates.prompt_tokens_per_s, message.prompt_tokens_per_s
            ),
            restore_bytes_per_s=_smooth(
                rates.restore_bytes_per_s, message.restore_bytes_per_s
            ),
        )

    def _publish(self, **changes: int) -> None:
        entries = list(self._index)
        self._seen = replace(
            self._seen,
            n_states=len(entries),
            memory_bytes=self._memory_bytes(entries),
            disk_bytes=sum(k.n_bytes for k in entries if k.on_disk),
            **changes,
        )
        tell(self._peers.metrics, self._seen)

    def _memory_bytes(self, entries: Iterable[Kept]) -> int:
        """What states hold of memory, one that is gone and being written included."""
        held = sum(k.n_bytes for k in entries if k.in_memory)
        files = self._files
        if files is not None and files.writing not in self._states:
            held += files.n_writing_bytes
        return held


def _smooth(old: float, new: float) -> float:
    return old + _SMOOTHING * (new - old) if new > 0 else old
