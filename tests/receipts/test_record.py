"""What a receipt holds, written as JSON and read back."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from kinetic.errors import ReceiptError
from kinetic.model.job import Job
from kinetic.receipts import schema
from kinetic.receipts.canonical import canonical
from kinetic.receipts.checks import TOKENS_MAX
from kinetic.receipts.record import RequestRecord, is_plain, json_text, seal, to_json
from kinetic.types import ChatInput, GenerationRequest, Outcome, SamplingParams
from kinetic.web.fields.sampling import SAMPLING as OPENAI
from kinetic.web.llama_server.sampling import SAMPLING as NATIVE
from tests.support.receipts import CHAT, SIGNER, TEXT, changed, leaves, resealed


@pytest.mark.parametrize("receipt", [CHAT, TEXT])
@pytest.mark.parametrize("signer", [None, SIGNER])
def test_a_receipt_reads_back_as_it_was(receipt, signer):
    text = json.dumps(seal(receipt, signer))
    found = schema.read(json.loads(text))
    same: Any = found.receipt
    if receipt.request.constraint is not None:
        # Which field of a request held the constraint is nothing the answer knows.
        spec = replace(same.request.constraint, param="response_format")
        same = replace(same, request=replace(same.request, constraint=spec))
    assert same == receipt
    assert (found.signer is None) == (signer is None)


def test_why_an_answer_ended_is_a_plain_string_on_paper_and_an_outcome_when_read():
    written = seal(TEXT, SIGNER)
    assert type(written["output"]["finish"]["reason"]) is str
    # Also what never was text: checks take strings, and nothing that passes for one.
    assert schema.read(written).receipt.output.finish.reason is Outcome.EOS


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda text: json.dumps(json.loads(text), sort_keys=True),
        lambda text: json.dumps(json.loads(text), indent=3),
        lambda text: canonical(json.loads(text)).decode(),
        lambda text: json.dumps(json.loads(text), ensure_ascii=False),
    ],
    ids=["keys sorted", "indented", "canonical", "unescaped"],
)
def test_no_other_program_s_spelling_changes_what_is_run(rewrite):
    text = json.dumps(seal(CHAT, SIGNER))
    one, other = (schema.read(json.loads(t)) for t in (text, rewrite(text)))
    assert one.message == other.message
    assert one.receipt == other.receipt
    # Equality of dicts does not see the order of keys; templates and grammars do.
    assert ordered(one.receipt.request) == ordered(other.receipt.request)


def ordered(request):
    """What is read in order; messages of texts alone are read key by key."""
    inputs = request.inputs
    rich = [message for message in inputs.messages if not is_plain(message)]
    assert rich
    assert len(rich) < len(inputs.messages)
    return json_text([rich, inputs.tools, inputs.template_kwargs])


def test_the_time_zone_keeps_the_name_that_a_template_may_print():
    read = schema.read(seal(CHAT, None)).receipt.request.rendered_at
    assert read is not None
    assert read == CHAT.request.rendered_at
    assert read.strftime("%Z %H:%M:%S.%f") == "CET 13:30:14.123456"


def test_every_value_of_the_sampler_chain_is_in_a_receipt():
    names = {field.name for field in fields(SamplingParams)}
    assert set(schema.SAMPLING) == names
    assert set(to_json(CHAT)["request"]["sampling"]) == names


def test_every_field_of_a_conversation_is_in_a_receipt():
    names = {field.name for field in fields(ChatInput)}
    recorded = set(to_json(CHAT)["request"]["input"])
    # Refused: no receipt is made with them yet.
    assert names - recorded == {"allowed_tools"}


# A field that is added must be recorded or named here with the reason.
NOT_RECORDED = {
    GenerationRequest: {
        "request_id": "names the request for the server",
        "inputs": "one of them, in inputs",
        "n": "a choice is its own request with its own seed",
        "n_logprobs": "told beside the answer",
        "post_sampling_probs": "told beside the answer",
        "echo": "repeats the prompt",
        "stop_at_newline_after_s": "refused: a clock's end cannot be run again",
        "slot_id": "any slot gives the same",
        "prefill": "has no answer",
        "progress": "told beside the answer",
        "settings": "what the API shows of the request",
        "receipt": "that is this",
        "arrived_s": "a time for metrics",
    },
    Job: {
        "request_id": "names the request for the server",
        "index": "a choice is its own request with its own seed",
        "prompt": "in prompt_tokens",
        "output": "follows from the conversation and its tools",
        "verdict": "told beside the answer",
        "visible_markers": "follows from the conversation and its tools",
        "n_logprobs": "told beside the answer",
        "post_sampling_probs": "told beside the answer",
        "prompt_logprobs": "told beside the answer",
        "stop_at_newline_after_s": "refused: a clock's end cannot be run again",
        "group": "shared prompts give the same",
        "slot_id": "any slot gives the same",
        "progress": "told beside the answer",
        "settings": "what the API shows of the request",
        "images": "refused: no receipt is made with them yet",
        "scope": "tells adapters apart, of which there are none",
        "is_prefill": "has no answer",
        "receipt": "that is this",
        "arrived_s": "a time for metrics",
    },
}


@pytest.mark.parametrize("kind", [GenerationRequest, Job])
def test_whatever_shapes_an_answer_is_recorded(kind):
    recorded = {field.name for field in fields(RequestRecord)}
    names = {field.name for field in fields(kind)}
    assert names - recorded == set(NOT_RECORDED[kind]) - recorded
    assert set(NOT_RECORDED[kind]) <= names


# --- Reading what anybody may have written -------------------------------------------

TRUE = seal(CHAT, SIGNER)
VALUES: list[Any] = [
    None,
    True,
    -1,
    2**31,
    2**63,
    1.5,
    "",
    "x",
    "-inf",
    [],
    [[]],
    {},
    {"a": 1},
    ["x"] * 20,
    "[" * 1000,
    '{"a": 1, "a": 2}',
    '{"function": {"name": 3}}',
]


def test_any_value_in_any_place_is_taken_or_refused_in_words():
    refused = 0
    for path, _ in leaves(TRUE):
        for new in VALUES:
            value = resealed_or_not(changed(TRUE, path, new))
            said = refusal(value)
            refused += said is not None
            assert said is None or 0 < len(said) < 5000
    assert refused > 1000


def refusal(value):
    try:
        schema.read(value)
    except ReceiptError as error:
        return str(error)
    return None


def resealed_or_not(value):
    try:
        return resealed(value)
    except ReceiptError:
        return value


def test_every_field_is_needed_and_no_other_is_taken():
    def objects(value, path=()):
        if isinstance(value, dict):
            yield path, value
            for key, below in value.items():
                yield from objects(below, (*path, key))
        elif isinstance(value, list):
            for i, below in enumerate(value):
                yield from objects(below, (*path, i))

    for path, found in objects(TRUE):
        if "messages" in path:
            continue
        for key in found:
            cut = {k: v for k, v in found.items() if k != key}
            with pytest.raises(ReceiptError):
                schema.read(changed(TRUE, path, cut) if path else cut)
        more = {**found, "more": 1}
        with pytest.raises(ReceiptError):
            schema.read(changed(TRUE, path, more) if path else more)


@pytest.mark.parametrize("value", [None, 3, "x", [], {}, {"format": "other"}])
def test_what_is_no_receipt_is_said_to_be_none(value):
    with pytest.raises(ReceiptError, match="no receipt"):
        schema.read(value)


@pytest.mark.parametrize("version", [0, 2, "1", None, 10**400])
def test_another_version_is_refused(version):
    with pytest.raises(ReceiptError, match="version"):
        schema.read({**TRUE, "version": version})


def test_huge_lists_are_refused_by_their_length():
    lists: list[tuple[str, ...]] = [("output", "tokens"), ("request", "prompt_tokens")]
    for path in lists:
        with pytest.raises(ReceiptError, match="at most"):
            schema.read(changed(TRUE, path, [1] * (TOKENS_MAX + 1)))
    for path in (("request", "stop"), ("request", "sampling", "samplers")):
        with pytest.raises(ReceiptError, match="to"):
            schema.read(changed(TRUE, path, ["x"] * 100_000))


def test_the_error_names_the_place():
    value = changed(TRUE, ("request", "sampling", "logit_bias", 1, 1), "much")
    with pytest.raises(
        ReceiptError, match=r"request\.sampling\.logit_bias\[1\] must be a number"
    ):
        schema.read(value)
    value = changed(TRUE, ("request", "input", "messages", 0, "content"), 3)
    with pytest.raises(
        ReceiptError, match=r"request\.input\.messages\[0\]\.content must be a string"
    ):
        schema.read(value)


@pytest.mark.parametrize("kind", ["image", "image_url", "input_image"])
def test_messages_with_images_are_refused(kind):
    part = json.dumps({"role": "user", "content": [{"type": kind, "marker": "x"}]})
    value = changed(TRUE, ("request", "input", "messages"), [part])
    with pytest.raises(ReceiptError, match=r"messages\[0\] holds an image"):
        schema.read(value)


def test_a_fingerprint_of_another_key_is_refused():
    with pytest.raises(ReceiptError, match="fingerprint"):
        schema.read(changed(TRUE, ("signer", "fingerprint"), "0" * 32))


def test_a_forced_call_needs_its_tool():
    for choice, name in (("function", "other"), ("function", None)):
        given = {**TRUE["request"]["input"], "tool_choice": choice}
        given["function_name"] = name
        with pytest.raises(ReceiptError, match="function_name"):
            schema.read(changed(TRUE, ("request", "input"), given))
    given = {**TRUE["request"]["input"], "tool_choice": "required", "tools": []}
    with pytest.raises(ReceiptError, match="without a tool"):
        schema.read(changed(TRUE, ("request", "input"), given))


NUMBERS = [
    *(
        sign * n
        for n in (0, 1, 2, 3, 100, 2**31 - 1, 2**53, 10**30)
        for sign in (1, -1)
    ),
    *(
        sign * n
        for n in (1e-7, 1e-6, 0.01, 0.5, 1.0, 100.0, 1e9, 1e30)
        for sign in (1, -1)
    ),
]
LISTS = [["x"], ["y" * 40] * 32, "edskypmxt", "kkk", [], ["top_k", "typical"]]


@pytest.mark.parametrize("table", [OPENAI, NATIVE], ids=["openai", "llama-server"])
def test_every_value_that_requests_may_ask_for_is_a_receipt_s_too(table):
    checked = 0
    for field in table:
        if field.name not in schema.SAMPLING or field.name in {"seed", "logit_bias"}:
            continue
        for value in (*NUMBERS, *LISTS):
            try:
                read = field.read(value)
            except ValueError:
                continue
            taken = list(read) if isinstance(read, tuple) else read
            assert schema.SAMPLING[field.name](taken) == read, (field.name, value)
            checked += 1
    assert checked > 100
