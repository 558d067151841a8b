"""What the environment says of the hub, and what is told of it."""

import pytest

from kinetic.errors import HubError
from kinetic.hub.client import HUB, access_token, endpoint


def test_the_public_hub_is_meant_where_nothing_is_said(monkeypatch):
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert endpoint() == HUB


@pytest.mark.parametrize(
    "url", ["ftp://host", "host", "http://", "http://host:port", "http://[::1"]
)
def test_an_address_that_is_none_is_refused_by_the_variables_name(monkeypatch, url):
    monkeypatch.setenv("HF_ENDPOINT", url)
    with pytest.raises(HubError, match="HF_ENDPOINT"):
        endpoint()


def test_blanks_around_a_token_are_no_part_of_it(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", " hf_secret\n")
    assert access_token() == "hf_secret"
    monkeypatch.setenv("HF_TOKEN", " ")
    assert access_token() is None


@pytest.mark.parametrize("token", ["hf_se\ncret", "hf_sécret", "hf se"])
def test_a_token_that_cannot_be_one_is_refused_and_not_repeated(monkeypatch, token):
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(HubError, match="HF_TOKEN") as refused:
        access_token()
    assert "hf" not in str(refused.value).lower().replace("hf_token", "")
