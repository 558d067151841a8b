"""How a server drafts: decided once, when the model is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kinetic.actors.drafting.drafter import (
    DraftBasis,
    Drafter,
    Drafting,
    DraftOptions,
    TextDrafter,
    why_off,
)
from kinetic.actors.drafting.model_drafter import ModelDrafting
from kinetic.errors import ModelError
from kinetic.model.drafts.draft_model import DraftModel, load_draft_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kinetic.actors.policy.plan import BatchPlan
    from kinetic.model.engine.engine import LlamaEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSetup:
    """How slots draft, and what there is to say about it."""

    how: str
    """What is drafted from, or why nothing is."""
    drafting: Drafting | None = None
    """None: nothing is drafted."""
    model: DraftModel | None = None
    """The draft model, to be closed by whoever runs it."""

    @property
    def n_draft(self) -> int:
        """Most tokens of a draft."""
        return 0 if self.drafting is None else self.drafting.most


def set_up(
    engine: LlamaEngine,
    plan: BatchPlan,
    options: DraftOptions,
    model: Path | None = None,
) -> DraftSetup:
    """Decide how answers of a loaded model are drafted.

    `model` is the file of a draft model; it is not loaded where nothing is drafted.
    Raises ModelError when it cannot draft for this one.
    """
    if engine.kind != "text":
        return DraftSetup(how="off: nothing is generated")
    n_rows = plan.rows_per_sequence
    if why := why_off(options, n_rows=n_rows, can_cut=engine.can_cut):
        return DraftSetup(how=f"off: {why}")
    sources = "repeated text and constraints"
    make: Callable[[DraftBasis], Drafter] = partial(TextDrafter, options=options)
    guesser = None
    if model is not None:
        if model.resolve() == engine.path.resolve():
            raise ModelError(
                f"{model.name} cannot draft for itself: name a smaller one"
            )
        guesser = load_draft_model(model, engine)
        make = ModelDrafting(options, guesser.step_s)
        sources = f"repeated text, constraints and {model.name}"
    most = min(options.most, n_rows - 1)
    how = f"up to {most} tokens from {sources}, where it pays"
    if engine.model.n_swa > 0:
        how += ", but not behind a sliding window that was put back"
    drafting = Drafting(make=make, most=most)
    return DraftSetup(how=how, drafting=drafting, model=guesser)
