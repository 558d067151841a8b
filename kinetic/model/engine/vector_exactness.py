"""Does an input give the same vector every time? Measured on the loaded model.

Inputs are run one at a time, each always in the same passes, so equal bits follow from
how it is done; what a processor, a build or an accelerator makes of it is tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kinetic.errors import ModelError
from kinetic.model.engine.exactness import ExactnessVerdict
from kinetic.model.rows import Rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from kinetic.model.engine.engine import LlamaEngine

_WORDS = "The quick brown fox jumps over the lazy dog, then 3 more follow it home. "
_REPEATS = (1, 6, 12)


def run_input(
    engine: LlamaEngine, tokens: npt.NDArray[np.int32]
) -> npt.NDArray[np.float32]:
    """All passes of one input; its vector. Thread: the engine's."""
    vector = None
    for first, end in engine.parts(len(tokens)):
        rows = Rows(0, first, tokens[first:end], 1)
        vector = engine.embed(rows, is_last=end == len(tokens))
    if vector is None:
        raise ModelError("the engine gave no vector")
    return vector


def probe_vectors(engine: LlamaEngine) -> ExactnessVerdict:
    """Compare the vectors of a few inputs, run in two orders.

    Raises ModelError when the model gives values that are no numbers: no request could
    be answered.
    """
    texts = [_WORDS * n for n in _REPEATS]
    inputs = [
        np.array(
            engine.vocab.tokenize(text, add_special=True)[: engine.n_ctx], np.int32
        )
        for text in texts
    ]
    there = [run_input(engine, tokens) for tokens in inputs]
    back = [run_input(engine, tokens) for tokens in reversed(inputs)]
    if not all(np.isfinite(vector).all() for vector in there):
        raise ModelError("the model gives vectors that hold values that are no numbers")
    pairs = zip(there, reversed(back), strict=True)
    differing = sum(one.tobytes() != other.tobytes() for one, other in pairs)
    if differing:
        reason = f"{differing} of {len(inputs)} inputs gave other bits when run again"
        return ExactnessVerdict(is_row_invariant=False, reason=reason)
    reason = (
        "each input is run in passes of its own, and gave equal bits when run again"
    )
    return ExactnessVerdict(is_row_invariant=True, reason=reason)
