"""Kept sequence states: found by their longest common prefix, evicted by value. Pure.

Nothing here holds a state's bytes, touches a file or reads a clock: entries say how
large a state is and where it lies, and time is an argument.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kinetic.actors.policy.prefix import shared_length

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

BLOCK = 16
"""Tokens per block of the index: the shortest prefix that can be found."""

_AGE_S = 60.0  # states younger than this are worth about the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One kept state."""

    state_id: int
    scope: tuple[str, ...]
    """What else must be equal, such as adapters."""
    tokens: npt.NDArray[np.int32]
    n_prompt: int
    """How many of the tokens were run as a prompt; the rest were generated."""
    n_bytes: int
    in_memory: bool
    on_disk: bool
    kept_s: float
    """When it was kept or last used, seconds on any one clock."""
    n_uses: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A kept state that a prompt may build on, and how many tokens they share."""

    kept: Kept
    n_shared: int


class PrefixIndex:
    """Finds states by the blocks of their tokens.

    Every state is entered under the hash of each of its leading whole blocks, chained,
    so a look-up walks the prompt's blocks only as far as some state shares them.
    """

    def __init__(self) -> None:
        self._by_id: dict[int, Kept] = {}
        self._by_chain: dict[bytes, set[int]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Kept]:
        return iter(list(self._by_id.values()))

    def add(self, kept: Kept) -> None:
        """Enter a state, in place of one with the same id."""
        self.remove(kept.state_id)
        self._by_id[kept.state_id] = kept
        for chain in _chains(kept.scope, kept.tokens):
            self._by_chain.setdefault(chain, set()).add(kept.state_id)

    def remove(self, state_id: int) -> None:
        """Forget a state; one that is not there is no error."""
        kept = self._by_id.pop(state_id, None)
        if kept is None:
            return
        for chain in _chains(kept.scope, kept.tokens):
            holders = self._by_chain[chain]
            holders.discard(state_id)
            if not holders:
                del self._by_chain[chain]

    def get(self, state_id: int) -> Kept | None:
        """The entry of a state."""
        return self._by_id.get(state_id)

    def matches(
        self, scope: tuple[str, ...], prompt: npt.NDArray[np.int32]
    ) -> list[Candidate]:
        """States that share at least one block, the longest shared prefix first.

        Of equals the shorter state comes first: it is the quicker to put back.
        """
        found: set[int] = set()
        for chain in _chains(scope, prompt):
            holders = self._by_chain.get(chain)
            if holders is None:
                break
            if not found:
                # Whoever shares a later block shares the first.
                found = set(holders)
        pairs = [
            Candidate(kept=kept, n_shared=shared_length(prompt, kept.tokens))
            for kept in map(self._by_id.__getitem__, found)
        ]
        return sorted(
            pairs, key=lambda m: (-m.n_shared, len(m.kept.tokens), m.kept.state_id)
        )

    def covers(self, scope: tuple[str, ...], tokens: npt.NDArray[np.int32]) -> bool:
        """Whether some state already holds all of these tokens."""
        return any(m.n_shared == len(tokens) for m in self.matches(scope, tokens)[:1])

    def covered_by(
        self, scope: tuple[str, ...], tokens: npt.NDArray[np.int32]
    ) -> list[Kept]:
        """States whose every token these tokens begin with."""
        return [
            m.kept
            for m in self.matches(scope, tokens)
            if m.n_shared == len(m.kept.tokens)
        ]

    def used(self, state_id: int, now_s: float) -> None:
        """Note that a state was useful."""
        kept = self._by_id[state_id]
        self._by_id[state_id] = replace(kept, n_uses=kept.n_uses + 1, kept_s=now_s)


def _chains(scope: tuple[str, ...], tokens: npt.NDArray[np.int32]) -> Iterator[bytes]:
    """Digests of the leading whole blocks, each over everything up to its end."""
    chain = hashlib.blake2b(repr(scope).encode(), digest_size=16)
    for end in range(BLOCK, len(tokens) + 1, BLOCK):
        chain.update(tokens[end - BLOCK : end].tobytes())
        yield chain.digest()


def value(kept: Kept, now_s: float) -> float:
    """What a state is worth per byte: tokens saved, use, and youth."""
    age = max(now_s - kept.kept_s, 0.0) + _AGE_S
    return len(kept.tokens) * (1 + kept.n_uses) / (age * max(kept.n_bytes, 1))


def to_evict(
    entries: Sequence[Kept], budget_bytes: int, now_s: float
) -> tuple[Kept, ...]:
    """The least valuable entries that must go for the rest to fit the budget."""
    total = sum(kept.n_bytes for kept in entries)
    gone = []
    for kept in sorted(entries, key=lambda k: (value(k, now_s), k.state_id)):
        if total <= budget_bytes:
            break
        gone.append(kept)
        total -= kept.n_bytes
    return tuple(gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Measured speeds; the defaults are cautious until something was measured."""

    prompt_tokens_per_s: float = 1000.0
    restore_bytes_per_s: float = 1e9
    read_bytes_per_s: float = 3e8


def is_worth(kept: Kept, n_gained: int, rates: Rates) -> bool:
    """Whether putting a state back beats computing the `n_gained` tokens it saves."""
    if n_gained <= 0:
        return False
    compute_s = n_gained / rates.prompt_tokens_per_s
    restore_s = kept.n_bytes / rates.restore_bytes_per_s
    if not kept.in_memory:
        restore_s += kept.n_bytes / rates.read_bytes_per_s
    return restore_s < compute_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRules:
    """What a model's memory allows; measured per architecture (docs/exactness.md)."""

    can_cut: bool = True
    """Whether a put-back state may be cut shorter. Recurrent memory cannot step back;
    behind a sliding window a cut of a put-back state is wrong."""
    window: int = 0
    """The sliding window in tokens; 0 is none. States are exact where the tokens that
    the window hides are none or a multiple of 64."""


_LANE = 64


def exact_length(rules: StateRules, n_tokens: int) -> int:
    """The longest length up to `n_tokens` at which a state may be kept."""
    if rules.window <= 0 or n_tokens <= rules.window:
        return n_tokens
    return n_tokens - (n_tokens - rules.window) % _LANE
