"""From a request to jobs: render, tokenise, compile. Runs off the event loop."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kinetic.errors import ContextExceeded, RequestError, UnsupportedFeature, about
from kinetic.model.chat.reply.calls import OutputFormat, markers
from kinetic.model.chat.template.template import TemplateError
from kinetic.model.chat.thinking import tags_in
from kinetic.model.constraints.calls.forced import XML_FAMILIES, Think, forced_grammar
from kinetic.model.constraints.verdict import Verdict
from kinetic.model.job import Job
from kinetic.model.tokenizing import MOST_UNBROKEN, check_length
from kinetic.model.vision.vision import PictureSource, refuse, with_markers
from kinetic.types import ChatInput, RequestAsRead, TextInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kinetic.model.chat.template.template import ChatTemplate, Rendered
    from kinetic.model.constraints.constraint import ConstraintCompiler
    from kinetic.model.constraints.json_schema.judge import Judge
    from kinetic.model.constraints.matching import Constraint
    from kinetic.model.job import ImageSpan
    from kinetic.model.vision.vision import Vision
    from kinetic.model.vocab import Vocab
    from kinetic.types import GenerationRequest, SamplingParams

SEED_LIMIT = (1 << 32) - 1
"""Seeds are smaller: llama.cpp takes this one itself as "draw a seed"."""

HEAD_CHARS = 128
"""Characters for each token of the context that are looked at first; hardly any token
is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt ready to be run, and how the answer is held and read."""

    tokens: tuple[int, ...]
    text: str
    """As rendered; guards that kept markers plain are taken out."""
    images: tuple[ImageSpan, ...] = ()
    output: OutputFormat | None = None
    constraint: Constraint | None = None
    verdict: Verdict | None = None
    """What the whole answer is judged by."""
    rendered_at: datetime | None = None
    """What the template took for the present; None where there was no template."""


def local_time() -> datetime:
    """The present in the server's time zone, as templates print it."""
    return datetime.now(UTC).astimezone()


class PromptBuilder:
    """Builds the prompts of requests for one loaded model.

    Thread: any; nothing is changed after construction.
    """

    def __init__(  # noqa: PLR0913 - what prompts are made with, each on its own
        self,
        vocab: Vocab,
        template: ChatTemplate,
        compiler: ConstraintCompiler,
        n_ctx: int,
        *,
        now: Callable[[], datetime] = local_time,
        vision: Vision | None = None,
        prepare: Callable[[SamplingParams], None] = lambda _: None,
    ) -> None:
        """`prepare` does what a sampler would be slow to do when an answer begins."""
        self._vocab = vocab
        self._prepare = prepare
        self._template = template
        self._compiler = compiler
        self._n_ctx = n_ctx
        self._now = now
        self._vision = vision

    def build(self, request: GenerationRequest) -> tuple[Job, ...]:
        """Make one job per choice, numbered prompt by prompt.

        Raises RequestError for what cannot be rendered, compiled or fitted.
        """
        if request.prefill:
            return self._prefill(request)
        if request.receipt:
            check_receipt(request)
        self._prepare(request.sampling)
        jobs: list[Job] = []
        for i, inputs in enumerate(request.inputs):
            prompt = self.prompt(inputs, request)
            group = f"{request.request_id}/{i}" if request.n > 1 else None
            scores = request.echo and request.n_logprobs is not None
            job = Job(
                **request.carried(),
                index=i * request.n,
                prompt=prompt.tokens,
                images=prompt.images,
                output=prompt.output,
                visible_markers=self._markers(prompt.output),
                constraint=prompt.constraint,
                verdict=prompt.verdict,
                prompt_logprobs=scores,
                group=None if scores else group,
                receipt=_as_read(inputs, request, prompt),
            )
            jobs += [_choice(job, number) for number in range(request.n)]
        return tuple(jobs)

    def _prefill(self, request: GenerationRequest) -> tuple[Job, ...]:
        """One job for the part of a conversation that no longer changes; or none.

        That part is what the prompt shares with the same conversation without its last
        word, so neither the template's end of the message nor a token over the cut is
        in it.
        """
        (inputs,) = request.inputs
        if not isinstance(inputs, ChatInput):
            message = "prefill takes a conversation"
            raise RequestError(message, param="messages")
        prompt = self.prompt(inputs, request)
        whole = prompt.tokens
        earlier = replace(inputs, messages=without_last_word(inputs.messages))
        part = self.prompt(earlier, request).tokens
        n_same = 0
        for left, right in zip(whole, part, strict=False):
            if left != right:
                break
            n_same += 1
        if n_same == 0:
            return ()
        job = Job(
            request_id=request.request_id,
            index=0,
            prompt=whole[:n_same],
            # A picture is shared as a whole or not at all.
            images=tuple(span for span in prompt.images if span.end <= n_same),
            sampling=request.sampling,
            max_tokens=0,
            is_prefill=True,
            progress=True,
            arrived_s=request.arrived_s,
        )
        return (job,)

    def tokenize(
        self,
        content: str | Sequence[int | str],
        *,
        add_special: bool,
        parse_special: bool,
    ) -> list[int]:
        """Token ids of text, ids, or a mix of both.

        Args:
            content: What to tokenise; ids stand for themselves.
            add_special: Whether text at the start gets the model's BOS and the like.
            parse_special: Whether markers in the text are control tokens.

        Raises RequestError for unknown ids.
        """
        parts = [content] if isinstance(content, str) else content
        read = self._vocab.tokenize if parse_special else self._vocab.tokenize_plain
        with about("content"):
            # A list of texts has no more room than one.
            check_length(_texts_in(content))
        ids: list[int] = []
        for i, part in enumerate(parts):
            if isinstance(part, str):
                where = "content" if isinstance(content, str) else f"content[{i}]"
                with about(where):
                    ids += read(part, add_special=add_special and i == 0)
            else:
                self._vocab.check(part, param="content")
                ids.append(part)
        return ids

    def chat_text(self, inputs: ChatInput) -> str:
        """A conversation as the model reads it; raises RequestError."""
        inputs, _ = self._marked(inputs)
        return _text_of(self.render(inputs, _shown(inputs), self._now()))

    def _marked(self, inputs: ChatInput) -> tuple[ChatInput, tuple[PictureSource, ...]]:
        """A conversation with markers for its pictures, and the pictures."""
        messages, sources = with_markers(inputs.messages)
        if not sources:
            return inputs, ()
        if self._vision is None:
            refuse(sources)
        return replace(inputs, messages=messages), sources

    def prompt(
        self, inputs: ChatInput | TextInput, request: GenerationRequest
    ) -> Prompt:
        """Build one prompt; raises RequestError."""
        if isinstance(inputs, ChatInput):
            prompt = self._chat(inputs, request)
            param = "messages"
        else:
            prompt = self._text(inputs, request)
            param = "prompt"
        n_prompt = len(prompt.tokens)
        if n_prompt >= self._n_ctx:
            raise ContextExceeded(n_prompt=n_prompt, n_ctx=self._n_ctx, param=param)
        return prompt

    def _refuse_hopeless(self, text: str, param: str) -> None:
        """Refuse a text whose beginning alone fills the context many times over.

        Tokenising megabytes takes minutes (measured: 3 s for each of a hostile one),
        and nobody could be answered meanwhile.
        """
        n_head = min(HEAD_CHARS * self._n_ctx, MOST_UNBROKEN)
        if len(text) <= n_head:
            return
        with about(param):
            count = len(self._vocab.tokenize(text[:n_head]))
        if count > self._n_ctx:
            estimate = count * len(text) // n_head
            raise ContextExceeded(
                n_prompt=estimate, n_ctx=self._n_ctx, param=param, is_estimate=True
            )

    def _text(self, inputs: TextInput, request: GenerationRequest) -> Prompt:
        self._refuse_hopeless(_texts_in(inputs.prompt), "prompt")
        with about("prompt"):
            tokens = self._vocab.tokenize_prompt(inputs.prompt)
        if not tokens:
            start = self._vocab.bos if self._vocab.bos is not None else self._vocab.eos
            if start is None:
                message = "prompt is empty, and this model has no token to start from"
                raise RequestError(message, param="prompt")
            tokens = [start]
        constraint = None
        if request.constraint is not None:
            constraint = self._compiler.compile(request.constraint)
        text = inputs.prompt if isinstance(inputs.prompt, str) else ""
        return Prompt(
            tokens=tuple(tokens),
            text=text,
            constraint=constraint,
            verdict=_verdict(constraint, None),
        )

    def _chat(self, inputs: ChatInput, request: GenerationRequest) -> Prompt:
        tools = _offered(inputs)
        forced = inputs.tool_choice in {"required", "function"}
        now = self._now()
        inputs, sources = self._marked(inputs)
        rendered = self.render(inputs, _shown(inputs), now)
        self._refuse_hopeless(rendered.text, "messages")
        images: tuple[ImageSpan, ...] = ()
        with about("messages"):
            if self._vision is not None and sources:
                tokens, images = self._vision.tokens(
                    rendered.text, rendered.guard, sources
                )
            else:
                tokens = self._vocab.tokenize_guarded(rendered.text, rendered.guard)
        think_open = rendered.think_open
        constraint = None
        verdict = None
        may_be_called = _callable(inputs, tools)
        if forced:
            constraint, think_open = self._forced(inputs, may_be_called, rendered)
            verdict = self._verdict_of_calls(inputs, may_be_called)
        elif request.constraint is not None:
            constraint = self._constraint(inputs, request, rendered)
            tags = self._template.think_tags or tags_in(think_open or "")
            verdict = _verdict(constraint, tags)
        elif len(may_be_called) < len(tools):
            with contextlib.suppress(RequestError):
                constraint, _ = self._forced(
                    inputs, may_be_called, rendered, may_answer=True
                )
                verdict = self._verdict_of_calls(inputs, may_be_called)
        holds = request.constraint is not None
        output = OutputFormat(
            # Without tools no calls are read, but a family's channels still are.
            family=self._template.family,
            # A call of any other tool is text, as one of an unknown tool is.
            tools=may_be_called,
            think_open=think_open,
            has_begun=rendered.has_begun,
            think_tags=self._template.think_tags,
            # A shape of the client's own is held to its end, whatever calls are in it.
            parallel=inputs.parallel_tool_calls or (not forced and holds),
            split_reasoning=inputs.split_reasoning,
            used_ids=rendered.call_ids,
            forced=forced,
        )
        return Prompt(
            tokens=tuple(tokens),
            text=_text_of(rendered),
            images=images,
            output=output,
            constraint=constraint,
            verdict=verdict,
            rendered_at=now,
        )

    def render(
        self, inputs: ChatInput, tools: Sequence[Mapping[str, Any]], now: datetime
    ) -> Rendered:
        """Render a conversation; raises RequestError with the template's reason."""
        try:
            return self._template.render(
                inputs.messages,
                tools=tools,
                kwargs=inputs.template_kwargs,
                now=now,
            )
        except TemplateError as error:
            param = error.param or "messages"
            raise RequestError(str(error), param=param) from error

    def _constraint(
        self, inputs: ChatInput, request: GenerationRequest, rendered: Rendered
    ) -> Constraint | None:
        """What holds the answer; a block of thoughts before it is free."""
        spec = request.constraint
        if spec is None:
            return None
        tags, opener = self._template.think_tags, rendered.think_open
        if opener is not None:
            spec = replace(spec, prefix_think=tags or tags_in(opener), think_open=True)
        elif _may_think(inputs, rendered):
            spec = replace(spec, prefix_think=tags)
        return self._compiler.compile(spec)

    def _forced(
        self,
        inputs: ChatInput,
        tools: Sequence[Mapping[str, Any]],
        rendered: Rendered,
        *,
        may_answer: bool = False,
    ) -> tuple[Constraint, str | None]:
        """The grammar that holds a reply to calls, and the think block still open.

        With `may_answer` it may be text as well, and only its calls are held.
        """
        tags = self._template.think_tags
        think: Think = "none"
        if rendered.think_open is not None:
            tags = tags or tags_in(rendered.think_open)
            asked = inputs.template_kwargs.get("enable_thinking") is True
            wanted = asked or may_answer
            think = "open" if wanted else "closed"
        elif tags is not None and _may_think(inputs, rendered):
            think = "optional"
        try:
            grammar = forced_grammar(
                self._template.family,
                self._template.call_form,
                tools,
                parallel=inputs.parallel_tool_calls,
                think=think,
                think_tags=tags,
                special_token=self._vocab.special_token,
                may_answer=may_answer,
            )
        except ValueError as error:
            raise RequestError(str(error), param="tools") from error
        fields = {
            f"args_{i}": _parameters_field(inputs, tool) for i, tool in enumerate(tools)
        }
        constraint = self._compiler.compile_lark(grammar, param="tools", fields=fields)
        return constraint, rendered.think_open

    def _verdict_of_calls(
        self, inputs: ChatInput, tools: Sequence[Mapping[str, Any]]
    ) -> Verdict | None:
        """What judges the arguments of forced calls, as far as something has to."""
        is_held = self._template.family not in XML_FAMILIES
        calls: dict[str, Judge] = {}
        for tool in tools:
            function = tool["function"]
            judge = self._compiler.judge(
                json.dumps(function.get("parameters") or {}),
                param=_parameters_field(inputs, tool),
                strict=function.get("strict") is True,
                is_held=is_held,
            )
            if judge is not None:
                calls[function["name"]] = judge
        return Verdict(calls=calls) if calls else None

    def _markers(self, output: OutputFormat | None) -> tuple[str, ...]:
        if output is None:
            return ()
        tags = () if output.think_tags is None else output.think_tags
        return (*markers(output.family), *tags)


def _may_think(inputs: ChatInput, rendered: Rendered) -> bool:
    """Whether the model may open a block of thoughts.

    A model that was told not to think could otherwise open a second block after the
    closed one that such prompts end in.
    """
    is_off = inputs.template_kwargs.get("enable_thinking") is False
    return not (is_off or rendered.think_closed)


def _shown(inputs: ChatInput) -> tuple[Mapping[str, Any], ...]:
    """The tools that the model gets to see: all, unless none may be called.

    A choice among them is held by grammar alone: a prompt that lacked some would share
    no beginning with the conversation's other prompts.
    """
    return () if inputs.tool_choice == "none" else inputs.tools


def _offered(inputs: ChatInput) -> tuple[Mapping[str, Any], ...]:
    """The tools that the model may call."""
    if inputs.tool_choice == "none":
        return ()
    if inputs.tool_choice == "function":
        return tuple(t for t in inputs.tools if tool_name(t) == inputs.function_name)
    return inputs.tools


def _callable(
    inputs: ChatInput, offered: Sequence[Mapping[str, Any]]
) -> tuple[Mapping[str, Any], ...]:
    """Those of the tools that the model sees which it may call."""
    if inputs.allowed_tools is None:
        return tuple(offered)
    return tuple(t for t in offered if tool_name(t) in inputs.allowed_tools)


def _parameters_field(inputs: ChatInput, tool: Mapping[str, Any]) -> str:
    return f"tools[{inputs.tools.index(tool)}].function.parameters"


def _verdict(
    constraint: Constraint | None, tags: tuple[str, str] | None
) -> Verdict | None:
    """What judges an answer that has to match one schema."""
    if constraint is None or constraint.judge is None:
        return None
    think_end = None if tags is None else tags[1].strip()
    return Verdict(answer=constraint.judge, think_end=think_end)


def _text_of(rendered: Rendered) -> str:
    """Rendered text without the character that keeps users' markers plain."""
    if rendered.guard is None:
        return rendered.text
    return rendered.text.replace(rendered.guard, "")


def _texts_in(content: str | Sequence[int | str]) -> str:
    """The texts of a prompt without the ids among them, as one."""
    if isinstance(content, str):
        return content
    return "".join(part for part in content if isinstance(part, str))


_LAST_WORD = re.compile(r"\S+\s*\Z")


def without_last_word(
    messages: Sequence[Mapping[str, Any]],
) -> tuple[Mapping[str, Any], ...]:
    """A conversation whose last message lacks its last word."""
    *before, last = messages
    content = last.get("content")
    if isinstance(content, str):
        shorter: Any = _LAST_WORD.sub("", content)
    elif content and content[-1].get("type") == "text":
        tail = content[-1]
        cut = {**tail, "text": _LAST_WORD.sub("", tail["text"])}
        shorter = [*content[:-1], cut]
    else:
        shorter = content
    return (*before, {**last, "content": shorter})


def tool_name(tool: Mapping[str, Any]) -> str:
    """A tool definition's function name."""
    return str(tool["function"]["name"])


def check_receipt(request: GenerationRequest) -> None:
    """Raise RequestError for a request whose answer nobody could make again."""
    if request.stop_at_newline_after_s is not None:
        message = (
            "receipt cannot be combined with a time limit: where a clock ended an"
            " answer, running it again may not end"
        )
        raise RequestError(message, param="receipt")
    for inputs in request.inputs:
        if isinstance(inputs, ChatInput) and inputs.allowed_tools is not None:
            message = "receipt is not supported yet beside allowed_tools"
            raise UnsupportedFeature(message, param="receipt")
        if isinstance(inputs, ChatInput) and any(map(_has_image, inputs.messages)):
            message = "receipt is not supported yet for requests with images"
            raise UnsupportedFeature(message, param="receipt")


def _has_image(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    parts = content if isinstance(content, list | tuple) else ()
    kinds = (part.get("type") for part in parts if isinstance(part, Mapping))
    return bool(message.get("images")) or any("image" in str(kind) for kind in kinds)


def _as_read(
    inputs: ChatInput | TextInput, request: GenerationRequest, prompt: Prompt
) -> RequestAsRead | None:
    """What a receipt needs beyond the job, where one is asked for."""
    if not request.receipt:
        return None
    return RequestAsRead(
        inputs=inputs,
        constraint=request.constraint,
        rendered_at=prompt.rendered_at,
    )


def _choice(job: Job, number: int) -> Job:
    """Choice k draws as its own request with seed + k would."""
    if number == 0:
        return job
    seed = (job.sampling.seed + number) % SEED_LIMIT
    sampling = replace(job.sampling, seed=seed)
    return replace(job, index=job.index + number, sampling=sampling)
