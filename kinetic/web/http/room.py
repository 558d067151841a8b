"""How many connections fit the files that the process may open."""

from __future__ import annotations

import resource

from kinetic.errors import LimitError
from kinetic.web.http.crowd import Room

ANSWERS = 256
"""Connections that are answered or idle, where nothing else is asked for."""

SENDERS = 64
"""More connections that have not sent a whole request. Each may hold a body, and nobody
has asked for its key yet."""

RESERVE = 64
"""Files kept free: the model's, kept states, the loop's own, logs."""

_LEAST = 16


def fit(n_files: int, asked: int | None) -> Room:
    """The room within `n_files` open files; `asked` answers, where that is given.

    Raises LimitError, with both numbers, when there is no such room.
    """
    free = n_files - RESERVE
    if free < _LEAST:
        raise LimitError(
            f"{n_files} files may be open at once (ulimit -n); the server needs"
            f" {RESERVE + _LEAST} at least"
        )
    n_senders = min(SENDERS, free // 4)
    most = free - n_senders
    if asked is not None and asked > most:
        raise LimitError(
            f"--max-connections {asked} is more than fits: {n_files} files may be open"
            f" at once (ulimit -n), which leaves {most}"
        )
    return Room(n_answers=min(asked or ANSWERS, most), n_senders=n_senders)


def may_open(asked: int | None) -> int:
    """How many files may be open; the limit is raised to what is needed if allowed."""
    wanted = (asked or ANSWERS) + SENDERS + RESERVE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or soft >= wanted:
        return wanted if soft == unlimited else soft
    soft = wanted if hard == unlimited else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft
