"""The probe runs whatever the slots and the batch, and leaves the memory empty."""

import pytest

from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.engine.exactness import probe_rows
from tests.support import tiny_models


@pytest.mark.parametrize(
    ("n_ctx", "n_parallel", "n_batch"), [(512, 4, 512), (64, 1, 32), (128, 20, 64)]
)
@pytest.mark.parametrize("make", [tiny_models.qwen3, tiny_models.lfm2])
def test_every_size_can_be_tried(make, n_ctx, n_parallel, n_batch):
    options = EngineOptions(
        n_ctx=n_ctx, n_parallel=n_parallel, n_batch=n_batch, n_threads=1
    )
    engine = LlamaEngine(make(), options)
    try:
        verdict = probe_rows(engine, remember=False)
        lengths = {engine.context.length(s) for s in range(n_parallel)}
    finally:
        engine.close()
    assert verdict.is_row_invariant
    assert lengths == {0}
