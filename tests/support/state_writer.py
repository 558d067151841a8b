"""A process that keeps states of a tiny model until somebody ends it.

python -m tests.support.state_writer FOLDER
"""

import sys
from itertools import count
from pathlib import Path

from kinetic.actors.policy.plan import uniform_plan
from tests.support import tiny_models
from tests.support.answers import running


def texts(vocab, number):
    """The prompt of a number: long enough to be kept, unlike every other."""
    words = " ".join(f"{number} {(number * 31 + i * i) % 97} and" for i in range(120))
    return vocab.tokenize(f"{chr(ord('A') + number % 26)}{number}: {words}")[:160]


def uniform(engine):
    return uniform_plan(n_sequences=engine.n_sequences)


def opened(folder):
    """A harness that keeps states in a folder."""
    return running(
        tiny_models.qwen3(),
        uniform,
        n_ctx=256,
        n_parallel=1,
        n_threads=1,
        cache={"folder": folder, "disk_bytes": 12_000_000},
    )


def main() -> None:
    """Displace one prompt by the next, for ever."""
    with opened(Path(sys.argv[1])) as h:
        print("ready", flush=True)
        for number in count():
            h.answer(texts(h.engine.vocab, number % 40), max_tokens=2)


if __name__ == "__main__":
    main()
