"""Results stand in the order of their calls, each bound to its own."""

from __future__ import annotations

import pytest

from kinetic.model.chat.template.normalise import TemplateError, read_turns
from kinetic.model.chat.template.pairing import paired


def says(role, content=None, **more):
    return {"role": role, "content": content, **more}


def call(name="f", **more):
    return {"function": {"name": name, "arguments": {}}, **more}


def turns_of(messages):
    return paired(read_turns(messages))


def texts(messages):
    return [turn.text for turn in turns_of(messages)]


def result(text, call_id=None, **more):
    return says("tool", text, tool_call_id=call_id, **more)


A, B, C = call("a", id="1"), call("b", id="2"), call("c", id="3")
CALLS = says("assistant", "t", tool_calls=[A, B, C])
USER = says("user", "u")


def test_missing_ids_are_numbered_by_place_and_pair_up():
    turns = turns_of(
        [
            says(
                "assistant",
                tool_calls=[call("a"), call("b", id=None), call("c", id="")],
            ),
            says("tool", "1"),
            says("tool", "2", tool_call_id=None),
            says("tool", "3"),
        ]
    )
    assert [one.id for one in turns[0].calls] == ["call00001", "call00002", "call00003"]
    assert [turn.call_id for turn in turns[1:]] == [
        "call00001",
        "call00002",
        "call00003",
    ]
    assert [turn.name for turn in turns[1:]] == ["a", "b", "c"]


def test_made_up_ids_are_none_that_the_client_uses():
    turns = turns_of(
        [
            says("assistant", tool_calls=[call(), call(id="call00001")]),
            says("tool", "x"),
        ]
    )
    assert [one.id for one in turns[0].calls] == ["call00002", "call00001"]


def test_a_result_without_an_id_is_paired_by_name():
    turns = turns_of(
        [
            says("assistant", tool_calls=[call("a", id="1"), call("b", id="2")]),
            says("tool", "x", name="b"),
            says("tool", "y"),
        ]
    )
    assert [(turn.call_id, turn.name) for turn in turns[1:]] == [("1", "a"), ("2", "b")]
    assert [turn.text for turn in turns[1:]] == ["y", "x"]


def test_a_result_of_an_unknown_call_keeps_its_id_and_name():
    turns = turns_of([says("tool", "x", tool_call_id="z", name="n"), says("tool", "y")])
    assert [(turn.call_id, turn.name) for turn in turns] == [
        ("z", "n"),
        ("tool00001", None),
    ]


def test_an_id_used_in_every_round_names_the_latest_open_call():
    rounds = [
        says("assistant", tool_calls=[call("a", id="0")]),
        says("tool", "x", tool_call_id="0"),
    ]
    again = [
        says("assistant", tool_calls=[call("b", id="0")]),
        says("tool", "y", tool_call_id="0"),
    ]
    turns = turns_of([*rounds, *again])
    assert [turn.name for turn in turns if turn.role == "tool"] == ["a", "b"]


@pytest.mark.parametrize(
    "results",
    [
        [result("ra", "1"), result("rb", "2"), result("rc", "3")],
        [result("rc", "3"), result("rb", "2"), result("ra", "1")],
        [result("rb", "2"), result("ra"), result("rc")],
        [result("rc", name="c"), result("ra", name="a"), result("rb", name="b")],
        [result("rc", name="c"), result("ra"), result("rb")],
    ],
)
def test_results_stand_in_the_order_of_their_calls(results):
    for behind in ([], [USER], [says("assistant", "z"), CALLS, *results]):
        made = texts([USER, CALLS, *results, *behind])
        assert made[:5] == ["u", "t", "ra", "rb", "rc"]


def test_errors_name_a_message_by_its_place_in_the_request():
    turns = turns_of([CALLS, result("rb", "2"), result("ra", "1")])
    assert [turn.origin for turn in turns] == [0, 2, 1]


def test_calls_of_messages_in_a_row_are_answered_together():
    split = [says("assistant", tool_calls=[one]) for one in (A, B)]
    assert texts([*split, result("rb", "2"), result("ra", "1")])[2:] == ["ra", "rb"]


def test_calls_may_lack_results_at_their_end():
    assert texts([CALLS, result("ra", "1"), USER]) == ["t", "ra", "u"]
    assert texts([CALLS, USER]) == ["t", "u"]


def test_a_late_result_stays_where_it_is():
    turns = turns_of([CALLS, result("ra", "1"), USER, result("rb", "2")])
    assert [turn.name for turn in turns] == [None, "a", None, "b"]


def test_results_whose_calls_were_cut_off_are_kept():
    cut = [result("x", "gone"), result("y", name="f"), USER, CALLS, result("ra", "1")]
    assert texts(cut) == ["x", "y", "u", "t", "ra"]


@pytest.mark.parametrize(
    ("messages", "named"),
    [
        ([CALLS, result("x", "9")], 'messages[1].tool_call_id is "9"'),
        (
            [CALLS, result("x", "1"), result("y", "1")],
            'messages[2].tool_call_id is "1"',
        ),
        ([CALLS, result("x", name="z")], 'messages[1] is a result of "z"'),
        ([CALLS, *[result("x")] * 4], "messages[4] is one result more"),
        ([USER, CALLS, result("rb", "2")], "messages[1].tool_calls[0] has no result"),
        (
            [CALLS, result("ra", "1"), result("rc", "3"), USER],
            "messages[0].tool_calls[1] has no result",
        ),
        (
            [says("assistant", tool_calls=[A, A])],
            'messages[0].tool_calls[1].id is "1" a second time',
        ),
    ],
)
def test_what_cannot_be_paired_is_refused_by_name(messages, named):
    with pytest.raises(TemplateError) as caught:
        turns_of(messages)
    assert named in str(caught.value)
    assert caught.value.param == "messages"
