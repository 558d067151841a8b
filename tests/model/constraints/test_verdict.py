from __future__ import annotations

import json

from kinetic.model.constraints.json_schema.judge import Judge
from kinetic.model.constraints.texts import text_matches
from kinetic.model.constraints.verdict import Verdict
from kinetic.types import ToolCall

JUDGE = Judge(json.dumps({"items": {"not": {"const": 3}}}), text_matches)


def test_a_whole_answer_is_judged():
    verdict = Verdict(answer=JUDGE)
    assert verdict.warnings("[1]", ()) == ()
    said = 'the answer: it breaks "not" of the schema, at /1'
    assert verdict.warnings("[1, 3]", ()) == (said,)


def test_reasoning_before_an_answer_is_passed_by():
    verdict = Verdict(answer=JUDGE, think_end="</t>")
    for text in ("[3]", "<t>[1]</t>\n[3]", "hm</t> [3]"):
        assert len(verdict.warnings(text, ())) == 1
    for text in ('["</t>"]', '<t>3</t>["</t>"]', "<t>[3]</t>[1]"):
        assert verdict.warnings(text, ()) == ()


def test_each_call_is_judged_by_its_functions_schema():
    judge = Judge(json.dumps({"not": {"required": ["a"]}}), text_matches)
    verdict = Verdict(calls={"f": judge})
    calls = [
        ToolCall(id="1", name="g", arguments='{"a": 1}'),
        ToolCall(id="2", name="f", arguments='{"b": 1}'),
        ToolCall(id="3", name="f", arguments='{"a": 1}'),
    ]
    said = 'call 2, f: it breaks "not" of the schema, at /'
    assert verdict.warnings("", calls) == (said,)
