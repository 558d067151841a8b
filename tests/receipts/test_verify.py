"""Every step of a verification, on a bench that needs no model."""

import json
from dataclasses import replace
from typing import Any

import pytest

from kinetic.errors import ModelError, ReceiptError, RequestError
from kinetic.receipts import reading, schema, signing
from kinetic.receipts.compare import contradiction, tokens_to_draw
from kinetic.receipts.record import seal
from kinetic.receipts.verify import (
    Difference,
    Outcome,
    Pin,
    Rerun,
    verify,
)
from kinetic.types import Finish, ToolCall
from tests.support.receipts import (
    CHAT,
    ENGINE,
    SIGNER,
    TEXT,
    BookBench,
    changed,
    leaves,
    resealed,
)

SIGNED = seal(CHAT, SIGNER)
UNSIGNED = seal(CHAT, None)
ANY = Pin()
PINNED = Pin(public_key=SIGNER.public_key)


def outcome(value, bench=None, pin=ANY, **named):
    return verify(value, bench or BookBench(), pin=pin, **named).outcome


def said(report):
    return "\n".join(f"{step.mark}: {step.text}" for step in report.steps)


@pytest.mark.parametrize("value", [SIGNED, UNSIGNED])
def test_a_true_receipt_is_proven(value):
    assert outcome(value) is Outcome.PROVEN
    assert outcome(seal(TEXT, SIGNER), BookBench(TEXT)) is Outcome.PROVEN


def test_exit_codes_stay_what_they_are():
    assert [int(o) for o in Outcome] == [0, 1, 2, 3, 4, 5]


def test_an_unsigned_receipt_is_warned_of_loudly():
    assert "warning: NOT SIGNED" in said(verify(UNSIGNED, BookBench(), pin=ANY))


def test_a_key_on_its_own_word_is_warned_of_and_a_pinned_one_is_not():
    assert "own word" in said(verify(SIGNED, BookBench(), pin=ANY))
    for pin in (PINNED, Pin(fingerprint=SIGNER.public_key.fingerprint)):
        assert "own word" not in said(verify(SIGNED, BookBench(), pin=pin))
        assert outcome(SIGNED, pin=pin) is Outcome.PROVEN


@pytest.mark.parametrize(
    "pin",
    [
        Pin(public_key=signing.Signer(bytes(32)).public_key),
        Pin(fingerprint="0" * 32),
    ],
)
def test_a_signature_of_another_key_or_none_fails_where_one_is_asked_for(pin):
    for value in (SIGNED, UNSIGNED):
        bench = BookBench()
        assert outcome(value, bench, pin) is Outcome.BAD_SIGNATURE
        assert not bench.calls


def test_a_signature_taken_off_or_moved_is_noticed():
    assert outcome({**SIGNED, "signature": None}) is Outcome.BAD_SIGNATURE
    assert outcome({**UNSIGNED, "signature": SIGNED["signature"]}) is Outcome.UNREADABLE
    other = seal(TEXT, SIGNER)
    assert outcome({**SIGNED, "signature": other["signature"]}) is Outcome.BAD_SIGNATURE


def test_a_forger_who_signs_with_a_key_of_his_own_meets_the_pin():
    forged = seal(CHAT, signing.Signer(b"\1" * 32))
    assert outcome(forged) is Outcome.PROVEN  # the answer itself is true
    assert outcome(forged, pin=PINNED) is Outcome.BAD_SIGNATURE


# --- Altered ------------------------------------------------------------------------


@pytest.mark.parametrize("value", [SIGNED, UNSIGNED], ids=["signed", "unsigned"])
def test_no_receipt_with_one_byte_changed_is_proven(value):
    text = json.dumps(value, ensure_ascii=False).encode()
    checked = 0
    for at in range(len(text)):
        for bit in (1, 32):
            altered = bytearray(text)
            altered[at] ^= bit
            try:
                found = reading.receipts_in(bytes(altered))
            except ReceiptError:
                continue
            if found == [value]:
                continue  # a blank for a blank: nothing is changed
            checked += 1
            bench = BookBench()
            for receipt in found:
                assert outcome(receipt, bench) is not Outcome.PROVEN
            assert not bench.calls, "an altered receipt was run"
    assert checked > 500


def test_no_receipt_with_a_field_changed_is_proven_not_even_resealed():
    """Who alters an unsigned receipt can mend the digest; the re-run must notice.

    What nobody could notice without a signature is named: it makes no answer.
    """
    free = {
        ("created",),
        ("model", "name"),
        ("engine", "processor"),
        ("request", "input", "time_zone"),
    }
    bench_blind = {"request", "engine"}
    for path, old in leaves(UNSIGNED):
        if path[0] in {"digest", "signature", "signer"} or path in free:
            continue
        for new in near(old):
            value = resealed(changed(UNSIGNED, path, new))
            if path[0] in bench_blind:
                # Noticed by running it on a real model: tests/receipts/test_rerun.py.
                continue
            if path[:2] == ("output", "tool_calls") and path[-1] == "id":
                continue  # made up by the server
            assert outcome(value) is not Outcome.PROVEN, path


def near(old):
    match old:
        case bool():
            return [not old]
        case int():
            return [old + 1, max(old - 1, 0)] if old else [1]
        case float():
            return [old + 0.25]
        case str():
            return [old + "x", old[1:]] if old else ["x"]
        case None:
            return ["x", 3]
        case _:
            return [[1], ["x"]]


@pytest.mark.parametrize("signed", [True, False])
def test_every_field_of_an_altered_receipt_counts(signed):
    true = SIGNED if signed else UNSIGNED
    for path, old in leaves(true):
        for new in near(old):
            bench = BookBench()
            result = outcome(changed(true, path, new), bench)
            assert result in {Outcome.UNREADABLE, Outcome.BAD_SIGNATURE}, path
            assert not bench.calls


def test_a_signed_receipt_altered_and_resealed_has_a_wrong_signature():
    for path in (("created",), ("model", "name"), ("output", "content")):
        new = "2026-01-31T12:30:16Z" if path == ("created",) else "other"
        value = resealed(changed(SIGNED, path, new))
        assert outcome(value) is Outcome.BAD_SIGNATURE


# --- Model and engine ---------------------------------------------------------------


def test_another_model_is_told_apart_before_anything_is_loaded():
    bench = BookBench()
    other = replace(CHAT.model, sha256="ee" * 32)
    bench.true = replace(CHAT, model=other)
    assert outcome(SIGNED, bench) is Outcome.OTHER_MODEL
    assert bench.calls == ["find_model"]


def test_a_model_that_is_nowhere_is_named():
    class Empty(BookBench):
        def find_model(self, wanted):
            return None

    report = verify(SIGNED, Empty(), pin=ANY)
    assert report.outcome is Outcome.OTHER_MODEL
    assert "--model" in said(report)
    assert CHAT.model.sha256 in said(report)


def test_a_size_that_the_file_has_not_is_a_lie():
    value = resealed(changed(UNSIGNED, ("model", "size_bytes"), 5))
    assert outcome(value) is Outcome.DIFFERS


DECISIVE: dict[str, Any] = {
    "llama_cpp_python": "0.4.0",
    "llama_cpp": "0.6.0",
    "features": "NEON = 1 |",
    "settings": "flash_attention=1",
    "plan": "alone",
    "gpu_layers": 99,
}
HARMLESS: dict[str, Any] = {"kinetic": "0.2.0", "build": "00" * 32}


@pytest.mark.parametrize("name", DECISIVE)
def test_another_engine_cannot_judge_unless_told_to_try(name):
    here = replace(ENGINE, **{name: DECISIVE[name]})
    bench = BookBench(engine=here)
    report = verify(SIGNED, bench, pin=ANY)
    assert report.outcome is Outcome.UNDECIDED
    assert "rerun" not in bench.calls
    assert name in said(report)
    assert "--anyway" in said(report)
    assert outcome(SIGNED, bench, anyway=True) is Outcome.PROVEN
    bench.changes = {"difference": Difference(at=1, recorded="a", drawn="b")}
    assert outcome(SIGNED, bench, anyway=True) is Outcome.UNDECIDED


@pytest.mark.parametrize("name", HARMLESS)
def test_another_build_is_tried_and_only_agreement_counts(name):
    bench = BookBench(engine=replace(ENGINE, **{name: HARMLESS[name]}))
    assert outcome(SIGNED, bench) is Outcome.PROVEN
    bench.changes = {"difference": Difference(at=1, recorded="a", drawn="b")}
    assert outcome(SIGNED, bench) is Outcome.UNDECIDED


def test_another_processor_of_the_same_features_is_the_same():
    bench = BookBench(engine=replace(ENGINE, processor="Another"))
    bench.changes = {"difference": Difference(at=1, recorded="a", drawn="b")}
    assert outcome(SIGNED, bench) is Outcome.DIFFERS


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (ModelError("not enough memory"), Outcome.UNDECIDED),
        (RequestError("prompt holds token id 99"), Outcome.UNREADABLE),
    ],
)
def test_what_cannot_be_run_is_said_with_its_reason(error, result):
    class Failing(BookBench):
        def rerun(self, receipt):
            raise error

    report = verify(SIGNED, Failing(), pin=ANY)
    assert report.outcome is result
    assert str(error) in said(report)


# --- Comparing ----------------------------------------------------------------------

OUT = CHAT.output


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompt_tokens": (1, 15, 43, 7)}, "token 2 comes to 43, recorded is 42"),
        ({"prompt_tokens": (1, 15, 42)}, "3 tokens; 4 were run"),
        ({"prompt_tokens": (1, 15, 42, 7, 7)}, "5 tokens; 4 were run"),
        (
            {"difference": Difference(at=1, recorded='8 "b"', drawn='7 "a"')},
            'token 1 of the answer is 8 "b"; the model gives 7 "a"',
        ),
        ({"output": None}, "did not come to its end"),
        ({"output": replace(OUT, tokens=(9, 8))}, "3 tokens; the model gives 2"),
        ({"output": replace(OUT, content="Hellx")}, "from character 4"),
        ({"output": replace(OUT, content="Hello!")}, "from character 5"),
        ({"output": replace(OUT, content="")}, "the content is not"),
        ({"output": replace(OUT, reasoning="h")}, "the reasoning is not"),
        ({"output": replace(OUT, tool_calls=())}, "tool calls"),
        (
            {
                "output": replace(
                    OUT, tool_calls=(ToolCall(id="x", name="weather", arguments="[]"),)
                )
            },
            "tool calls",
        ),
        ({"output": replace(OUT, finish=Finish(reason="calls"))}, "ends by eos"),
        (
            {"output": replace(OUT, finish=Finish(reason="stop", stop_string="END"))},
            "not stop 'END'",
        ),
    ],
)
def test_whatever_differs_is_found_and_told(changes, words):
    bench = BookBench()
    bench.changes = changes
    report = verify(SIGNED, bench, pin=ANY)
    assert report.outcome is Outcome.DIFFERS
    assert words in said(report)


def test_ids_that_the_server_made_up_need_not_agree():
    bench = BookBench()
    call = replace(OUT.tool_calls[0], id="zzzzzzzzz")
    bench.changes = {"output": replace(OUT, tool_calls=(call,))}
    assert outcome(SIGNED, bench) is Outcome.PROVEN


# --- A receipt against itself -------------------------------------------------------


def with_end(reason="eos", n=3, *, full=False, **request):
    return replace(
        CHAT,
        request=replace(CHAT.request, **request),
        output=replace(
            OUT, tokens=(9,) * n, finish=Finish(reason=reason, context_full=full)
        ),
    )


@pytest.mark.parametrize(
    "receipt",
    [
        with_end("limit", 3, max_tokens=4),
        with_end("limit", 3, max_tokens=None),
        with_end("eos", 5, max_tokens=4),
        with_end("eos", 0),
        with_end("limit", 0, max_tokens=None),
        with_end("limit", 3, n_ctx=8, full=True, max_tokens=None),
        with_end("eos", 5, n_ctx=8, max_tokens=None),
        with_end("eos", 1, n_ctx=4, max_tokens=None),
        with_end("eos", 1, prompt_tokens=()),
    ],
)
def test_an_end_that_its_own_limits_do_not_allow_is_a_lie(receipt):
    assert contradiction(receipt)
    bench = BookBench(receipt)
    assert outcome(seal(receipt, SIGNER), bench) is Outcome.DIFFERS
    assert not bench.calls


@pytest.mark.parametrize(
    ("receipt", "most"),
    [
        (with_end("eos", 3), 4),
        (with_end("limit", 3, max_tokens=3), 3),
        (with_end("eos", 3, max_tokens=3), 3),
        (with_end("limit", 4, n_ctx=8, full=True, max_tokens=None), 4),
        (with_end("limit", 2, max_tokens=9, min_indent=2), 3),
        (with_end("limit", 0, max_tokens=0), 0),
    ],
)
def test_a_rerun_draws_one_more_token_unless_the_answer_was_counted_out(receipt, most):
    assert contradiction(receipt) is None
    assert tokens_to_draw(receipt) == most


def test_a_rerun_without_anything_proves_nothing():
    bench = BookBench()
    bench.changes = {"prompt_tokens": CHAT.request.prompt_tokens, "output": None}
    assert outcome(SIGNED, bench) is Outcome.DIFFERS


def test_the_schema_takes_what_a_bench_gets():
    assert isinstance(schema.read(SIGNED).receipt, type(CHAT))
    assert Rerun(prompt_tokens=(1,)).output is None
