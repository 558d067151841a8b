"""How a pass may be shaped so that no row's bits depend on its neighbours.

A `BatchPlan` is data; `shape` is the one place that reads it. Pure: no threads, no
clock. Why rows can depend on their neighbours at all: docs/exactness.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinetic.model.job import outside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinetic.model.job import ImageSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """Which passes give the same bits as a request alone."""

    name: str
    """"uniform": any rows agree with any others. "alone": requests take turns."""
    prompt_chunk: int
    """Most prompt rows in a pass while nothing else runs."""
    shared_chunk: int
    """Most prompt rows in a pass while answers are being generated."""
    prompt_multiple: int
    """Prompt chunks end at multiples of this position (or at the prompt's end)."""
    rows_per_sequence: int
    """Most rows of one sequence in a generating step (1: no drafts)."""
    max_step_sequences: int
    """Most sequences that generate in one pass."""
    mix_prompt_and_steps: bool
    """Whether prompt rows may share a pass with generated rows."""
    resume_multiple: int
    """A kept prefix is used up to a multiple of this length."""
    answers_reusable: bool
    """Whether generated tokens may be part of a prefix that is used again."""


def uniform_plan(*, n_sequences: int) -> BatchPlan:
    """Every row agrees with every other: any batch, any resume point."""
    return BatchPlan(
        name="uniform",
        prompt_chunk=128,
        shared_chunk=32,
        prompt_multiple=1,
        rows_per_sequence=16,
        max_step_sequences=n_sequences,
        mix_prompt_and_steps=True,
        resume_multiple=1,
        answers_reusable=True,
    )


def alone_plan() -> BatchPlan:
    """One sequence a pass, prompts in fixed chunks from position 0, no drafts."""
    return BatchPlan(
        name="alone",
        prompt_chunk=64,
        shared_chunk=64,
        prompt_multiple=64,
        rows_per_sequence=1,
        max_step_sequences=1,
        mix_prompt_and_steps=False,
        resume_multiple=64,
        answers_reusable=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A slot's rows that wait to be run."""

    slot_id: int
    first: int
    """How many tokens stand before the first waiting row."""
    n_rows: int
    """Rows that may share a pass: up to the next picture, or to this one's end."""
    is_step: bool
    """Generated rows (to be run whole), not a piece of a prompt."""
    arrived: int
    """Order of arrival; prompts are run first come, first served."""
    is_image: bool = False
    """A picture's rows, which the engine cannot run beside tokens."""
    is_whole: bool = False
    """The rows see each other: they are run together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How many of a slot's waiting rows go into the pass."""

    slot_id: int
    n_rows: int


def shape(
    plan: BatchPlan,
    pending: Sequence[Pending],
    *,
    n_batch: int,
    prompt_had_turn: bool = False,
) -> tuple[Share, ...]:
    """Choose the rows of the next pass; empty only when nothing waits.

    Generated rows come first, so a new prompt delays running streams by one chunk at
    most. Where the plan forbids mixing, passes of prompt rows and of generated rows
    take turns (`prompt_had_turn`: the last pass was a prompt's). `n_batch` is the
    most rows the context takes.
    """
    order = sorted(pending, key=lambda p: p.arrived)
    prompts = [p for p in order if not p.is_step]
    steps = _steps(plan, [p for p in order if p.is_step], n_batch)
    mixes = plan.mix_prompt_and_steps and not (prompts and prompts[0].is_image)
    if steps and prompts and not mixes:
        if prompt_had_turn:
            prompts = []
        else:
            steps = []
    if not prompts:
        return tuple(steps)
    others_wait = any(p.is_step for p in pending)
    limit = plan.shared_chunk if others_wait else plan.prompt_chunk
    room = n_batch - sum(step.n_rows for step in steps)
    rows = chunk_rows(plan, prompts[0], min(limit, room))
    if rows:
        steps.append(Share(slot_id=prompts[0].slot_id, n_rows=rows))
    return tuple(steps)


def _steps(plan: BatchPlan, steps: Sequence[Pending], room: int) -> list[Share]:
    chosen: list[Share] = []
    for step in steps[: plan.max_step_sequences]:
        if step.n_rows <= room:
            chosen.append(Share(slot_id=step.slot_id, n_rows=step.n_rows))
            room -= step.n_rows
    # llama.cpp runs sequences together only where their numbers follow each other.
    return sorted(chosen, key=lambda share: share.slot_id)


def chunk_rows(plan: BatchPlan, prompt: Pending, limit: int) -> int:
    """Rows of a prompt's next chunk: up to `limit`, ending on the plan's grid."""
    if prompt.is_whole:
        return prompt.n_rows
    if prompt.n_rows <= limit and plan.prompt_multiple == 1:
        return prompt.n_rows
    if plan.prompt_multiple == 1:
        return limit
    to_grid = plan.prompt_multiple - prompt.first % plan.prompt_multiple
    return min(prompt.n_rows, to_grid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a sequence's memory holds, against a new prompt."""

    n_tokens: int
    n_prompt: int
    """How many of the tokens were run as a prompt; the rest were generated."""
    n_shared: int
    """How many leading tokens the new prompt shares."""
    can_cut: bool
    """Whether the memory can drop its last tokens (recurrent ones cannot)."""


def usable_prefix(
    plan: BatchPlan, held: Held, *, n_prompt: int, images: Sequence[ImageSpan] = ()
) -> int:
    """How many tokens of a held prefix a prompt of `n_prompt` may build on.

    One prompt token at least is always run, since its logits are needed. A prefix
    never ends inside one of the prompt's `images`.
    """
    usable = held.n_shared
    if not plan.answers_reusable:
        usable = min(usable, held.n_prompt)
    usable = min(usable, n_prompt - 1)
    usable = outside(images, usable - usable % plan.resume_multiple)
    if usable < held.n_tokens and not held.can_cut:
        return 0
    return max(usable, 0)
