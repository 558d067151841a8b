"""Prompts that are refused, and by what name; lists have the room of one text."""

from __future__ import annotations

import pytest

from kinetic.errors import ContextExceeded, RequestError
from kinetic.model import tokenizing
from kinetic.model.chat.template.template import ChatTemplate
from kinetic.model.constraints.constraint import ConstraintCompiler
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.prompt import PromptBuilder
from kinetic.types import ChatInput, GenerationRequest, SamplingParams, TextInput
from tests.support import tiny_models


@pytest.fixture(scope="module")
def builder():
    options = EngineOptions(n_ctx=256, n_parallel=1, n_threads=1)
    engine = LlamaEngine(tiny_models.qwen3(), options)
    try:
        yield PromptBuilder(
            engine.vocab,
            None,
            ConstraintCompiler(engine.model, engine.vocab),
            engine.n_ctx,
        )
    finally:
        engine.close()


def built(builder, prompt):
    request = GenerationRequest(
        request_id="r", inputs=(TextInput(prompt=prompt),), sampling=SamplingParams()
    )
    return builder.build(request)


def test_a_list_is_refused_by_its_beginning_as_one_text_is(builder):
    with pytest.raises(ContextExceeded) as whole:
        built(builder, "a b c\n" * 20_000)
    with pytest.raises(ContextExceeded) as parts:
        built(builder, ("a b c\n" * 2,) * 10_000)
    assert "about" in str(whole.value)
    assert str(parts.value) == str(whole.value)


def test_texts_and_ids_that_fit_are_taken(builder):
    (job,) = built(builder, (5, "a b", 6, "c"))
    assert job.prompt[0] == 5


def test_a_list_to_tokenise_is_no_longer_than_a_text(builder, monkeypatch):
    monkeypatch.setattr(tokenizing, "MOST_CHARS", 100)
    with pytest.raises(RequestError, match="content has 120 characters; at most 100"):
        builder.tokenize(("a" * 60, 1, "b" * 60), add_special=False, parse_special=True)


def test_a_refusal_of_a_template_names_the_field_that_is_wrong(builder):
    prompts = PromptBuilder(builder._vocab, ChatTemplate(None), None, 256)  # type: ignore[arg-type]
    user = {"role": "user", "content": "Hi"}
    asked = ChatInput(messages=(user,), template_kwargs={"add_generation_prompt": 1})
    with pytest.raises(RequestError, match="is set by the server") as refused:
        prompts.chat_text(asked)
    assert refused.value.param == "chat_template_kwargs"
