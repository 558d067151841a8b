"""A process that is killed while it writes states loses at most what it was writing."""

import random
import subprocess
import sys
import time

import pytest

from kinetic.model.engine.snapshot import SUFFIX
from kinetic.types import SamplingParams
from tests.support.state_writer import opened, texts

TIMES = 50
SEEDED = SamplingParams(temperature=1.0, seed=3)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_start_after_a_kill_serves_exact_answers(tmp_path):
    numbers = (0, 3, 7)
    with opened(tmp_path / "none") as h:
        expected = {
            n: h.answer(texts(h.engine.vocab, n), sampling=SEEDED).bits for n in numbers
        }
    rng = random.Random(5)
    folder = tmp_path / "states"
    n_resumed = 0
    for _ in range(TIMES):
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.support.state_writer", str(folder)],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0.0, 0.25))  # the moment is the experiment
        finally:
            child.kill()
            child.wait(30)
            if child.stdout is not None:
                child.stdout.close()
        with opened(folder) as h:
            left = [p for p in folder.iterdir() if p.suffix != SUFFIX]
            assert left == []
            for n in numbers:
                answer = h.answer(texts(h.engine.vocab, n), sampling=SEEDED)
                assert answer.bits == expected[n]
                n_resumed += answer.usage.n_cached > 100
    assert n_resumed > TIMES / 2
