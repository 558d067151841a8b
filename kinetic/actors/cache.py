"""The Cache: kept sequence states, in memory and on disk."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, assert_never

from kinetic.actors import messages as m
from kinetic.actors.base import KineticActor, tell
from kinetic.actors.kept import (
    Kept,
    PrefixIndex,
    Rates,
    StateRules,
    is_worth,
    to_evict,
)
from kinetic.actors.plan import BatchPlan, Held, usable_prefix
from kinetic.model.snapshot import StateFolder, StateHead

if TYPE_CHECKING:
    from pathlib import Path

    from kinetic.actors.system import Peers

_log = logging.getLogger(__name__)

_SMOOTHING = 0.3  # weight of the newest measurement of a speed


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
    """Owns the kept states. Hears: Match, Keep, RatesMeasured, StateWritten.

    Tells: Scheduler, Metrics. Files are written by a thread of its own, so that a look
    up never waits for the disk; a file is read only when its state will be used.
    """

    def __init__(self, options: CacheOptions, plan: BatchPlan, peers: Peers) -> None:
        super().__init__(peers.on_death)
        self._options = options
        self._plan = plan
        self._peers = peers
        self._index = PrefixIndex()
        self._states: dict[int, bytes] = {}  # in memory
        self._files: dict[int, str] = {}  # on disk
        self._writing: set[int] = set()
        self._folder: StateFolder | None = None
        self._writer: ThreadPoolExecutor | None = None
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
        )

    def acquire(self) -> None:
        """Read the heads of the files that an earlier process left."""
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="cache-writer")
        if self._options.folder is None or self._options.disk_bytes <= 0:
            return
        folder = StateFolder(self._options.folder, self._options.identity)
        try:
            folder.open()
            for name, head in folder.scan():
                self._enter_file(name, head)
        except OSError as error:
            _log.warning("states are kept in memory only: %s", error)
            return
        self._folder = folder
        self._evict()
        if self._files:
            _log.info("%d kept states found in %s", len(self._files), folder.path)

    def release(self) -> None:
        """Wait until what is being written is whole."""
        if self._writer is not None:
            self._writer.shutdown(wait=True)

    def hear(self, message: m.CacheMessage) -> None:
        """One case per message, in the order of messages/cache.py."""
        match message:
            case m.Match():
                self._match(message)
            case m.Keep():
                self._keep(message)
            case m.RatesMeasured():
                self._measured(message)
            case m.StateWritten():
                self._written(message)
            case _:
                assert_never(message)

    # --- Finding --------------------------------------------------------------------

    def _match(self, message: m.Match) -> None:
        found = self._best(message)
        if found is None:
            self._publish(n_misses=self._seen.n_misses + 1)
        else:
            self._publish(n_hits=self._seen.n_hits + 1)
        matched = m.Matched(generation=message.generation, kept=found)
        tell(self._peers.scheduler, matched)

    def _best(self, message: m.Match) -> m.KeptState | None:
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
            if not is_worth(kept, n_keep - message.n_have, self._rates):
                continue
            state = self._load(kept)
            if state is None:
                continue
            self._index.used(kept.state_id, time.monotonic())
            _log.info(
                "resuming at token %d of %d from a kept state (%d in the slot)",
                n_keep,
                n_prompt,
                message.n_have,
            )
            return m.KeptState(
                state=state,
                tokens=kept.tokens,
                n_prompt=kept.n_prompt,
                n_keep=n_keep,
            )
        return None

    def _load(self, kept: Kept) -> bytes | None:
        """A state's bytes; one whose file is bad is forgotten."""
        state = self._states.get(kept.state_id)
        if state is not None or self._folder is None:
            return state
        started = time.perf_counter()
        state = self._folder.read(self._files[kept.state_id])
        if state is None:
            self._files.pop(kept.state_id, None)
            self._index.remove(kept.state_id)
            return None
        seconds = max(time.perf_counter() - started, 1e-9)
        self._rates = replace(
            self._rates,
            read_bytes_per_s=_smooth(
                self._rates.read_bytes_per_s, len(state) / seconds
            ),
        )
        self._states[kept.state_id] = state
        self._index.add(replace(kept, in_memory=True))
        self._evict(spare=kept.state_id)
        return state

    # --- Keeping --------------------------------------------------------------------

    def _keep(self, message: m.Keep) -> None:
        if self._index.covers(message.scope, message.tokens):
            return
        too_large = len(message.state) > max(
            self._options.memory_bytes,
            self._options.disk_bytes if self._folder is not None else 0,
        )
        if too_large:
            return
        if self._options.rules.can_cut:
            # The longer state serves whatever the shorter one does.
            for kept in self._index.covered_by(message.scope, message.tokens):
                self._drop(kept.state_id)
        state_id = next(self._ids)
        self._states[state_id] = message.state
        self._index.add(
            Kept(
                state_id=state_id,
                scope=message.scope,
                tokens=message.tokens,
                n_prompt=message.n_prompt,
                n_bytes=len(message.state),
                in_memory=True,
                on_disk=False,
                kept_s=time.monotonic(),
            )
        )
        self._write(state_id, message)
        self._evict()
        self._publish(n_kept=self._seen.n_kept + 1)

    def _write(self, state_id: int, message: m.Keep) -> None:
        folder, writer = self._folder, self._writer
        if folder is None or writer is None:
            return
        if len(message.state) > self._options.disk_bytes:
            return
        head = StateHead(
            identity=self._options.identity,
            scope=message.scope,
            tokens=message.tokens,
            n_prompt=message.n_prompt,
            n_bytes=len(message.state),
        )
        me = self.actor_ref

        def work() -> None:
            name = None
            try:
                name = folder.write(head, message.state)
            except OSError as error:
                _log.warning("states are no longer written to disk: %s", error.strerror)
            tell(me, m.StateWritten(state_id=state_id, name=name))

        self._writing.add(state_id)
        writer.submit(work)

    def _written(self, message: m.StateWritten) -> None:
        self._writing.discard(message.state_id)
        folder = self._folder
        if message.name is None:
            # A full or read-only disk only switches keeping there off.
            self._folder = None
            return
        kept = self._index.get(message.state_id)
        if kept is None:
            # Dropped while it was written.
            if folder is not None:
                folder.remove(message.name)
            return
        self._files[message.state_id] = message.name
        self._index.add(replace(kept, on_disk=True))
        self._evict()
        self._publish()

    def _enter_file(self, name: str, head: StateHead) -> None:
        state_id = next(self._ids)
        self._files[state_id] = name
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

    def _evict(self, spare: int | None = None) -> None:
        """Make memory and disk fit their budgets, least valuable states first."""
        now = time.monotonic()
        here = [k for k in self._index if k.in_memory and k.state_id != spare]
        budget = self._options.memory_bytes
        if spare is not None:
            budget -= len(self._states[spare])
        for kept in to_evict(here, budget, now):
            self._forget_memory(kept)
        there = [k for k in self._index if k.on_disk]
        for kept in to_evict(there, self._options.disk_bytes, now):
            self._forget_file(kept)
        self._publish()

    def _forget_memory(self, kept: Kept) -> None:
        if kept.state_id in self._writing:
            # Its bytes are held by the writer anyway; it goes once it is written.
            return
        self._states.pop(kept.state_id, None)
        self._settle(replace(kept, in_memory=False))

    def _forget_file(self, kept: Kept) -> None:
        name = self._files.pop(kept.state_id, None)
        if name is not None and self._folder is not None:
            self._folder.remove(name)
        current = self._index.get(kept.state_id)
        if current is not None:
            self._settle(replace(current, on_disk=False))

    def _settle(self, kept: Kept) -> None:
        if kept.in_memory or kept.on_disk:
            self._index.add(kept)
        else:
            self._index.remove(kept.state_id)
            self._publish(n_evicted=self._seen.n_evicted + 1)

    def _drop(self, state_id: int) -> None:
        self._states.pop(state_id, None)
        name = self._files.pop(state_id, None)
        if name is not None and self._folder is not None:
            self._folder.remove(name)
        self._index.remove(state_id)

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
            memory_bytes=sum(k.n_bytes for k in entries if k.in_memory),
            disk_bytes=sum(k.n_bytes for k in entries if k.on_disk),
            **changes,
        )
        tell(self._peers.metrics, self._seen)


def _smooth(old: float, new: float) -> float:
    return old + _SMOOTHING * (new - old) if new > 0 else old
