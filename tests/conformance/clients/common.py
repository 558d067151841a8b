"""What every client's script is given, and asks for."""

import contextlib
import json
import sys

CHAT, VECTORS = sys.argv[1:3]
"""Addresses of a server for text and one for vectors, each with /v1."""
MODEL = "any"
KEY = "none"
QUESTION = "What is the capital of France?"
TOO_LONG = "word " * 9000
TEXTS = ["" if n == 500 else f"number {n}" for n in range(1000)]
N_NUMBERS = 384
"""Length of the vectors."""

CITY = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "enum": ["Paris", "Oslo"]},
        "rank": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["name", "rank"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "function": {"name": "report_city", "description": "Report.", "parameters": CITY},
}


def check_city(value):
    """A value, or its JSON text, that follows the schema above."""
    found = json.loads(value) if isinstance(value, str) else dict(value)
    assert set(found) == {"name", "rank"}, found
    assert found["name"] in {"Paris", "Oslo"}, found
    assert 1 <= found["rank"] <= 9, found


def check_vectors(vectors):
    """A vector for each of the texts."""
    assert len(vectors) == len(TEXTS)
    assert all(len(vector) == N_NUMBERS for vector in vectors)


@contextlib.contextmanager
def overflows(kind):
    """What is done inside fails as this kind of error, which tells the length."""
    try:
        yield
    except kind as error:
        said = str(error)
    else:
        raise AssertionError("a prompt that is too long was answered")
    assert "maximum context length is 2048 tokens" in said, said


def tried(what):
    """Tell the test that something went as it should."""
    print(what, flush=True)
