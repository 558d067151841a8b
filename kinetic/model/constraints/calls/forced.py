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

from kinetic.model.chat.reply.arguments import declared_parameters, parameter_schema
from kinetic.model.chat.reply.calls import GPT_OSS
from kinetic.model.chat.reply.families import gpt_oss, lfm2, mistral, qwen_xml
from kinetic.model.constraints.calls.xml_values import Values, terminal, values_of

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
"""Their arguments are tags, each with a value that is held by itself: nothing that a
schema says of several at once is."""

NEWLINE = "\n"
MAX_CHARS = 8 << 20
"""Of a grammar: a schema that is referred to stands in it for each parameter."""
ARGUMENTS_RULE = re.compile(r"^(args_([0-9]+)\w*):", re.MULTILINE)
"""A rule that holds a client's schema, by its name, with the number of its tool."""

BARE_NAME = re.compile(r"[^\s<>\[\]{}()\"']+")
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
        Lark text. Schemas are copied into it as they are: llguidance refuses the
        keywords that it does not know, by name.

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
        self._n_chars = 0

    def rule(self, name: str, body: str, *, options: str = "") -> str:
        """Adds a rule and gives back its name."""
        self._n_chars += len(body)
        if self._n_chars > MAX_CHARS:
            raise ValueError("the tools' schemas are too large to hold a call to them")
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
        functions = []
        for i, function in enumerate(self._functions):
            schema = dict(_schema(function.get("parameters")))
            parts = [quoted(f"{qwen_xml.FUNCTION}{_bare(function['name'])}>\n")]
            for j, (name, is_required) in enumerate(_parameters(schema)):
                tag = quoted(f"{qwen_xml.PARAMETER}{name}>\n")
                try:
                    value = self._value(
                        values_of(parameter_schema(schema, name), schema), i, j
                    )
                except ValueError as error:
                    raise ValueError(
                        f"parameter {name!r} of {function['name']!r}: {error}"
                    ) from error
                parameter = rf'{tag} {value} "\n"'
                parts.append(parameter if is_required else f"({parameter})?")
            functions.append(" ".join([*parts, quoted(qwen_xml.FUNCTION_END)]))
        return self._lark.rule("function", " | ".join(functions))

    def _value(self, values: Values, i: int, j: int) -> str:
        """A value with its closing tag; `i` and `j` number function and parameter."""
        lark, tag = self._lark, qwen_xml.PARAMETER_END
        if values == Values():
            return lark.up_to("value", tag)
        end = lark.marker(tag)
        is_text = end == quoted(tag)
        forms = [f"{quoted(f'{text}{NEWLINE}')} {end}" for text in values.texts]
        terminals = [
            terminal(patterns, values.unlike, tag if is_text else "")
            for patterns in values.patterns
        ]
        if terminals:
            bare = lark.rule(f"TEXT_{i}_{j}", " | ".join(terminals))
            forms.append(bare if is_text else f"{bare} {end}")
        for k, schema in enumerate(values.schemas):
            written = json.dumps({**schema, "x-guidance": SPACING})
            name = lark.rule(f"args_{i}_{j}_{k}", f"%json {written}")
            forms.append(f"{name} {quoted(NEWLINE)} {end}")
        return lark.rule(f"value_{i}_{j}", " | ".join(forms))


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
