"""A model's chat template: conversations in, prompt texts out.

    messages -> read (normalise) -> markers broken up (guard) -> arranged (arrange)
             -> rendered (sandbox) -> Rendered

What the template can take is probed once, when it is loaded (`probe`). Pure: no clock,
no threads, no engine. Any thread may render.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from kinetic.model.chat.template.capabilities import capabilities_of
from kinetic.model.chat.template.guard import Guard, all_texts, free_characters
from kinetic.model.chat.template.metering import Fault
from kinetic.model.chat.template.normalise import (
    TemplateError,
    Turn,
    read_tools,
    read_turns,
    short_id,
)
from kinetic.model.chat.template.pairing import paired
from kinetic.model.chat.template.printer import Printer, Request
from kinetic.model.chat.template.probe import Profile, probe_template
from kinetic.model.chat.template.sandbox import Sandbox
from kinetic.model.chat.template.size import check_size
from kinetic.model.chat.template.treatment import Marks
from kinetic.model.chat.thinking import ThinkTags, open_block, open_block_in_answer

__all__ = ["CHATML", "ChatTemplate", "Rendered", "TemplateError"]

CHATML: Final = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Used for models without a template of their own."""

_COMMENT: Final = re.compile(r"\{#.*?#\}", re.DOTALL)

_RESERVED: Final = frozenset(
    (
        "add_generation_prompt",
        "bos_token",
        "eos_token",
        "functions",
        "messages",
        "tools",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A prompt, still as text."""

    text: str
    """Ends where the model goes on. May begin with the BOS token's text."""
    think_open: str | None
    """The opening tag of the thinking block that the prompt ends in, if it does."""
    think_closed: bool
    """Whether the model's thoughts are over: a block was closed where the prompt ends,
    or the answer has begun."""
    has_begun: bool
    """Whether the prompt ends inside the answer's own text."""
    call_ids: frozenset[str]
    """Ids of the conversation's calls, as clients and the model know them."""
    guard: str | None
    """A private character inside every marker that a client wrote; None without any.

    Whoever tokenises the text splits it at this character and drops it, so that the
    halves become ordinary tokens.
    """


@dataclass(frozen=True, slots=True)
class _Variant:
    """One of a model's templates, probed."""

    printer: Printer
    profile: Profile
    guard: Guard
    is_empty: bool


class ChatTemplate:
    """Prints conversations for one model.

    Args:
        source: The model's template; None for ChatML.
        tool_use_source: A second template for requests with tools.
        bos_token: Text of the token that begins a sequence; "" if there is none.
        eos_token: Text of the token that ends one; "" if there is none.
        guarded: Texts of the vocabulary's control tokens.
        structural: Other marker texts: of the template, of the call format, of images.

    Raises:
        TemplateError: A template does not compile, or never ends.
    """

    def __init__(
        self,
        source: str | None,
        *,
        tool_use_source: str | None = None,
        bos_token: str = "",
        eos_token: str = "",
        guarded: Sequence[str] = (),
        structural: Sequence[str] = (),
    ) -> None:
        constants = {"bos_token": bos_token, "eos_token": eos_token}
        markers = (tuple(guarded), tuple(structural))
        self.source: str = CHATML if source is None else source
        """The template that is used."""
        self.is_own: bool = source is not None
        """Whether it is the model's, or one given in its place; else ChatML."""
        self._plain = _load(self.source, constants, markers)
        self._with_tools = self._plain
        if tool_use_source is not None:
            self._with_tools = _load(tool_use_source, constants, markers)
        self._capabilities = capabilities_of(self._plain.printer)
        treatment = self._with_tools.profile.treatment
        self.family: str = treatment.family
        """"qwen3.5", "hermes", "lfm2", "llama3", "mistral", "gpt-oss" or "generic"."""
        self.call_form: str | None = treatment.call_form
        """For Mistral "list", "args" or "call_id"; else None."""
        self.think_tags: ThinkTags | None = (
            self._plain.profile.think_tags or self._with_tools.profile.think_tags
        )
        """The opening and the closing tag of the model's thoughts."""

    @property
    def is_empty(self) -> bool:
        """Whether the template prints nothing, of no conversation without tools."""
        return self._plain.is_empty

    @property
    def knows_think(self) -> bool:
        """Whether the template knows a thinking block."""
        return self.think_tags is not None

    def capabilities(self) -> dict[str, bool]:
        """Return what llama-server calls `chat_template_caps`, keys sorted."""
        return dict(self._capabilities)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        kwargs: Mapping[str, Any] = {},
        now: datetime,
        add_generation_prompt: bool = True,
    ) -> Rendered:
        """Print a conversation.

        If the last message is an assistant's text, the prompt ends in that text, for
        the model to go on with it.

        Args:
            messages: OpenAI messages, checked by the schema. An image is a part
                `{"type": "image", "marker": text}`; the text is printed in its place.
            tools: OpenAI tool definitions.
            kwargs: Further template variables, `chat_template_kwargs` of the request.
            now: What the template takes for the present.
            add_generation_prompt: Whether the answer is to be begun; without, the
                conversation is printed as it is, a last assistant message with its end.

        Raises:
            TemplateError: The conversation cannot be printed; the text says why.
        """
        variant = self._with_tools if tools else self._plain
        check_size(tools, "tools", param="tools")
        check_size(kwargs, "chat_template_kwargs", param="chat_template_kwargs")
        if variant.is_empty:
            raise TemplateError(
                "the model's chat template is empty, so no messages can be printed:"
                " start the server with --chat-template-file",
                param="messages",
            )
        try:
            return _render(
                variant,
                _Conversation(
                    turns=_with_prefill(
                        paired(read_turns(messages, joiner=variant.profile.joiner)),
                        is_wanted=add_generation_prompt,
                    ),
                    tools=read_tools(tools),
                    variables=_checked(kwargs, variant.printer),
                    now=now,
                    has_generation_prompt=add_generation_prompt,
                ),
            )
        except Fault as fault:
            raise TemplateError(str(fault), param="messages") from fault
        except RecursionError as error:
            raise TemplateError(
                "messages, tools or chat_template_kwargs nest too deep"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conversation:
    turns: tuple[Turn, ...]
    tools: tuple[dict[str, Any], ...]
    variables: dict[str, Any]
    now: datetime
    has_generation_prompt: bool


def _load(
    source: str,
    constants: Mapping[str, str],
    markers: tuple[tuple[str, ...], tuple[str, ...]],
) -> _Variant:
    try:
        printer = Printer(Sandbox(source), constants)
        profile = probe_template(printer, source)
    except Fault as fault:
        raise TemplateError(str(fault)) from fault
    guard = Guard(*markers, profile.think_tags or ())
    is_empty = not _COMMENT.sub("", source).strip()
    return _Variant(printer, profile, guard, is_empty)


def _with_prefill(turns: tuple[Turn, ...], *, is_wanted: bool) -> tuple[Turn, ...]:
    last = turns[-1]
    if not is_wanted or last.role != "assistant" or last.calls:
        return turns
    return (*turns[:-1], replace(last, is_prefill=True))


def _checked(kwargs: Mapping[str, Any], printer: Printer) -> dict[str, Any]:
    """Return the client's variables with the names other templates use for them."""
    for name in kwargs:
        if name in _RESERVED or name in printer.sandbox.global_names:
            raise TemplateError(
                f"chat_template_kwargs.{name} is set by the server and cannot be given",
                param="chat_template_kwargs",
            )
    switch = kwargs.get("enable_thinking")
    if switch is not None and not isinstance(switch, bool):
        raise TemplateError(
            "chat_template_kwargs.enable_thinking must be true or false, not"
            f" {switch!r}",
            param="chat_template_kwargs",
        )
    variables = dict(kwargs)
    for name, others in _SYNONYMS.items():
        for other, is_negated in others:
            if kwargs.get(name) is not None:
                value = kwargs[name]
                variables.setdefault(other, not value if is_negated else value)
    return variables


_SYNONYMS: Final = {
    "enable_thinking": (("thinking", False),),
    "reasoning_effort": (("reasoning_strength", False),),
    "preserve_reasoning": (
        ("preserve_thinking", False),
        ("keep_past_thinking", False),
        ("clear_thinking", True),
        ("truncate_history_thinking", True),
        ("drop_thinking", True),
    ),
}
"""Other templates' names for a variable, and whether they mean its opposite.

Source: llama.cpp sets the same ones (but `thinking` and `keep_past_thinking`).
"""


def _render(variant: _Variant, conversation: _Conversation) -> Rendered:
    calls = [call.arguments for turn in conversation.turns for call in turn.calls]
    check_size(calls, "the arguments of the messages' calls", param="messages")
    texts = (
        *(text for turn in conversation.turns for text in _texts_of(turn)),
        *all_texts(conversation.tools),
        *all_texts(conversation.variables),
    )
    guard, splice, end = free_characters(texts, 3)
    turns = variant.guard.apply(conversation.turns, guard)
    request = Request(
        turns=turns,
        tools=tuple(variant.guard.apply_to_values(conversation.tools, guard)),
        variables=variant.guard.apply_to_values(conversation.variables, guard),
        marks=Marks(splice=splice, end=end),
        now=conversation.now,
        has_generation_prompt=conversation.has_generation_prompt,
    )
    text, think_open = _print(variant, request)
    tags = variant.profile.think_tags
    has_begun = turns[-1].is_prefill and bool(turns[-1].text)
    is_over = tags is not None and text.rstrip().endswith(tags[1])
    return Rendered(
        text=text,
        think_open=think_open,
        think_closed=think_open is None and (has_begun or is_over),
        has_begun=think_open is None and has_begun,
        call_ids=_call_ids(conversation.turns),
        guard=guard if guard in text else None,
    )


def _call_ids(turns: Sequence[Turn]) -> frozenset[str]:
    given = {call.id for turn in turns for call in turn.calls}
    given |= {turn.call_id for turn in turns if turn.call_id is not None}
    return frozenset(given | set(map(short_id, given)))


def _print(variant: _Variant, request: Request) -> tuple[str, str | None]:
    tags = variant.profile.think_tags
    last = request.turns[-1]
    if not last.is_prefill:
        text = variant.printer.print_all(request, variant.profile.treatment)
        return text, open_block(text, tags)
    try:
        text = variant.printer.print_all(request, variant.profile.treatment)
    except TemplateError:
        if len(request.turns) == 1:
            raise
        text = _append(variant, request)
    answer = (last.text or last.reasoning).lstrip()
    head = text[: len(text) - len(answer)] if text.endswith(answer) else text
    return text, open_block_in_answer(head, answer if head != text else "", tags)


def _append(variant: _Variant, request: Request) -> str:
    """Print all but the last message, and add its text after the generation prompt."""
    *earlier, last = request.turns
    shortened = replace(request, turns=tuple(earlier))
    head = variant.printer.print_all(shortened, variant.profile.treatment)
    tags = variant.profile.think_tags
    if last.text and open_block(head, tags) and tags is not None:
        head += f"{last.reasoning}\n{tags[1]}\n\n"
    return head + (last.text or last.reasoning)


def _texts_of(turn: Turn) -> Sequence[str]:
    calls = [
        text
        for call in turn.calls
        for text in (call.name, call.source, *all_texts(call.arguments))
    ]
    return (turn.role, turn.text, turn.reasoning, turn.name or "", *calls)
