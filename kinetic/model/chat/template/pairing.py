"""Pairs tools' results with their calls, and puts them in the order of the calls.

Many templates print neither ids nor names, so that a model tells results apart by their
order alone: a result in another's place would be read as the other's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kinetic.model.chat.template.normalise import Call, TemplateError, Turn

SHOWN_CHARS = 60
"""How much of an id or a name an error message repeats."""


def paired(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Give each result the id and the name of its call, and its place.

    A result is bound by its id; by its function's name where it has no id; and to the
    first call that waits where it has neither. Results that follow calls directly
    answer each of them at most once, without a gap. Where no call stands directly
    before, a result that fits none is kept as it is: clients cut the beginning off
    conversations that have grown too long.

    Raises:
        TemplateError: A result or a call has no counterpart, or two calls of one
            message have one id; the text names the message.
    """
    pairing = _Pairing()
    for turn in turns:
        pairing.add(turn)
    return pairing.done()


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A call that has no result yet."""

    place: int
    """Its number among all calls."""
    call: Call
    where: str
    """For error messages."""


class _Pairing:
    def __init__(self) -> None:
        self._done: list[Turn] = []
        self._results: list[tuple[int, Turn]] = []
        """Those since the last other message, each with its call's place."""
        self._near: list[_Waiting] = []
        """Calls that wait, of the messages directly before the results."""
        self._follows_calls = False
        self._far: list[_Waiting] = []
        """Calls that wait since before that."""
        self._n_calls = 0
        self._n_strays = 0

    def add(self, turn: Turn) -> None:
        """Go on with the next turn."""
        if turn.role == "tool":
            self._results.append(self._bound(turn))
            return
        self._put_results()
        if not (turn.calls and self._done and self._done[-1].calls):
            self._far += self._near
            self._near = []
        self._follows_calls = bool(turn.calls)
        ids: set[str] = set()
        for index, call in enumerate(turn.calls):
            where = f"messages[{turn.origin}].tool_calls[{index}]"
            if call.id in ids:
                raise _wrong(f"{where}.id is {_shown(call.id)} a second time")
            ids.add(call.id)
            self._near.append(_Waiting(self._n_calls, call, where))
            self._n_calls += 1
        self._done.append(turn)

    def done(self) -> tuple[Turn, ...]:
        """All turns."""
        self._put_results()
        return tuple(self._done)

    def _bound(self, turn: Turn) -> tuple[int, Turn]:
        found = self._call_of(turn)
        if found is not None:
            waiting = self._near if found in self._near else self._far
            waiting.remove(found)
            name = turn.name or found.call.name
            return found.place, replace(turn, call_id=found.call.id, name=name)
        if self._follows_calls:
            raise _stray(turn)
        if turn.call_id is None:
            self._n_strays += 1
            turn = replace(turn, call_id=f"tool{self._n_strays:05d}")
        return self._n_calls, turn

    def _call_of(self, turn: Turn) -> _Waiting | None:
        if turn.call_id is not None:
            # Some clients count from zero in every round: the latest is meant.
            return _first(
                waiting
                for waiting in (*self._near, *reversed(self._far))
                if waiting.call.id == turn.call_id
            )
        return _first(
            waiting
            for waiting in (*self._near, *self._far)
            if turn.name in (None, waiting.call.name)
        )

    def _put_results(self) -> None:
        if not self._results:
            return
        results, self._results = self._results, []
        if self._follows_calls:
            results.sort(key=lambda result: result[0])
            last = results[-1][0]
            for waiting in self._near:
                if waiting.place < last:
                    raise _wrong(f"{waiting.where} has no result, and a later call has")
        self._done += (turn for _, turn in results)


def _first(found: Iterable[_Waiting]) -> _Waiting | None:
    return next(iter(found), None)


def _stray(turn: Turn) -> TemplateError:
    where = f"messages[{turn.origin}]"
    if turn.call_id is not None:
        named = f"{where}.tool_call_id is {_shown(turn.call_id)}"
        return _wrong(f"{named}, and no call of that id waits for a result")
    if turn.name is not None:
        named = f"{where} is a result of {_shown(turn.name)}"
        return _wrong(f"{named}, and no call of that function waits for one")
    return _wrong(f"{where} is one result more than there are calls before it")


def _shown(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if len(quoted) <= SHOWN_CHARS else f"{quoted[:SHOWN_CHARS]}…"


def _wrong(message: str) -> TemplateError:
    return TemplateError(message, param="messages")
