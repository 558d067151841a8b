"""Answers of a real model, proven, and everything false found out."""

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kinetic.actors.messages import Failed, Finished
from kinetic.actors.policy.plan import alone_plan
from kinetic.config import BenchOptions
from kinetic.errors import ReceiptError, RequestError, UnsupportedFeature
from kinetic.proof.bench import ModelBench
from kinetic.receipts.verify import Outcome, Pin, verify
from kinetic.types import ChatInput, ConstraintSpec, SamplingParams
from tests.support import drafts, tiny_models
from tests.support.proving import chat, making, request, text
from tests.support.receipts import SIGNER, changed, leaves, resealed

PINNED = Pin(public_key=SIGNER.public_key)
ANY = Pin()
SEEDED = SamplingParams(temperature=1.3, seed=7, top_k=0, top_p=1.0, min_p=0.0)
QUIET: dict[str, Any] = {"n_threads": 1, "show_progress": False}

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}},
            "required": ["city"],
        },
    },
}

# Every case is asked for at once, so that they share passes and slots.
CASES = {
    "chat": request(chat("Name three rivers.")),
    "chat, sampled": request(chat("Name three rivers."), sampling=SEEDED),
    "conversation": request(chat("Hi", "Hello!", "Name a color."), sampling=SEEDED),
    "text": request(text("The capital of France is")),
    "token ids": request(text((504, 3575, 282)), sampling=SEEDED),
    "text and ids": request(text(("The capital", 282, " France is"))),
    "penalties": request(
        text("one two one two one two"),
        sampling=replace(
            SEEDED,
            repeat_penalty=1.3,
            presence_penalty=0.4,
            frequency_penalty=0.2,
            repeat_last_n=-1,
        ),
    ),
    "dry": request(
        text("one two three, one two three, one two"),
        sampling=replace(SEEDED, dry_multiplier=0.9, dry_allowed_length=1),
    ),
    "xtc": request(
        text("The sea is"),
        sampling=replace(SEEDED, xtc_probability=0.7, xtc_threshold=0.05),
    ),
    "filters": request(
        text("The sea is"),
        sampling=replace(
            SEEDED,
            top_n_sigma=1.5,
            typical_p=0.9,
            top_k=50,
            top_p=0.9,
            min_p=0.02,
            min_keep=3,
        ),
    ),
    "another order": request(
        text("The sea is"),
        sampling=replace(SEEDED, samplers=("temperature", "top_p", "penalties")),
    ),
    "varying temperature": request(
        text("The sea is"),
        sampling=replace(SEEDED, dynatemp_range=0.8, dynatemp_exponent=1.2),
    ),
    "mirostat 1": request(text("The sea is"), sampling=replace(SEEDED, mirostat=1)),
    "mirostat 2": request(text("The sea is"), sampling=replace(SEEDED, mirostat=2)),
    "biases": request(
        text("The sea is"),
        sampling=SamplingParams(
            temperature=0, logit_bias=((253, -np.inf), (260, -3.5), (1000, 2.25))
        ),
    ),
    "a stop string": request(chat("Count from one to ten."), stops=("zebra", "2\n3")),
    "no end": request(chat("Say yes."), ignore_eos=True, max_tokens=30),
    "its own end": request(chat("Say yes."), max_tokens=200),
    "no token": request(text("The sea"), max_tokens=0),
    "indented": request(text("def f():\n    x"), min_indent=4, max_tokens=30),
}


@pytest.fixture(scope="module")
def maker(smollm2_path):
    with making(smollm2_path) as found:
        yield found


@pytest.fixture(scope="module")
def receipts(maker):
    """Every case's receipt, made side by side."""
    endings = {name: maker.submit(asked) for name, asked in CASES.items()}
    found = {}
    for name, ending in endings.items():
        (end,) = ending.wait()
        assert isinstance(end, Finished), (name, end)
        found[name] = end.receipt
    return found


@pytest.fixture(scope="module")
def bench(smollm2_path):
    with ModelBench(BenchOptions(model=smollm2_path, **QUIET)) as found:
        yield found


def judged(value, bench, pin=ANY, **named):
    return verify(value, bench, pin=pin, **named)


def said(report):
    return "\n".join(f"{step.mark}: {step.text}" for step in report.steps)


def assert_proven(value, bench, pin=PINNED):
    report = judged(value, bench, pin)
    assert report.outcome is Outcome.PROVEN, said(report)


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_answer_is_proven(name, receipts, bench):
    assert_proven(receipts[name], bench)


def test_the_cases_end_in_every_way(receipts):
    ends = {name: r["output"]["finish"]["reason"] for name, r in receipts.items()}
    assert ends["a stop string"] == "stop"
    assert ends["its own end"] == "eos"
    assert ends["no token"] == "limit"
    assert ends["no end"] == "limit"
    assert receipts["a stop string"]["output"]["finish"]["stop_string"] == "2\n3"
    assert receipts["its own end"]["output"]["tokens"][-1] == 2


def test_choices_are_proven_one_by_one(maker, bench):
    asked = request(chat("Name a color."), text("The sea"), sampling=SEEDED, n=3)
    found = maker.receipts(asked)
    assert [r["request"]["sampling"]["seed"] for r in found] == [7, 8, 9] * 2
    for receipt in found:
        assert_proven(receipt, bench)


def test_a_kept_prefix_changes_nothing(maker, bench):
    """The first answer is sent back and gone on with, as chats do."""
    first = maker.receipt(request(chat("Name three rivers.")))
    answer = first["output"]["content"]
    more = request(chat("Name three rivers.", answer, "And a lake?"), sampling=SEEDED)
    ending = maker.submit(more)
    (end,) = ending.wait()
    assert end.usage.n_cached > 0
    assert_proven(end.receipt, bench)


@pytest.mark.timeout(300)  # two threads wait for each other on a busy machine
@pytest.mark.parametrize(
    "options",
    [
        {"n_threads": 2},
        {"n_ctx": 2048},
        {"n_parallel": 1},
        {"n_parallel": 3, "n_ctx": 700, "n_batch": 96},
    ],
    ids=str,
)
def test_threads_context_and_slots_change_nothing(options, receipts, smollm2_path):
    with ModelBench(BenchOptions(model=smollm2_path, **{**QUIET, **options})) as other:
        # Threads wait for each other by spinning: one answer is enough of that.
        names = ("chat, sampled", "penalties", "its own end")
        for name in names[:1] if options.get("n_threads") else names:
            assert_proven(receipts[name], other)


def test_a_full_context_ends_and_is_proven(smollm2_path, bench):
    with making(smollm2_path, n_ctx=256, n_parallel=2) as small:
        n_ctx = small.engine.n_ctx
        prompt = tuple(small.engine.vocab.tokenize("The sea is blue. " * 100))
        asked = request(text(prompt[: n_ctx - 10]), max_tokens=None)
        receipt = small.receipt(asked)
    assert receipt["output"]["finish"]["context_full"]
    assert len(receipt["output"]["tokens"]) == 10
    assert_proven(receipt, bench)
    # A context that is said to be larger is not full.
    larger = changed(receipt, ("request", "context"), n_ctx + 1)
    assert judged(unsigned(larger), bench).outcome is Outcome.DIFFERS


def test_taking_turns_is_its_own_plan(smollm2_path, bench):
    with making(smollm2_path, plan=alone_plan(), n_parallel=2) as strict:
        receipt = strict.receipt(request(chat("Name a river."), sampling=SEEDED))
    report = judged(receipt, bench)
    assert report.outcome is Outcome.UNDECIDED
    assert "plan alone, here uniform" in said(report)
    # On this machine both plans run the same kernels, so it agrees all the same.
    assert judged(receipt, bench, anyway=True).outcome is Outcome.PROVEN


def test_drafted_answers_are_proven_by_undrafted_runs(smollm2_path, bench):
    """Always drafted, also where it does not pay."""
    texts = ("one two three, one two three, one two", "ab ab ab ab ab")
    with making(smollm2_path, n_parallel=2, drafting=drafts.eager()) as maker:
        asked = [
            request(text(prompt), sampling=sampling, max_tokens=24)
            for prompt in texts
            for sampling in (SamplingParams(temperature=0), SEEDED)
        ]
        asked.append(
            request(
                chat("Count from one to ten."),
                constraint=ConstraintSpec(kind="json_schema", source=SCHEMA),
                stops=("zip",),
            )
        )
        endings = [maker.submit(one) for one in asked]
        ends = [end for ending in endings for end in ending.wait()]
    assert sum(end.usage.n_accepted for end in ends) > 0
    for end in ends:
        assert_proven(end.receipt, bench)


# --- Constraints and calls ----------------------------------------------------------

SCHEMA = '{"type":"object","properties":{"zip":{"type":"integer","maximum":99},"a":{"enum":["x","y"]}},"required":["zip","a"]}'
HELD = {
    "json_schema": request(
        chat("Give me an object."),
        constraint=ConstraintSpec(kind="json_schema", source=SCHEMA),
        sampling=SEEDED,
        max_tokens=60,
    ),
    "json_object": request(
        chat("Give me an object."),
        constraint=ConstraintSpec(kind="json_object"),
        max_tokens=40,
    ),
    "gbnf": request(
        text("Yes or no? "),
        constraint=ConstraintSpec(
            kind="gbnf", source='root ::= ("yes" | "no") " " [0-9]+', param="grammar"
        ),
        sampling=SEEDED,
    ),
    "a forced call": request(
        ChatInput(
            messages=({"role": "user", "content": "The weather in Paris?"},),
            tools=(WEATHER,),
            tool_choice="function",
            function_name="get_weather",
        ),
        max_tokens=60,
    ),
    "a required call": request(
        ChatInput(
            messages=({"role": "user", "content": "The weather in Paris?"},),
            tools=(WEATHER,),
            tool_choice="required",
        ),
        sampling=SEEDED,
        max_tokens=60,
    ),
    "after a call": request(
        ChatInput(
            messages=(
                {"role": "user", "content": "The weather in Paris?"},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {
                            "id": "abc123def",
                            "type": "function",
                            "function": {
                                "name": "get_weather",
                                "arguments": {"city": "Paris", "days": 1.0},
                            },
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "abc123def", "content": "18 C"},
            ),
            tools=(WEATHER,),
            parallel_tool_calls=True,
        ),
        sampling=SEEDED,
    ),
    "free to call": request(
        ChatInput(
            messages=(
                {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
            ),
            tools=(WEATHER,),
            template_kwargs={"custom": 1.0},
        ),
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_answers_held_to_a_form_are_proven(name, maker, bench):
    receipt = maker.receipt(HELD[name])
    assert_proven(receipt, bench)
    if name in {"a forced call", "a required call"}:
        assert receipt["output"]["tool_calls"][0]["name"] == "get_weather"


def test_a_constraint_altered_is_found_out(maker, bench):
    receipt = maker.receipt(HELD["json_schema"])
    value = changed(receipt, ("request", "constraint"), None)
    report = judged(unsigned(value), bench)
    assert report.outcome is Outcome.DIFFERS


def test_a_grammar_that_is_none_is_unreadable(maker, bench):
    receipt = maker.receipt(HELD["gbnf"])
    value = changed(receipt, ("request", "constraint", "source"), "root ::= (")
    report = judged(unsigned(value), bench)
    assert report.outcome is Outcome.UNREADABLE


# --- Other models -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["qwen3", "llama3", "lfm2", "gemma3"])
def test_other_architectures_are_proven(name):
    path = getattr(tiny_models, name)()
    asked = [
        request(chat("Hello there"), sampling=SEEDED, max_tokens=12),
        request(
            ChatInput(
                messages=({"role": "user", "content": "Weather?"},),
                tools=(WEATHER,),
                template_kwargs={"enable_thinking": False},
            ),
            sampling=SEEDED,
            max_tokens=12,
        ),
    ]
    with making(path, n_ctx=512, n_parallel=2) as tiny:
        found = [tiny.receipt(one) for one in asked]
    with ModelBench(BenchOptions(model=path, **QUIET)) as other:
        for receipt in found:
            assert_proven(receipt, other)


def test_another_model_s_receipt_is_not_judged(receipts):
    path = tiny_models.qwen3()
    with ModelBench(BenchOptions(model=path, **QUIET)) as other:
        report = judged(receipts["chat"], other)
    assert report.outcome is Outcome.OTHER_MODEL


def test_a_model_is_found_by_its_digest(receipts, smollm2_path):
    with ModelBench(BenchOptions(**QUIET)) as bench:
        assert_proven(receipts["chat"], bench)
        nobody = changed(receipts["chat"], ("model", "sha256"), "0" * 64)
        assert judged(unsigned(nobody), bench).outcome is Outcome.OTHER_MODEL


def test_a_template_of_the_server_s_own_goes_along(smollm2_path, bench):
    template = (
        "{{ strftime_now('%H:%M:%S.%f %Z') }}"
        "{% for m in messages %}|{{ m.role }}:{{ m.content }}{% endfor %}|bot:"
    )
    with making(smollm2_path, n_parallel=2, template=template) as maker:
        receipt = maker.receipt(request(chat("Hi there"), sampling=SEEDED))
    assert receipt["request"]["input"]["template"] == template
    assert_proven(receipt, bench)
    for path, new in (
        (("template",), template + " "),
        (("rendered_at",), "2020-01-01T00:00:00.000000+00:00"),
        (("time_zone",), "XYZ"),
    ):
        value = changed(receipt, ("request", "input", *path), new)
        assert judged(unsigned(value), bench).outcome is Outcome.DIFFERS


@pytest.mark.parametrize("splits", [True, False])
def test_thinking_is_proven_as_it_was_told(splits, smollm2_path, bench):
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
        "{% endfor %}<|im_start|>assistant\n"
        "{% if enable_thinking is not defined or enable_thinking %}<think>\n"
        "{% else %}<think>\n\n</think>\n\n{% endif %}"
    )
    with making(smollm2_path, n_parallel=2, template=template) as maker:
        asked = chat("Name three rivers.", split_reasoning=splits)
        receipt = maker.receipt(request(asked, sampling=SEEDED))
    output = receipt["output"]
    assert bool(output["reasoning"]) == splits
    assert_proven(receipt, bench)
    swapped = {
        **output,
        "reasoning": output["content"],
        "content": output["reasoning"],
    }
    if splits:
        value = unsigned(changed(receipt, ("output",), swapped))
        assert judged(value, bench).outcome is Outcome.DIFFERS
    kwargs = forged(
        receipt, ("request", "input", "template_kwargs"), '{"enable_thinking":false}'
    )
    assert judged(kwargs, bench).outcome is Outcome.DIFFERS


# --- False receipts -----------------------------------------------------------------


def unsigned(value):
    """As a forger leaves it who has no key: whole, and nobody's."""
    return resealed({**value, "signer": None, "signature": None})


def forged(receipt, path, new):
    return unsigned(changed(receipt, path, new))


def test_a_token_changed_is_found_with_both_probabilities(receipts, bench):
    receipt = receipts["chat"]
    tokens = list(receipt["output"]["tokens"])
    tokens[5] = (tokens[5] + 1) % 49152
    report = judged(forged(receipt, ("output", "tokens"), tokens), bench)
    assert report.outcome is Outcome.DIFFERS
    words = report.steps[-1].text
    assert words.startswith(f"token 5 of the answer is {tokens[5]} ")
    assert f"the model gives {receipt['output']['tokens'][5]} " in words
    assert words.count("(p = ") == 2


OUTPUT = {
    "one token more": lambda o: o["tokens"].append(o["tokens"][-1]),
    "one token less": lambda o: o["tokens"].pop(),
    "no token": lambda o: o["tokens"].clear(),
    "a token nobody has": lambda o: o["tokens"].__setitem__(0, 2**31 - 1),
    "the end token dropped": lambda o: o["tokens"].pop(),
    "other content": lambda o: o.__setitem__("content", o["content"] + "."),
    "content as reasoning": lambda o: o.update(reasoning=o["content"], content=""),
    "a call": lambda o: o["tool_calls"].append(
        {"id": "a", "name": "f", "arguments": "{}"}
    ),
    "another end": lambda o: o["finish"].update(reason="calls"),
    "a stop": lambda o: o["finish"].update(reason="stop", stop_string="x"),
    "a limit": lambda o: o["finish"].update(reason="limit"),
    "a full context": lambda o: o["finish"].update(context_full=True),
}


@pytest.mark.parametrize("name", OUTPUT)
def test_an_answer_altered_and_resealed_is_found_out(name, receipts, bench):
    receipt = receipts["its own end"]
    value = changed(receipt, ("output", "content"), receipt["output"]["content"])
    OUTPUT[name](value["output"])
    report = judged(unsigned(value), bench)
    assert report.outcome is Outcome.DIFFERS, said(report)


REQUEST = {
    "another question": (("input", "messages", 0, "content"), "Name three lakes."),
    "another role": (("input", "messages", 0, "role"), "system"),
    "another seed": (("sampling", "seed"), 8),
    "another temperature": (("sampling", "temperature"), 0.0),
    "another penalty": (("sampling", "repeat_penalty"), 5.0),
    "a bias": (("sampling", "logit_bias"), [[3060, 100.0]]),
    "a stop": (("stop",), ["e"]),
    "a lower limit": (("max_tokens",), 3),
    "a higher limit": (("max_tokens",), 50),
    "a small context": (("context",), 10),
    "no end allowed": (("ignore_eos",), True),
}


@pytest.mark.parametrize("name", REQUEST)
def test_a_request_altered_and_resealed_is_found_out(name, receipts, bench):
    made = "its own end" if name == "no end allowed" else "chat, sampled"
    path, new = REQUEST[name]
    value = forged(receipts[made], ("request", *path), new)
    report = judged(value, bench)
    assert report.outcome is Outcome.DIFFERS, said(report)


def test_prompt_tokens_that_the_messages_do_not_come_to_are_a_lie(receipts, bench):
    receipt = receipts["chat"]
    tokens = list(receipt["request"]["prompt_tokens"])
    for new in (tokens[:-1], [*tokens, 30], [tokens[0], 5, *tokens[2:]]):
        value = forged(receipt, ("request", "prompt_tokens"), new)
        report = judged(value, bench)
        assert report.outcome is Outcome.DIFFERS
        assert "prompt" in report.steps[-1].text


# --- Hostile receipts ---------------------------------------------------------------


def test_token_ids_of_another_model_are_refused_in_words(receipts, bench):
    for path, new in (
        (("request", "input", "prompt"), [49152, 1]),
        (("request", "sampling", "logit_bias"), [[49152, 1.0]]),
    ):
        report = judged(forged(receipts["text"], path, new), bench)
        assert report.outcome is Outcome.UNREADABLE
        assert "49152" in report.steps[-1].text


def test_a_context_that_no_memory_holds_is_not_tried(receipts, bench):
    n = 1 << 20
    value = changed(receipts["text"], ("output", "tokens"), [5] * n)
    value = changed(value, ("request", "context"), 1 << 30)
    value = changed(value, ("request", "max_tokens"), n)
    report = judged(unsigned(value), bench)
    assert report.outcome is Outcome.UNDECIDED
    assert "MiB" in report.steps[-1].text


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(10 ** 9) %}{{ i }}{% endfor %}",
        "{{ 'x' * 10 ** 9 }}",
        "{{ ''.__class__.__mro__ }}",
        "{% if %}",
        "{{ raise_exception('no') }}",
        "",
    ],
)
def test_a_hostile_template_ends_in_words(template, receipts, bench):
    value = forged(receipts["chat"], ("request", "input", "template"), template)
    report = judged(value, bench)
    assert report.outcome in {Outcome.UNREADABLE, Outcome.DIFFERS}


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": "user"},
        {"role": ""},
        '{"role":"user","content":{"a":[[[[]]]]}}',
        '{"role":"assistant","tool_calls":[3]}',
        '{"role":"tool","content":[null]}',
        '{"role":"user","content":[{"type":"image","marker":"x"}]}',
    ],
    ids=str,
)
def test_odd_messages_end_in_words(message, receipts, bench):
    value = forged(receipts["chat"], ("request", "input", "messages"), [message])
    report = judged(value, bench)
    assert report.outcome in {Outcome.UNREADABLE, Outcome.DIFFERS}


def test_extreme_sampler_values_end_in_words_or_tokens(receipts, bench):
    for name, new in (
        ("temperature", 1e9),
        ("repeat_penalty", 1e9),
        ("top_n_sigma", 1e9),
        ("typical_p", -1e9),
        ("mirostat_tau", -1e9),
        ("mirostat_eta", 1e9),
        ("min_keep", 2**31 - 1),
        ("repeat_last_n", 2**31 - 1),
        ("dry_penalty_last_n", 2**31 - 1),
        ("dynatemp_exponent", -1e9),
    ):
        made = receipts["mirostat 2" if "mirostat" in name else "dry"]
        value = forged(made, ("request", "sampling", name), new)
        report = judged(value, bench)
        assert report.outcome in {Outcome.DIFFERS, Outcome.PROVEN, Outcome.UNDECIDED}


ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2**31 - 1,
    0.5,
    "",
    "x",
    "\0",
    "-inf",
    [],
    [0],
    {},
    "[]",
]


def test_no_value_in_any_place_does_more_than_end_in_words(maker, bench):
    """Whatever passes the checks is run, on short answers: nothing raises or hangs."""
    tool = ChatInput(
        messages=({"role": "user", "content": "Hi"},),
        tools=(WEATHER,),
        template_kwargs={"a": 1},
    )
    held = ConstraintSpec(kind="gbnf", source='root ::= "a"+', param="grammar")
    made = [
        request(tool, max_tokens=1, sampling=SEEDED, stops=("x",)),
        request(text("x"), max_tokens=1, constraint=held),
    ]
    outcomes = set()
    for receipt in map(maker.receipt, made):
        for i, (path, _) in enumerate(leaves(receipt)):
            if path[0] in {"engine", "model", "signer", "digest", "signature"}:
                continue
            for new in ODD[i % 5 :: 5]:
                value = changed(receipt, path, new)
                with contextlib.suppress(ReceiptError):
                    value = unsigned(value)
                outcomes.add(judged(value, bench).outcome)
    assert outcomes >= {Outcome.PROVEN, Outcome.DIFFERS, Outcome.UNREADABLE}


def test_the_bench_still_proves_after_all_that(receipts, bench):
    assert_proven(receipts["chat, sampled"], bench)


# --- What gets no receipt -----------------------------------------------------------


def test_what_cannot_be_made_again_is_refused_before_it_is_made(maker):
    with pytest.raises(RequestError, match="time limit"):
        maker.builder.build(request(text("x"), stop_at_newline_after_s=1.0))
    image = ChatInput(messages=({"role": "user", "content": [{"type": "image_url"}]},))
    with pytest.raises(UnsupportedFeature, match="images"):
        maker.builder.build(request(image))


def test_a_cancelled_answer_has_no_receipt(maker):
    asked = request(text("The sea"), max_tokens=900, ignore_eos=True)
    ending = maker.submit(asked)
    maker.system.cancel(asked.request_id, RequestError("gone"))
    (end,) = ending.wait()
    assert isinstance(end, Failed)
