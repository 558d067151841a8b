"""Grammars that hold a reply to tool calls, in the template's own form.

Each grammar is llguidance Lark. Arguments follow their tool's JSON Schema through
`%json`, with one fixed spacing: where whitespace is free, a model may write it for
ever. The grammar ends right behind the calls, so that only the end of the generation is
allowed there. `calls` reads every text that a grammar accepts as calls.

A marker may be one special token of the vocabulary or ordinary text, and Lark tells the
two apart: `"<tool_call>"` in quotes is the text, spelled with ordinary tokens only, and
`<tool_call>` without quotes is the token of that name. Each would shut the other out;
hence the question to the vocabulary. As names work only for tokens in angle brackets,
tokens are written by their ids, as `<[151657]>`, which also serves `[TOOL_CALLS]`.

Source: llguidance's docs/syntax.md and docs/json_schema.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from kinetic.model.chat.reply.arguments import (
    allowed_types,
    declared_parameters,
    parameter_schema,
)
from kinetic.model.chat.reply.calls import GPT_OSS
from kinetic.model.chat.reply.families import gpt_oss, lfm2, mistral, qwen_xml
from kinetic.model.constraints.calls import tagged

Think = Literal["none", "closed", "optional", "open"]
SpecialToken = Callable[[str], int | None]
"""The id of the special token that a text is, None if it is none."""

SPACING = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
"""As templates write JSON, and as models learnt it."""

XML_FAMILIES = frozenset(["qwen3.5", "lfm3"])
"""Their arguments are tags, each with a value that is held to a schema of its own: what
a tool's schema says of several at once is not."""

BARE_NAME = re.compile(r"[^\s<>\[\]{}()\"']+")
VALUE_END = qwen_xml.PARAMETER_END.replace("/", r"\/") + r"[\s\x1c-\x1f]*<"
"""What may not stand in a raw value: more than the reader takes for its end."""
MAX_WRITTEN = 4 << 20
"""Of the schemas of all values in tags, each with what it refers to."""
NOTHING: tuple[Any, ...] = (False, {"not": {}})
"""Schemas that no value follows."""
PARAMETER_NAME = re.compile(rf"[^>\n]{{1,{qwen_xml.MAX_KEY}}}")
CLOSED = "additionalProperties"
OTHER_PROPERTIES = frozenset(
    [
        *("$ref", "allOf", "anyOf", "oneOf", "patternProperties", CLOSED),
        *("propertyNames", "minProperties", "unevaluatedProperties", "if"),
        *("dependentRequired", "dependentSchemas", "dependencies"),
    ]
)
"""Keywords by which an object may have properties that `properties` does not name."""


def forced_grammar(  # noqa: PLR0913 - the parts of a reply, each on its own
    family: str,
    call_form: str | None,
    tools: Sequence[Mapping[str, Any]],
    *,
    parallel: bool,
    think: Think,
    think_tags: tuple[str, str] | None,
    special_token: SpecialToken,
    may_answer: bool = False,
) -> str:
    """The grammar of a reply that calls one of the tools.

    Args:
        family: A family of `calls`, but for "plain".
        call_form: Mistral's form: "list" (also if None), "args" or "call_id".
        tools: The tools that may be called, at least one.
        parallel: Allow several calls; gpt-oss's form has one a reply all the same.
        think: What may stand before. "none": nothing. "optional": a whole block of
            reasoning. "closed": the prompt has left a block open, which is closed at
            once. "open": the prompt has left a block open, in which the model goes on
            until it closes it. gpt-oss's models may reason
            in their own channel whatever this says.
        think_tags: The template's tags; needed unless `think` is "none".
        special_token: Tells whether a marker is a token.
        may_answer: Text may stand in place of the calls, or before them: only calls of
            other tools are kept out. Needs a form whose calls begin with a token, and
            think tags that are tokens too.

    Returns:
        Lark text. Schemas of JSON are copied into it as they are: llguidance refuses
        the keywords that it does not know, by name.

    Raises:
        ValueError: There is no tool or no such form, or a name cannot be written in it,
            or text cannot be told from calls by a token.
    """
    if not tools:
        raise ValueError("a reply cannot be held to calls without tools")
    lark = _Lark(special_token)
    functions = [tool["function"] for tool in tools]
    calls = _Calls(lark, functions, parallel=parallel).of(family, call_form)
    if family == GPT_OSS:
        before = _analysis(lark)
    elif think == "none":
        before = ""
    elif think_tags is None:
        raise ValueError(f"think {think!r} needs the template's tags")
    else:
        before = _reasoning(lark, think, think_tags)
    if may_answer:
        calls = f"{_answer(lark, family, think_tags)} ({calls})?"
    lark.rule("start", f"{before} {calls}")
    return lark.text()


class _Lark:
    """A grammar in the making."""

    def __init__(self, special_token: SpecialToken) -> None:
        self._special_token = special_token
        self._rules: dict[str, str] = {}

    def rule(self, name: str, body: str, *, options: str = "") -> str:
        """Adds a rule and gives back its name."""
        self._rules[name + options] = body
        return name

    def marker(self, text: str) -> str:
        """A marker, as the token that it is, or as text."""
        token = self._special_token(text)
        return quoted(text) if token is None else f"<[{token}]>"

    def are_tokens(self, *markers: str) -> bool:
        """Whether each of these is a token of its own."""
        return all(self._special_token(m.strip()) is not None for m in markers)

    def up_to(self, name: str, marker: str) -> str:
        """Any text up to the first place where the marker stands, and the marker."""
        if self._special_token(marker) is None:
            return self.rule(name, f"/(?s:.*){_escaped(marker)}/", options="[lazy]")
        # Spelled out, the marker would end the text for whoever reads text.
        text = self.rule(name.upper(), _without(marker))
        return f"{text} {self.marker(marker)}"

    def closer(self, marker: str) -> list[str]:
        """A closing tag on a line of its own, and what begins the next tag."""
        token = self._special_token(marker)
        if token is None:
            return [quoted(f"\n{marker}\n<")]
        return [quoted("\n"), f"<[{token}]>", quoted("\n<")]

    def text(self) -> str:
        """The whole grammar."""
        return "".join(f"{name}: {body}\n" for name, body in self._rules.items())


class _Calls:
    """The calls of one reply, in the form of each family."""

    def __init__(
        self, lark: _Lark, functions: Sequence[Mapping[str, Any]], *, parallel: bool
    ) -> None:
        self._lark = lark
        self._functions = functions
        self._parallel = parallel
        self._raws: dict[str, str] = {}
        """Rules of raw values by their texts' terminals."""
        self._n_written = 0

    def of(self, family: str, call_form: str | None) -> str:
        """What the reply to be consists of."""
        match family, call_form:
            case _ if family in XML_FAMILIES:
                return self._tagged(self._xml())
            case "hermes", _:
                return self._tagged(self._objects("arguments"))
            case "lfm2", _:
                return self._listed(lfm2.CALLS, self._lark.marker(lfm2.CALLS_END))
            case "mistral", "list" | None:
                return self._listed(mistral.CALLS, "")
            case "mistral", "args" | "call_id":
                return self._named(has_id=call_form == "call_id")
            case "llama3", _:
                return self._several(self._objects("parameters"), "; ")
            case "generic", _:
                return self._several(self._objects("arguments"), "\n")
            case "gpt-oss", _:
                return self._channel()
            case _:
                raise ValueError(f"family {family!r} has no form {call_form!r}")

    def _several(self, call: str, separator: str) -> str:
        return f"{call} ({quoted(separator)} {call})*" if self._parallel else call

    def _arguments(self) -> list[tuple[str, str]]:
        """Each function's name and the rule of its arguments."""
        return [
            (
                function["name"],
                self._lark.rule(f"args_{i}", _arguments(function.get("parameters"))),
            )
            for i, function in enumerate(self._functions)
        ]

    def _objects(self, key: str) -> str:
        calls = []
        for name, arguments in self._arguments():
            head = f'{{"name": {json.dumps(name, ensure_ascii=False)}, "{key}": '
            calls.append(f'{quoted(head)} {arguments} "}}"')
        return self._lark.rule("call", " | ".join(calls))

    def _tagged(self, payload: str) -> str:
        opener, closer = map(self._lark.marker, (qwen_xml.CALL, qwen_xml.CALL_END))
        body = rf'{opener} "\n" {payload} "\n" {closer}'
        return self._several(self._lark.rule("tagged", body), "\n")

    def _listed(self, marker: str, end: str) -> str:
        calls = self._several(self._objects("arguments"), ", ")
        return f'{self._lark.marker(marker)} "[" {calls} "]" {end}'

    def _named(self, *, has_id: bool) -> str:
        lark = self._lark
        call_id = lark.marker(mistral.CALL_ID) + " /[A-Za-z0-9]{9}/" if has_id else ""
        marker = lark.marker(mistral.ARGUMENTS)
        calls = [
            f"{quoted(_bare(name))} {call_id} {marker} {arguments}"
            for name, arguments in self._arguments()
        ]
        call = lark.rule("call", " | ".join(calls))
        body = f"{lark.marker(mistral.CALLS)} {call}"
        return lark.rule("named", body) + ("+" if self._parallel else "")

    def _channel(self) -> str:
        lark = self._lark
        channel, constrain, message = map(
            lark.marker, (gpt_oss.CHANNEL, gpt_oss.CONSTRAIN, gpt_oss.MESSAGE)
        )
        calls = [
            f'{quoted(_bare(name) + " ")} {constrain} "json" {message} {arguments}'
            for name, arguments in self._arguments()
        ]
        call = lark.rule("call", " | ".join(calls))
        head = f"commentary {gpt_oss.RECIPIENT_KEY}{gpt_oss.FUNCTIONS}"
        return f"{channel} {quoted(head)} {call}"

    def _xml(self) -> str:
        return self._lark.rule(
            "function",
            " | ".join(
                self._lark.rule(f"args_{i}", self._function(function))
                for i, function in enumerate(self._functions)
            ),
        )

    def _function(self, function: Mapping[str, Any]) -> str:
        """One function's tags; each "<" is written by what stands before it."""
        root = dict(_schema(function.get("parameters")))
        parts = [quoted(f"{qwen_xml.FUNCTION}{_bare(function['name'])}>\n<")]
        for name, is_required in _parameters(root):
            schema = parameter_schema(root, name)
            if not is_required and schema in NOTHING:
                continue
            tag = quoted(f"{qwen_xml.PARAMETER[1:]}{name}>\n")
            parameter = f"{tag} ({self._value(schema, root)})"
            parts.append(parameter if is_required else f"({parameter})?")
        return " ".join([*parts, quoted(qwen_xml.FUNCTION_END[1:])])

    def _value(self, schema: Any, root: Mapping[str, Any]) -> str:
        """A value, its closing tag, and the beginning of the next tag."""
        types = allowed_types(schema, root)
        found = tagged.value(
            True if schema is None else schema, root, types, end=VALUE_END
        )
        options = []
        closer = self._lark.closer(qwen_xml.PARAMETER_END)
        if found.raw:
            if found.ends_early:
                # The reader leaves out one newline at the end.
                end = self._lark.marker(qwen_xml.PARAMETER_END)
                body, raw_closer = rf"{found.raw} /\n?/", [end, quoted("\n<")]
            else:
                body, raw_closer = found.raw, closer
            options.append(self._raw(body, raw_closer))
        if found.schema is not None:
            inner = found.schema
            if isinstance(inner, bool):
                inner = {} if inner else {"not": {}}
            text = json.dumps({**inner, "x-guidance": SPACING})
            self._n_written += len(text)
            if self._n_written > MAX_WRITTEN:
                raise ValueError(
                    f"the parameters' schemas have more than {MAX_WRITTEN} characters"
                    " where each holds what it refers to"
                )
            options.append(" ".join([f"%json {text}", *closer]))
        return " | ".join(options)

    def _raw(self, body: str, closer: Sequence[str]) -> str:
        if body not in self._raws:
            name = f"value_{len(self._raws)}"
            first = closer[0]
            is_token = first.startswith("<[")
            # The tag that ends a text is one piece with it: nothing else tells where.
            self._lark.rule(name.upper(), f"({body}) {'' if is_token else first}")
            is_lazy = not any(piece.startswith("<[") for piece in closer)
            self._lark.rule(name, name.upper(), options="[lazy]" if is_lazy else "")
            self._raws[body] = " ".join([name, *closer[not is_token :]])
        return self._raws[body]


OPENERS = {
    "qwen3.5": qwen_xml.CALL,
    "lfm3": qwen_xml.CALL,
    "hermes": qwen_xml.CALL,
    "lfm2": lfm2.CALLS,
    "mistral": mistral.CALLS,
}
"""What the calls of a family begin with, if it is nothing that text may hold."""


def _answer(lark: _Lark, family: str, think_tags: tuple[str, str] | None) -> str:
    """Text without a call: no token stands in it, and the marker is not spelled out."""
    opener = OPENERS.get(family)
    if opener is None or not lark.are_tokens(opener, *(think_tags or ())):
        raise ValueError(f"family {family!r} has no token that calls begin with")
    return lark.rule("ANSWER", _without(opener))


def _reasoning(lark: _Lark, think: Think, tags: tuple[str, str]) -> str:
    opener, closer = (tag.strip() for tag in tags)
    gap = lark.rule("gap", r'("\n" "\n"?)?')
    if think == "closed":
        return f"{gap} {lark.marker(closer)} {gap}"
    thought = lark.up_to("thought", closer)
    if think == "open":
        return f"{thought} {gap}"
    return f"({lark.marker(opener)} {thought} {gap})?"


def _analysis(lark: _Lark) -> str:
    """A message of reasoning, which may stand before gpt-oss's call."""
    channel, message, end, start = map(
        lark.marker,
        (gpt_oss.CHANNEL, gpt_oss.MESSAGE, gpt_oss.ENDS[0], gpt_oss.START),
    )
    # Any marker spelled out in it would end it for whoever reads text.
    thought = lark.rule("ANALYSIS", _without("<|"))
    body = f'{channel} "{gpt_oss.ANALYSIS}" {message} {thought} {end}'
    return f'({body} {start} "assistant")?'


def _arguments(parameters: Any) -> str:
    """The rule of a tool's arguments; `{}` alone if it takes none.

    Properties that a schema does not name are allowed by JSON Schema and asked for by
    nobody: they are left out, as a model would go on making them up.
    """
    schema = {key: value for key, value in _schema(parameters) if value is not None}
    names = schema.get("properties", {})
    required = schema.get("required", [])
    others = OTHER_PROPERTIES & schema.keys()
    if not names and not required:
        if not others or (others == {CLOSED} and schema[CLOSED] is False):
            return quoted("{}")
    elif not others and all(name in names for name in required):
        schema[CLOSED] = False
    schema.setdefault("type", "object")
    schema["x-guidance"] = SPACING
    return f"%json {json.dumps(schema)}"


def _schema(parameters: Any) -> Iterable[tuple[str, Any]]:
    return parameters.items() if isinstance(parameters, Mapping) else ()


def _parameters(parameters: Any) -> list[tuple[str, bool]]:
    """A tool's parameters by name, each with whether it is required."""
    found = declared_parameters(parameters)
    for name in found:
        if not PARAMETER_NAME.fullmatch(name):
            raise ValueError(f"parameter {name!r} cannot be written as a tag")
    return list(found.items())


def quoted(text: str) -> str:
    """A Lark string, which is written as JSON writes one."""
    return json.dumps(text, ensure_ascii=False)


def _bare(name: str) -> str:
    """A function's name where nothing but a marker ends it."""
    if not BARE_NAME.fullmatch(name):
        raise ValueError(f"function {name!r} cannot be written in this model's calls")
    return name


def _without(text: str) -> str:
    """A terminal for any text that does not hold `text`."""
    return f"/(?s:.*)/ & ~/(?s:.*){_escaped(text)}(?s:.*)/"


def _escaped(text: str) -> str:
    return re.escape(text).replace("/", r"\/")
