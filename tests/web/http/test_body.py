"""Bodies as JSON, before anybody looks at their fields."""

import json

import pytest

from kinetic.errors import RequestError
from kinetic.web.http import body as json_body

HALF = "a\ud83d"


@pytest.mark.parametrize(
    ("body", "param", "says"),
    [
        ({"prompt": HALF}, "prompt", "prompt holds half"),
        (
            {"messages": [{"content": "a"}, {"content": [{"text": HALF}]}]},
            "messages[1].content[0].text",
            "messages[1].content[0].text holds half",
        ),
        ({"metadata": {HALF: 1}}, "metadata", "a name in metadata holds half"),
        ({"a": [], HALF: 1}, None, "a name in the body holds half"),
    ],
)
def test_half_of_a_surrogate_pair_is_named_by_its_place(body, param, says):
    with pytest.raises(RequestError) as refused:
        json_body.parse(json.dumps(body).encode())
    assert refused.value.param == param
    assert str(refused.value) == f"{says} of a surrogate pair (\\ud800 to \\udfff)"


def test_whole_pairs_are_one_character():
    assert json_body.parse(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}
