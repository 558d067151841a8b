import itertools
import json
import random
import re
from collections.abc import Iterable
from typing import Any

import pytest
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from kinetic.model.chat.reply.calls import OutputFormat
from kinetic.model.constraints.calls.forced import OPENERS, forced_grammar
from tests.model.chat.output_cases import read, tools

N_BYTES = 256
END = N_BYTES
THINK = ("<think>", "</think>")
SPECIAL_TEXTS = (
    "<tool_call>",
    "</tool_call>",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "<|channel|>",
    "<|constrain|>",
    "<|message|>",
    "<|start|>",
    "<|end|>",
    *THINK,
)
SPECIAL = {text: END + 1 + i for i, text in enumerate(SPECIAL_TEXTS)}
ORDINARY: dict[str, int] = {}
FORMS = (
    ("qwen3.5", None),
    ("lfm3", None),
    ("hermes", None),
    ("lfm2", None),
    ("mistral", "list"),
    ("mistral", "args"),
    ("mistral", "call_id"),
    ("llama3", None),
    ("generic", None),
    ("gpt-oss", None),
)
XML_FAMILIES = ("qwen3.5", "lfm3")
by_form = pytest.mark.parametrize(("family", "form"), FORMS)
by_json_form = pytest.mark.parametrize(
    ("family", "form"), [form for form in FORMS if form[0] not in XML_FAMILIES]
)
by_form_with_tags = pytest.mark.parametrize(
    ("family", "form"), [form for form in FORMS if form[0] != "gpt-oss"]
)


class _Bytes:
    """A vocabulary of all bytes, an end, and markers that are one token each."""

    eos_token_id = END
    bos_token_id = None
    tokens = (
        *(bytes([byte]) for byte in range(N_BYTES)),
        b"\xff<|eos|>",
        *(b"\xff" + text.encode() for text in SPECIAL_TEXTS),
    )
    special_token_ids = tuple(range(END, len(tokens)))

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


TOKENIZER = LLTokenizer(TokenizerWrapper(_Bytes()))


def tool(name: str, parameters: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "parameters": parameters, **more},
    }


TOOLS = (
    tool("ping", {"type": "object", "properties": {}}),
    tool(
        "pin",
        {
            "type": "object",
            "properties": {
                "town": {"type": "string", "maxLength": 6},
                "days": {"enum": [1, 20]},
                "sure": {"type": "boolean"},
                "tags": {
                    "type": "array",
                    "items": {"type": "string", "maxLength": 3},
                    "maxItems": 2,
                },
                "at": {
                    "type": "object",
                    "properties": {
                        "x": {"type": "integer", "minimum": 0, "maximum": 99}
                    },
                    "required": ["x"],
                    "additionalProperties": False,
                },
            },
            "required": ["town", "at"],
        },
    ),
)


def grammar(family: str, form: str | None, **changes: Any) -> str:
    options: dict[str, Any] = {
        "parallel": False,
        "think": "none",
        "think_tags": THINK,
        "special_token": SPECIAL.get,
    }
    chosen = changes.pop("tools", TOOLS)
    return forced_grammar(family, form, chosen, **(options | changes))


def matcher(text: str) -> LLMatcher:
    found = LLMatcher(TOKENIZER, text)
    assert not found.is_error(), found.get_error()
    return found


MARKER = re.compile("|".join(map(re.escape, SPECIAL_TEXTS)))


def tokenize(text: str, special: Iterable[str] = SPECIAL) -> list[int]:
    ids: list[int] = []
    last = 0
    for match in MARKER.finditer(text):
        if match[0] in special:
            ids += [*text[last : match.start()].encode(), SPECIAL[match[0]]]
            last = match.end()
    return [*ids, *text[last:].encode()]


def accepts(lark: str, text: str, special: Iterable[str] = SPECIAL) -> bool:
    """True if the text is a whole reply."""
    found = matcher(lark)
    ids = tokenize(text, special)
    return found.try_consume_tokens(ids) == len(ids) and found.is_accepting()


PIN_JSON = '{"town": "Oslo", "at": {"x": 3}}'
PIN_XML = '<function=pin>\n<parameter=town>\nOslo\n</parameter>\n<parameter=at>\n{"x": 3}\n</parameter>\n</function>'
RIGHT = {
    ("qwen3.5", None): (
        f"<tool_call>\n{PIN_XML}\n</tool_call>",
        "<tool_call>\n<function=ping>\n</function>\n</tool_call>",
    ),
    ("hermes", None): (
        f'<tool_call>\n{{"name": "pin", "arguments": {PIN_JSON}}}\n</tool_call>',
        '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>',
    ),
    ("lfm2", None): (
        f'<|tool_call_start|>[{{"name": "pin", "arguments": {PIN_JSON}}}]<|tool_call_end|>',
        '<|tool_call_start|>[{"name": "ping", "arguments": {}}]<|tool_call_end|>',
    ),
    ("mistral", "list"): (
        f'[TOOL_CALLS][{{"name": "pin", "arguments": {PIN_JSON}}}]',
        '[TOOL_CALLS][{"name": "ping", "arguments": {}}]',
    ),
    ("mistral", "args"): (
        f"[TOOL_CALLS]pin[ARGS]{PIN_JSON}",
        "[TOOL_CALLS]ping[ARGS]{}",
    ),
    ("mistral", "call_id"): (
        f"[TOOL_CALLS]pin[CALL_ID]aB3dE6gH9[ARGS]{PIN_JSON}",
        "[TOOL_CALLS]ping[CALL_ID]000000000[ARGS]{}",
    ),
    ("llama3", None): (
        f'{{"name": "pin", "parameters": {PIN_JSON}}}',
        '{"name": "ping", "parameters": {}}',
    ),
    ("generic", None): (
        f'{{"name": "pin", "arguments": {PIN_JSON}}}',
        '{"name": "ping", "arguments": {}}',
    ),
    ("gpt-oss", None): (
        f"<|channel|>commentary to=functions.pin <|constrain|>json<|message|>{PIN_JSON}",
        "<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{}",
    ),
}
RIGHT["lfm3", None] = RIGHT["qwen3.5", None]


@by_form
def test_calls_in_the_templates_form_are_accepted_and_read(
    family: str, form: str | None
):
    lark = grammar(family, form)
    pin, ping = RIGHT[family, form]
    assert accepts(lark, pin)
    assert accepts(lark, ping)
    fmt = OutputFormat(family=family, tools=TOOLS, forced=True)
    (call,) = read(fmt, pin).calls
    assert (call.name, json.loads(call.arguments)) == ("pin", json.loads(PIN_JSON))
    (call,) = read(fmt, ping).calls
    assert (call.name, call.arguments) == ("ping", "{}")


@by_form
def test_anything_else_is_not(family: str, form: str | None):
    lark = grammar(family, form)
    pin, ping = RIGHT[family, form]
    assert not accepts(lark, "Hello")
    assert not accepts(lark, "")
    assert not accepts(lark, f"Sure. {pin}")
    assert not accepts(lark, f"{pin} Done.")
    assert not accepts(lark, f"{pin}{ping}")
    assert not accepts(lark, ping.replace("ping", "pong"))
    assert not accepts(lark, pin.replace("town", "city"))
    assert not accepts(lark, pin.replace('"at": {"x": 3}', "").replace("=at>", "=on>"))


@by_json_form
def test_arguments_follow_their_schema(family: str, form: str | None):
    lark = grammar(family, form)
    pin, _ = RIGHT[family, form]
    for wrong in (
        '{"town": 7, "at": {"x": 3}}',
        '{"town": "Trondheim", "at": {"x": 3}}',
        '{"town": "Oslo", "at": {"x": 100}}',
        '{"town": "Oslo", "days": 3, "at": {"x": 3}}',
        '{"town": "Oslo", "at": {"x": 3}, "more": 1}',
        '{"town": "Oslo"}',
        "{}",
    ):
        assert not accepts(lark, pin.replace(PIN_JSON, wrong)), wrong
    full = (
        '{"town": "\\"ö", "days": 20, "sure": true, "tags": ["a", ""], "at": {"x": 0}}'
    )
    assert accepts(lark, pin.replace(PIN_JSON, full))


@by_form
def test_after_one_call_only_the_end_may_come(family: str, form: str | None):
    found = matcher(grammar(family, form))
    for token in tokenize(RIGHT[family, form][0]):
        assert not found.is_accepting()
        assert found.consume_token(token)
    assert found.is_accepting()
    assert allowed(found) in ([END], [])


@by_form
def test_several_calls_are_accepted_where_they_are_wanted(
    family: str, form: str | None
):
    lark = grammar(family, form, parallel=True)
    pin, ping = RIGHT[family, form]
    together = {
        "lfm2": pin.replace("]<|", ", {}]<|").replace(
            "{}]", '{"name": "ping", "arguments": {}}]'
        ),
        "mistral": pin + ping if form != "list" else f"{pin[:-1]}, {ping[13:]}",
        "llama3": f"{pin}; {ping}",
    }.get(family, f"{pin}\n{ping}")
    assert accepts(lark, pin)
    assert accepts(lark, together) is (family != "gpt-oss")
    if family != "gpt-oss":
        fmt = OutputFormat(family=family, tools=TOOLS, parallel=True, forced=True)
        assert [call.name for call in read(fmt, together).calls] == ["pin", "ping"]
        assert not accepts(grammar(family, form), together)


@by_form
def test_whitespace_is_where_the_template_has_it(family: str, form: str | None):
    """Anywhere else, but in text, none is accepted: it could go on for ever."""
    text = RIGHT[family, form][0]
    values = re.compile(
        r"(?s:(?<=town>\n).+?</parameter)|(?s:(?<=at>\n).+?</parameter)|Oslo"
    )
    spans = [found.span() for found in values.finditer(text)]
    free = {i for start, end in spans for i in range(start, end + 1)}
    found = matcher(grammar(family, form))
    i = 0
    for token in tokenize(text):
        if i not in free:
            blanks = set(allowed(found)) & set(b" \n\t\r")
            assert blanks <= {token}, text[:i]
        assert found.consume_token(token)
        i += 1 if token < END else len(SPECIAL_TEXTS[token - END - 1])


@pytest.mark.parametrize(
    "parameters",
    [
        None,
        {},
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": None, "required": None},
        {"properties": {}, "required": [], "additionalProperties": False},
    ],
)
@by_form
def test_a_tool_without_arguments_gets_an_empty_object(
    family: str, form: str | None, parameters: Any
):
    now = (tool("now", parameters, description=None, strict=None),)
    for definitions in (now, ({"type": "function", "function": {"name": "now"}},)):
        lark = grammar(family, form, tools=definitions)
        text = RIGHT[family, form][1].replace("ping", "now")
        assert accepts(lark, text)
        for wrong in ("{ }", '{"a": 1}', "null", '""'):
            assert "{}" not in text or not accepts(lark, text.replace("{}", wrong))
        (call,) = read(OutputFormat(family=family, tools=definitions), text).calls
        assert call.arguments == "{}"


def test_a_map_of_any_names_may_hold_any():
    anything = (tool("ping", {"additionalProperties": {"type": "integer"}}),)
    lark = grammar("llama3", None, tools=anything)
    assert accepts(lark, '{"name": "ping", "parameters": {"a": 1, "b": 2}}')
    assert not accepts(lark, '{"name": "ping", "parameters": {"a": "x"}}')


def test_a_schema_may_refer_to_itself():
    tree = {
        "$defs": {"t": {"type": "object", "properties": {"t": {"$ref": "#/$defs/t"}}}},
        "properties": {"t": {"$ref": "#/$defs/t"}},
    }
    lark = grammar("hermes", None, tools=(tool("ping", tree),))
    text = RIGHT["hermes", None][1].replace("{}", '{"t": {"t": {"t": {}}}}')
    assert accepts(lark, text)


def test_a_keyword_that_the_engine_lacks_is_refused_by_name():
    lark = grammar(
        "llama3", None, tools=(tool("a", {"properties": {"b": {"not": {}}}}),)
    )
    assert '"not"' in LLMatcher(TOKENIZER, lark).get_error()


def test_tags_name_parameters_that_a_schema_has_elsewhere():
    schema = {
        "$defs": {"b": {"properties": {"b": {}}, "required": ["b"]}},
        "$ref": "#/$defs/b",
        "allOf": [{"properties": {"a": {}}}],
        "anyOf": [{"required": ["c"], "properties": {"c": {}}}],
    }
    lark = grammar("qwen3.5", None, tools=(tool("ping", schema),))

    def call(*names: str) -> str:
        inner = "".join(f"<parameter={name}>\n1\n</parameter>\n" for name in names)
        return f"<tool_call>\n<function=ping>\n{inner}</function>\n</tool_call>"

    assert accepts(lark, call("b"))
    assert accepts(lark, call("b", "a", "c"))
    assert not accepts(lark, call("a"))


@by_form
def test_a_marker_is_a_token_where_it_is_one_and_text_where_not(
    family: str, form: str | None
):
    text = RIGHT[family, form][0]
    has_marker = MARKER.search(text) is not None
    as_tokens = grammar(family, form)
    as_text = grammar(family, form, special_token=ORDINARY.get)
    assert accepts(as_tokens, text)
    assert accepts(as_text, text, special=())
    assert accepts(as_tokens, text, special=()) is not has_marker
    assert accepts(as_text, text) is not has_marker


@pytest.mark.parametrize("special", [SPECIAL, ORDINARY], ids=["tokens", "text"])
@pytest.mark.parametrize(
    ("think", "texts", "wrong"),
    [
        ("none", [""], ["<think>a</think>\n\n", "\n"]),
        (
            "optional",
            ["", "<think>\na < b\n</think>\n\n", "<think></think>"],
            ["</think>\n\n", "a</think>", "<think>", "<think>a</think>\n\n\n"],
        ),
        (
            "closed",
            ["</think>\n\n", "\n</think>", "</think>"],
            [
                "",
                "a</think>\n\n",
                "<think>a</think>",
                "</think></think>",
                "</think>\n\n<think>a < b</think>\n\n",
            ],
        ),
        (
            "open",
            ["a < b\n</think>\n\n", "</think>", "\na < b</think>\n"],
            ["", "a", "a</think>b", "a</think></think>"],
        ),
    ],
)
@by_form_with_tags
def test_thoughts_stand_before_the_call(family, form, think, texts, wrong, special):
    lark = grammar(family, form, think=think, special_token=special.get)
    ping = RIGHT[family, form][1]
    for text in texts:
        assert accepts(lark, text + ping, special), text
        result = read(reading(family, think), text + ping)
        assert [call.name for call in result.calls] == ["ping"], text
        assert result.content == ""
        assert result.reasoning == ("a < b" if "a < b" in text else ""), text
    for text in wrong:
        assert not accepts(lark, text + ping, special), text


def reading(family: str, think: str, *, parallel: bool = False) -> OutputFormat:
    return OutputFormat(
        family=family,
        tools=TOOLS,
        think_open="<think>" if think in ("closed", "open") else None,
        think_tags=THINK,
        parallel=parallel,
        forced=True,
    )


def test_gpt_oss_may_reason_in_its_channel():
    ping = RIGHT["gpt-oss", None][1]
    thought = "<|channel|>analysis<|message|>a < b<|end|><|start|>assistant"
    lark = grammar("gpt-oss", None)
    assert accepts(lark, thought + ping)
    assert not accepts(lark, thought.replace("a < b", "a <|end|> b") + ping, special=())
    assert not accepts(lark, thought + thought + ping)


@pytest.mark.parametrize(
    ("family", "form", "changes", "message"),
    [
        ("plain", None, {}, "'plain'"),
        ("nobody", None, {}, "'nobody'"),
        ("mistral", "dance", {}, "'dance'"),
        ("hermes", None, {"tools": ()}, "without tools"),
        ("hermes", None, {"think": "closed", "think_tags": None}, "'closed'"),
        ("qwen3.5", None, {"tools": (tool("a>b"),)}, "'a>b'"),
        ("mistral", "args", {"tools": (tool("a[b"),)}, r"'a\[b'"),
        ("gpt-oss", None, {"tools": (tool("a b"),)}, "'a b'"),
        ("lfm3", None, {"tools": (tool("a", {"properties": {"x>": {}}}),)}, "'x>'"),
    ],
)
def test_what_cannot_be_forced_is_an_error(family, form, changes, message):
    with pytest.raises(ValueError, match=message):
        grammar(family, form, **changes)


def test_names_are_written_as_they_are():
    names = (tool('a"\\é\n🌧', {"properties": {'b"': {"type": "boolean"}}}),)
    lark = grammar("llama3", None, tools=names)
    text = json.dumps(
        {"name": 'a"\\é\n🌧', "parameters": {'b"': True}}, ensure_ascii=False
    )
    assert accepts(lark, text)
    assert len(read(OutputFormat(family="llama3", tools=names), text).calls) == 1


# ---- whatever a grammar accepts ---------------------------------------------------


def allowed(found: LLMatcher) -> list[int]:
    """The tokens that may come next."""
    mask = found.compute_bitmask()
    return [
        token
        for token in range(len(_Bytes.tokens))
        if mask[token // 8] >> token % 8 & 1
    ]


ENDINGS = (
    "</parameter>",
    "</think>",
    "<think>",
    "<tool_call>",
    '"',
    '"}',
    "}",
    "]",
    "<|end|>",
    "</function>",
)
LETTERS = "ab1 <>/{}[]\"'\\\n=|,:é🌧"
MAX_STEPS = 400


def walk(lark: str, rng: random.Random) -> str:
    """A text that the grammar accepts, drawn at random; empty if it got too long."""
    found = matcher(lark)
    written: list[int] = []
    for _ in range(MAX_STEPS):
        pool = ENDINGS if rng.random() < 0.5 else LETTERS
        ids = tokenize(rng.choice(pool), SPECIAL if rng.random() < 0.5 else ())
        if found.validate_tokens(ids) < len(ids):
            options = [token for token in allowed(found) if token != END]
            is_done = found.is_accepting() and (not options or rng.random() < 0.4)
            if is_done:
                return b"".join(map(visible, written)).decode()
            # A character's further bytes, or whatever else is possible here.
            ids = [rng.choice(options)]
        assert found.consume_tokens(ids)
        written += ids
    return ""


def visible(token: int) -> bytes:
    return _Bytes.tokens[token].removeprefix(b"\xff")


@pytest.mark.parametrize("special", [SPECIAL, ORDINARY], ids=["tokens", "text"])
@pytest.mark.parametrize("think", ["none", "closed", "optional", "open"])
@by_form
def test_every_text_that_a_grammar_accepts_is_read_as_calls(
    family, form, think, special
):
    rng = random.Random(f"{family} {form} {think} {len(special)}")
    for parallel in (False, True):
        lark = grammar(
            family, form, think=think, parallel=parallel, special_token=special.get
        )
        fmt = reading(family, think, parallel=parallel)
        # A walk that strays too long counts for nothing.
        walks = filter(None, (walk(lark, rng) for _ in range(40)))
        texts = list(itertools.islice(walks, 3))
        assert len(texts) == 3
        for text in texts:
            result = read(fmt, text)
            assert result.calls, text
            assert result.content == "", text
            assert read(fmt, *text) == result


def test_tools_of_a_request_are_all_offered():
    offered = tools("get_weather", "write_file", "find_part", "set_all", "now")
    for family, form in FORMS:
        matcher(grammar(family, form, tools=offered))


by_form_with_a_token = pytest.mark.parametrize(
    ("family", "form"), [form for form in FORMS if form[0] in OPENERS]
)


@by_form_with_a_token
@pytest.mark.parametrize("think", ["none", "optional"])
def test_an_answer_may_be_text_but_call_no_other_tool(family, form, think):
    pin, ping = RIGHT[family, form]
    lark = grammar(family, form, tools=TOOLS[:1], think=think, may_answer=True)
    for text in ("Hello <there>, {}.", "", ping, f"Let me see.\n\n{ping}"):
        assert accepts(lark, text), text
    for text in (pin, f"Let me see.\n{pin}", ping + pin):
        assert not accepts(lark, text), text
    if think == "optional":
        assert accepts(lark, f"<think>hm</think>\n\nHi. {ping}")


def test_an_answer_may_follow_thoughts_that_the_prompt_began():
    lark = grammar("hermes", None, tools=TOOLS[:1], think="open", may_answer=True)
    assert accepts(lark, "hm</think>\n\nHello.")
    assert accepts(lark, "hm</think>" + RIGHT["hermes", None][1])
    assert not accepts(lark, "hm</think>" + RIGHT["hermes", None][0])


@pytest.mark.parametrize(
    ("family", "form", "special"),
    [
        ("llama3", None, SPECIAL),
        ("generic", None, SPECIAL),
        ("gpt-oss", None, SPECIAL),
        ("hermes", None, ORDINARY),
        ("hermes", None, {"<tool_call>": SPECIAL["<tool_call>"]}),
    ],
)
def test_text_cannot_be_held_where_no_token_begins_a_call(family, form, special):
    with pytest.raises(ValueError, match="no token that calls begin with"):
        grammar(family, form, special_token=special.get, may_answer=True)
