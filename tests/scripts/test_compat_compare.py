"""Comparing answers, and explaining what differs."""

from __future__ import annotations

import pytest

from scripts.compat_cases import cases
from scripts.compat_compare import (
    WHOLE,
    Difference,
    Explained,
    Reply,
    compare,
    judge,
    read_explained,
)
from scripts.llama_server_compat import DIFFERENCES, line, read_body, report


def reply(body, status=200, content_type="application/json"):
    return Reply(status=status, content_type=content_type, body=body)


def found(ours, theirs):
    made = compare("GET /x", "c", reply(ours), reply(theirs))
    return [(d.path, d.kind, d.ours, d.theirs) for d in made]


@pytest.mark.parametrize("same", [1, "a", None, True, [], {}, [1, {"a": [2.5]}]])
def test_equal_answers_do_not_differ(same):
    assert found(same, same) == []


def test_a_whole_number_equals_its_float():
    assert found({"a": 1}, {"a": 1.0}) == []
    assert found({"a": 0.1 + 0.2}, {"a": 0.3}) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "told"),
    [
        ({"a": 1}, {"a": 2}, ("a", "value", 1, 2)),
        ({}, {"a": {"b": 1}}, ("a", "missing", None, {"b": 1})),
        ({"a": 1}, {}, ("a", "extra", 1, None)),
        ({"a": "1"}, {"a": 1}, ("a", "type", "1", 1)),
        ({"a": True}, {"a": 1}, ("a", "type", True, 1)),
        ({"a": None}, {"a": 1}, ("a", "type", None, 1)),
        ({"a": [1]}, {"a": [1, 2]}, ("a", "length", 1, 2)),
        ([{"a": 1}], [{"a": 2}], ("0.a", "value", 1, 2)),
        ([], {}, (WHOLE, "type", [], {})),
    ],
)
def test_each_difference_has_its_place_and_kind(ours, theirs, told):
    assert found(ours, theirs) == [told]


def test_another_status_says_it_all():
    (one,) = compare("GET /x", "c", reply({"a": 1}, 200), reply({"b": 1}, 400))
    assert (one.path, one.kind, one.ours, one.theirs) == (WHOLE, "status", 200, 400)


def test_another_content_type_is_told_beside_the_rest():
    kinds = [
        d.kind
        for d in compare("GET /x", "c", reply(1), reply(2, content_type="text/plain"))
    ]
    assert kinds == ["content type", "value"]


def difference(**fields):
    named = {"route": "GET /x", "case": "c", "path": "a.0.b", "kind": "value"}
    return Difference(**{**named, "ours": 1.0, "theirs": 1.5, **fields})


@pytest.mark.parametrize(
    ("entry", "covers"),
    [
        ({"path": "a.0.b"}, True),
        ({"path": "a.*"}, True),
        ({"path": "*b"}, True),
        ({"path": "a"}, False),
        ({"path": "*", "route": "GET *"}, True),
        ({"path": "*", "route": "POST *"}, False),
        ({"path": "*", "case": "d"}, False),
        ({"path": "*", "kinds": ("type",)}, False),
        ({"path": "*", "within": 0.5}, True),
        ({"path": "*", "within": 0.4}, False),
    ],
)
def test_an_explanation_covers_what_it_names(entry, covers):
    assert Explained(reason="r", **entry).covers(difference()) == covers


def test_a_distance_explains_numbers_alone():
    near = Explained(reason="r", path="*", within=1)
    assert not near.covers(difference(ours="a"))


def test_what_nobody_explained_is_left_over():
    known = [Explained(reason="r", path="a.*"), Explained(reason="old", path="z")]
    verdict = judge([difference(), difference(path="q")], known)
    assert [d.path for d, _ in verdict.explained] == ["a.0.b"]
    assert [d.path for d in verdict.unexplained] == ["q"]
    assert [reason.reason for reason in verdict.unused] == ["old"]
    text = "\n".join(report(verdict, everything=True))
    assert "explained: r" in text
    assert line(difference(path="q")) in text
    assert "1 differences are explained, 1 are not" in text


def test_streams_are_read_event_by_event():
    text = 'data: {"a": 1}\n\n:\n\ndata: null\n\ndata: [DONE]\n\n'
    assert read_body("text/event-stream", text) == [{"a": 1}, "[DONE]"]


def test_metrics_are_read_as_names_and_kinds():
    text = "# TYPE a_total counter\na_total 5\n# TYPE b gauge\nb 1\n"
    assert read_body("text/plain", text) == {"a_total": "counter", "b": "gauge"}


@pytest.mark.parametrize(
    "entry", ['path = "a"', 'reason = "r"', 'reason = "r"\npath = "a"\nkinds = ["odd"]']
)
def test_an_entry_without_reason_or_path_is_refused(tmp_path, entry):
    file = tmp_path / "known.toml"
    file.write_text(f"[[explained]]\n{entry}\n", "utf-8")
    with pytest.raises(ValueError, match=r"known\.toml"):
        read_explained(file)


def test_every_explained_difference_gives_its_reason():
    for entry in read_explained(DIFFERENCES):
        assert entry.reason.endswith(".")


def test_every_case_is_named_once():
    named = [(case.method, case.path, case.name) for case in cases()]
    assert len(set(named)) == len(named)
