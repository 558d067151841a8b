"""Answers drawn at random from what masks allow, before an independent judge."""

from __future__ import annotations

import json
import random

import pytest

from kinetic.errors import RequestError
from kinetic.model.constraints.matching import Constraint
from tests.support.bytewise import compiled, sample
from tests.support.schemas import errors_of_text, random_schema

N_BATCHES = 20
N_SCHEMAS = 20


def told(constraint: Constraint, text: str) -> str | None:
    """What the answer's client would hear of it."""
    return None if constraint.judge is None else constraint.judge.complaint(text)


@pytest.mark.parametrize("batch", range(N_BATCHES))
def test_every_answer_that_is_finished_validates(batch):
    wrong = []
    n_refused = n_finished = 0
    for seed in range(batch * N_SCHEMAS, (batch + 1) * N_SCHEMAS):
        rng = random.Random(seed)
        schema = random_schema(rng)
        try:
            constraint = compiled("json_schema", json.dumps(schema))
        except RequestError:
            n_refused += 1
            continue
        for _ in range(4):
            answer = sample(constraint, rng)
            if not answer.is_finished:
                continue
            n_finished += 1
            found = errors_of_text(schema, answer.text)
            if found and told(constraint, answer.text) is None:
                wrong.append((seed, schema, answer.text, found[:2]))
    print(f"{N_SCHEMAS} schemas, {n_refused} refused, {n_finished} answers finished")
    assert wrong == []
    # Contradictions and what is not supported are refused; most is neither.
    assert n_refused < N_SCHEMAS / 2
    assert n_finished > N_SCHEMAS
