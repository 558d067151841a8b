from __future__ import annotations

import json

import pytest

from kinetic.errors import RequestError
from tests.support.bytewise import accepts, compiled
from tests.support.schema_features import ENFORCED, REFUSED, Enforced, Refused
from tests.support.schemas import errors_of_text


def named(feature: Enforced | Refused) -> str:
    return feature.name


@pytest.mark.parametrize("feature", ENFORCED, ids=named)
def test_answers_keep_to_it(feature: Enforced):
    constraint = compiled("json_schema", json.dumps(feature.schema))
    assert [t for t in feature.allowed if not accepts(constraint, t)] == []
    assert [t for t in feature.forbidden if accepts(constraint, t)] == []


# The judge reads draft 2020-12 alone.
OLDER = {"exclusiveMinimum: true", "items: a list"}


@pytest.mark.parametrize(
    "feature", [f for f in ENFORCED if f.name not in OLDER], ids=named
)
def test_what_is_allowed_is_valid(feature: Enforced):
    assert [t for t in feature.allowed if errors_of_text(feature.schema, t)] == []


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
    lines += [f"{'refused':9} {feature.name}: {feature.reason}" for feature in REFUSED]
    print("\n".join(lines))
    assert len(ENFORCED) >= 50
    assert len(REFUSED) >= 50
