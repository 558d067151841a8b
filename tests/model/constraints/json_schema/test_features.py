from __future__ import annotations

import json

import pytest

from kinetic.errors import RequestError
from tests.support.bytewise import accepts, compiled
from tests.support.schema_features import (
    ENFORCED,
    JUDGED,
    REFUSED,
    Enforced,
    Judged,
    Refused,
)
from tests.support.schemas import errors_of_text


def named(feature: Enforced | Judged | Refused) -> str:
    return feature.name


@pytest.mark.parametrize("feature", ENFORCED, ids=named)
def test_answers_keep_to_it(feature: Enforced):
    constraint = compiled("json_schema", json.dumps(feature.schema))
    assert [t for t in feature.allowed if not accepts(constraint, t)] == []
    assert [t for t in feature.forbidden if accepts(constraint, t)] == []


# The judge reads draft 2020-12 alone.
OLDER = {"exclusiveMinimum: true", "items: a list", "draft 4 beside a newer keyword"}


@pytest.mark.parametrize(
    "feature", [f for f in ENFORCED if f.name not in OLDER], ids=named
)
def test_what_is_allowed_is_valid(feature: Enforced):
    assert [t for t in feature.allowed if errors_of_text(feature.schema, t)] == []


@pytest.mark.parametrize("feature", ENFORCED, ids=named)
def test_what_is_enforced_is_not_judged_twice(feature: Enforced):
    is_far = "maxProperties: huge" in feature.name
    constraint = compiled("json_schema", json.dumps(feature.schema), strict=True)
    assert (constraint.judge is not None) == is_far


@pytest.mark.parametrize("feature", JUDGED, ids=named)
def test_finished_answers_are_judged_by_it(feature: Judged):
    constraint = compiled("json_schema", json.dumps(feature.schema), param="format")
    texts = (*feature.right, *feature.wrong)
    assert [t for t in texts if not accepts(constraint, t)] == []
    assert [t for t in feature.held if accepts(constraint, t)] == []
    judge = constraint.judge
    assert judge is not None
    assert {t: judge.complaint(t) for t in feature.right if judge.complaint(t)} == {}
    assert [t for t in feature.wrong if judge.complaint(t) is None] == []
    if feature.name not in OLDER:
        assert [t for t in feature.wrong if not errors_of_text(feature.schema, t)] == []


@pytest.mark.parametrize("feature", JUDGED, ids=named)
def test_it_is_refused_where_strict_asks_for_all_to_be_held(feature: Judged):
    with pytest.raises(RequestError, match="strict asks for it"):
        compiled("json_schema", json.dumps(feature.schema), strict=True)


@pytest.mark.parametrize("feature", REFUSED, ids=named)
def test_it_is_refused_by_name_and_place(feature: Refused):
    with pytest.raises(RequestError) as caught:
        compiled("json_schema", json.dumps(feature.schema), param="json_schema")
    message = str(caught.value)
    assert message.startswith("json_schema: ")
    assert caught.value.param == "json_schema"
    assert feature.reason in message
    assert f"at {feature.path}" in message


def test_the_table_of_features_is_printed():
    lines = [f"{'enforced':9} {feature.name}" for feature in ENFORCED]
    lines += [f"{'judged':9} {feature.name}" for feature in JUDGED]
    lines += [f"{'refused':9} {feature.name}: {feature.reason}" for feature in REFUSED]
    print("\n".join(lines))
    assert len(ENFORCED) >= 50
    assert len(REFUSED) >= 45
    assert len(JUDGED) >= 20
