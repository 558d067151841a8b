"""What a request's tools, choice and history make of its prompt and its answer."""

from __future__ import annotations

import pytest

from kinetic.errors import InternalError, RequestError
from kinetic.loading import chat_template
from kinetic.model.chat.reply.calls import parser_for
from kinetic.model.constraints.constraint import ConstraintCompiler
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.prompt import SEED_LIMIT, PromptBuilder
from kinetic.types import (
    AnswerOptions,
    CallPiece,
    ChatInput,
    ConstraintSpec,
    GenerationRequest,
    SamplingParams,
    TextInput,
)
from tests.support import chat_templates, tiny_models

USER = {"role": "user", "content": "The weather in Paris?"}


def tool(name):
    parameters = {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = (tool("first"), tool("second"), tool("third"))
CALL = '<tool_call>\n{{"name": "{}", "arguments": {{}}}}\n</tool_call>'
SECOND = CALL.format("second")
THOUGHT = "<think>\na\n</think>\n\n"
ALWAYS_CLOSED = chat_templates.QWEN3.replace(
    "enable_thinking is defined and not enable_thinking", "true"
)


class Loaded:
    """A tiny model of Qwen3's family, which builds prompts."""

    def __init__(self):
        options = EngineOptions(n_ctx=1024, n_parallel=1, n_threads=1)
        self.engine = LlamaEngine(tiny_models.qwen3(), options)

    def builder(self, template=None):
        return PromptBuilder(
            self.engine.vocab,
            chat_template(self.engine, template),
            ConstraintCompiler(self.engine.model, self.engine.vocab),
            self.engine.n_ctx,
        )

    def prompt(self, *messages, template=None, constraint=None, **inputs):
        builder = self.builder(template)
        asked = ChatInput(messages=messages or (USER,), **inputs)
        request = GenerationRequest(
            request_id="r",
            inputs=(asked,),
            sampling=SamplingParams(),
            constraint=constraint,
        )
        return builder.prompt(asked, request)

    def allows(self, prompt, text):
        """Whether the answer may be this text."""
        assert prompt.constraint is not None
        matcher = prompt.constraint.matcher()
        try:
            for token in self.engine.vocab.tokenize(text):
                matcher.accept(token)
        except InternalError:
            return False
        return True


@pytest.fixture(scope="module")
def loaded(smollm2_path):
    found = Loaded()
    yield found
    found.engine.close()


# --- What jobs carry -----------------------------------------------------------------


def test_each_choice_carries_its_request_and_draws_with_a_seed_of_its_own(loaded):
    options = AnswerOptions(
        request_id="r",
        sampling=SamplingParams(seed=SEED_LIMIT - 1),
        max_tokens=7,
        stops=("a",),
        n_logprobs=2,
        post_sampling_probs=True,
        ignore_eos=True,
        stop_at_newline_after_s=1.5,
        min_indent=3,
        slot_id=0,
        progress=True,
        settings={"n_keep": 1},
        arrived_s=2.5,
    )
    plain = AnswerOptions(request_id="", sampling=SamplingParams())
    given, defaults = options.carried(), plain.carried()
    assert all(given[name] != defaults[name] for name in given)
    request = GenerationRequest(**given, inputs=(TextInput(prompt="Hi"),) * 2, n=2)
    jobs = loaded.builder().build(request)
    assert [job.index for job in jobs] == [0, 1, 2, 3]
    assert [job.sampling.seed for job in jobs] == [SEED_LIMIT - 1, 0] * 2
    for job in jobs:
        assert {**job.carried(), "sampling": options.sampling} == given


# --- Which tools a prompt shows ------------------------------------------------------


@pytest.mark.parametrize(
    "choice",
    [
        {"tool_choice": "required"},
        {"tool_choice": "function", "function_name": "second"},
    ],
)
def test_a_choice_of_tools_leaves_the_prompt_as_it_is(loaded, choice):
    free = loaded.prompt(tools=TOOLS)
    held = loaded.prompt(tools=TOOLS, **choice)
    assert held.tokens == free.tokens


def test_a_named_function_is_the_only_one_that_may_be_called(loaded):
    named = {"tool_choice": "function", "function_name": "second"}
    held = loaded.prompt(tools=TOOLS, **named)
    assert loaded.allows(held, SECOND)
    assert not loaded.allows(held, CALL.format("first"))
    assert [t["function"]["name"] for t in held.output.tools] == ["second"]


def test_where_none_may_be_called_none_is_shown(loaded):
    none = loaded.prompt(tools=TOOLS, tool_choice="none")
    assert none.tokens == loaded.prompt().tokens
    assert none.output.tools == ()


# --- Thoughts ------------------------------------------------------------------------

FORCED = {"tools": TOOLS, "tool_choice": "required"}
SHAPE = {
    "constraint": ConstraintSpec(
        kind="json_schema", source='{"type": "integer"}', param="json_schema"
    )
}


@pytest.mark.parametrize(
    ("held", "answer"), [(FORCED, SECOND), (SHAPE, "12")], ids=["forced", "shape"]
)
@pytest.mark.parametrize(
    ("changes", "may_think"),
    [
        ({}, True),
        ({"template_kwargs": {"enable_thinking": True}}, True),
        ({"template_kwargs": {"enable_thinking": False}}, False),
        ({"template": ALWAYS_CLOSED}, False),
    ],
)
def test_thoughts_that_are_closed_stay_closed(loaded, held, answer, changes, may_think):
    prompt = loaded.prompt(**held, **changes)
    assert loaded.allows(prompt, answer)
    assert loaded.allows(prompt, THOUGHT + answer) is may_think


def test_an_answer_that_has_begun_holds_no_thoughts(loaded):
    prompt = loaded.prompt(USER, {"role": "assistant", "content": "So: "}, **FORCED)
    assert loaded.allows(prompt, SECOND)
    assert not loaded.allows(prompt, THOUGHT + SECOND)


@pytest.mark.parametrize("text", ["a <think> b", "a\n<think>\nb"])
def test_a_marker_in_an_answer_to_go_on_with_opens_nothing(loaded, text):
    prompt = loaded.prompt(USER, {"role": "assistant", "content": text})
    assert prompt.output.think_open is None
    assert prompt.text.endswith(text)
    assert loaded.engine.vocab.special_token("<think>") not in prompt.tokens
    pieces = parser_for(prompt.output, iter(()).__next__).feed(" and so on")
    assert [piece.text for piece in pieces] == [" and so on"]


@pytest.mark.parametrize(
    ("content", "has_begun"), [("a <think> b", True), ("<think> b", False), ("", False)]
)
def test_an_answer_that_goes_on_is_read_as_one_that_has_begun(
    loaded, content, has_begun
):
    said = ({"role": "assistant", "content": content},) if content else ()
    assert loaded.prompt(USER, *said, template=XML).output.has_begun == has_begun


# --- Ids -----------------------------------------------------------------------------


def history(call_id):
    function = {"name": "first", "arguments": {}}
    call = {"id": call_id, "type": "function", "function": function}
    return (
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "18 C", "tool_call_id": call_id},
    )


@pytest.mark.parametrize(
    ("given", "written"), [("call_1", "call_1"), (None, "call00001")]
)
def test_a_calls_id_is_new_in_its_conversation(loaded, given, written):
    prompt = loaded.prompt(*history(given), tools=TOOLS)
    reader = parser_for(prompt.output, iter([written, "fresh0001"]).__next__)
    text = SECOND.replace("{}}", f'{{}}, "id": "{written}"}}')
    (piece,) = [*reader.feed(text), *reader.finish(truncated=False)]
    assert isinstance(piece, CallPiece)
    assert piece.call.id == "fresh0001"


# --- Values in tags ------------------------------------------------------------------

XML = chat_templates.QWEN3.replace(
    """{{- '<tool_call>\\n{"name": "' + call.function.name }}
            {{- '", "arguments": ' + (call.function.arguments | tojson) }}
            {{- '}\\n</tool_call>' }}""",
    """{{- '<tool_call>\\n<function=' + call.function.name + '>\\n' }}
            {%- for key, value in call.function.arguments | items %}
            {{- '<parameter=' + key + '>\\n' + value | string + '\\n</parameter>\\n' }}
            {%- endfor %}{{- '</function>\\n</tool_call>' }}""",
)


def switch(schema):
    parameters = {"type": "object", "properties": {"on": schema}, "required": ["on"]}
    function = {"name": "switch", "parameters": parameters}
    return (TOOLS[0], {"type": "function", "function": function})


def test_a_value_in_tags_is_held_to_its_schema(loaded):
    tools = switch({"type": "boolean"})
    held = loaded.prompt(tools=tools, tool_choice="required", template=XML)
    assert held.output.family == "qwen3.5"
    begin = "<tool_call>\n<function=switch>\n<parameter=on>\n"
    assert loaded.allows(held, f"{begin}true\n</parameter>\n</function>\n</tool_call>")
    assert not loaded.allows(held, f"{begin}value_1")


def test_a_schema_that_cannot_be_held_in_tags_is_refused_by_its_field(loaded):
    choice = {"tool_choice": "required", "template": XML}
    with pytest.raises(RequestError) as caught:
        loaded.prompt(tools=switch({"type": "integer", "minimum": "1"}), **choice)
    assert caught.value.param == "tools[1].function.parameters"
