"""The native context: rows as they lie there and copied, and its threads."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from kinetic.errors import InternalError
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.rows import Rows

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def engine(smollm2_path):
    engine = LlamaEngine(
        smollm2_path, EngineOptions(n_ctx=256, n_parallel=2, n_threads=1)
    )
    yield engine
    engine.close()


def parts(engine):
    """Two sequences with prompts of other lengths; one wants two rows, one all."""
    ids = np.array(engine.vocab.tokenize("The sea is deep and the night is"), np.int32)
    for sequence in range(2):
        engine.cut(sequence, 0)
    return [Rows(0, 0, ids, 2), Rows(1, 0, ids[:3], 3)]


def test_rows_in_the_engines_memory_are_those_that_are_copied(engine):
    copied = engine.decode(parts(engine))
    seen = engine.decode(parts(engine), copy=False)
    for own, view in zip(copied, seen, strict=True):
        assert own.shape == view.shape
        assert own.dtype == view.dtype == np.float32
        assert own.tobytes() == view.tobytes()
        assert not own.flags.writeable
        assert not view.flags.writeable
        assert own.flags.owndata
    assert [len(rows) for rows in seen] == [2, 3]


def test_a_copy_outlives_the_next_pass(engine):
    first = engine.decode(parts(engine))[0]
    before = first.tobytes()
    (other,) = engine.decode([Rows(1, 3, np.array([5], np.int32), 1)], copy=False)
    assert first.tobytes() == before
    assert other.tobytes() != first[-1:].tobytes()


def test_a_part_may_want_no_rows(engine):
    ids = np.array([1, 2, 3], np.int32)
    engine.cut(0, 0)
    (none,) = engine.decode([Rows(0, 0, ids, 0)], copy=False)
    assert none.shape == (0, engine.model.n_vocab)


@pytest.mark.parametrize(
    "rows",
    [
        Rows(0, 0, np.array([], np.int32), 0),
        Rows(0, 0, np.array([-1], np.int32), 1),
        Rows(0, 0, np.array([1, 10**6], np.int32), 1),
        Rows(2, 0, np.array([1], np.int32), 1),
        Rows(0, 256, np.array([1], np.int32), 1),
        Rows(0, 0, np.array([1], np.int32), 2),
    ],
    ids=["empty", "negative", "unknown", "sequence", "position", "rows"],
)
def test_what_the_engine_would_abort_on_is_refused(engine, rows):
    engine.cut(0, 0)
    with pytest.raises(InternalError, match="pass"):
        engine.decode([rows])


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts by /proc")
def test_a_context_keeps_its_threads_and_ends_them(smollm2_path):
    def count():
        return len(list(Path("/proc/self/task").iterdir()))

    before = count()
    engine = LlamaEngine(
        smollm2_path, EngineOptions(n_ctx=64, n_parallel=1, n_threads=2)
    )
    try:
        one_more = count()
        engine.decode([Rows(0, 0, np.array([1], np.int32), 1)])
        assert one_more == count() == before + 1
    finally:
        engine.close()
    ended = threading.Event()
    for _ in range(500):
        if count() == before:
            break
        ended.wait(0.01)
    assert count() == before
