"""Words of errors that clients look for."""

import re

import pytest

from kinetic.errors import ContextExceeded, InputTooLong

TOO_LONG = [
    ContextExceeded(n_prompt=20031, n_ctx=8192),
    InputTooLong(n_prompt=20031, n_ctx=8192, param="documents[3]", beside="query"),
]


@pytest.mark.parametrize("error", TOO_LONG, ids=["prompt", "input"])
@pytest.mark.parametrize(
    "words",
    [
        # OpenAI's, of which LiteLLM makes its ContextWindowExceededError.
        r"this model's maximum context length is 8192 tokens",
        # llama-server's.
        r"exceeds the available context size",
        # Anthropic's.
        r"is too long: 20031 tokens",
    ],
)
def test_what_is_too_long_is_told_in_the_words_that_clients_look_for(error, words):
    assert re.search(words, str(error))


def test_a_long_prompt_is_told_in_one_sentence():
    assert str(TOO_LONG[0]) == (
        "prompt is too long: 20031 tokens, which exceeds the available context size;"
        " this model's maximum context length is 8192 tokens, one of which must stay"
        " free for the answer"
    )


def test_an_estimate_is_called_one():
    error = ContextExceeded(n_prompt=9, n_ctx=8, is_estimate=True)
    assert "about 9 tokens" in str(error)
