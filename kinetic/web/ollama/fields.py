"""The fields of Ollama's bodies, as data: what each takes, means and comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinetic.web.fields import readers
from kinetic.web.fields.readers import Unfit, flag, mapping, one_of, text, whole
from kinetic.web.fields.sampling import DRAWING, SAMPLING
from kinetic.web.fields.tables import LLAMA, OPENAI, RECEIPT, Field
from kinetic.web.ollama.keep_alive import keep_alive

OLLAMA = "Ollama"
ALTERNATIVES_MAX = 20
EFFORTS = ("low", "medium", "high", "max")


def _as_given(value: object) -> object:
    """A field whose form is checked where it is put to use."""
    return value


def _limit(value: Any) -> int:
    """-1 and -2 are Ollama's "to the end of the context"."""
    read: int = whole(-2, most=10**30)(value)
    return readers.INT32_MAX if read < 0 else min(read, readers.INT32_MAX)


def _think(value: Any) -> bool | str:
    if isinstance(value, bool):
        return value
    read: str = one_of(*EFFORTS)(value)
    return read


def _empty(reason: str) -> Callable[[Any], object]:
    """A field that is refused once it asks for anything."""

    def read(value: Any) -> None:
        if value not in ("", [], {}, {"type": "text"}):
            raise Unfit(reason)

    return read


def _refused(name: str, reason: str, source: str = OLLAMA) -> Field:
    return Field(
        name=name,
        read=_empty(f"is not supported: {reason}"),
        range="left out",
        default="none",
        source=source,
        meaning=f"Refused: {reason}.",
    )


_LOADING = "Accepted; set when the server is started"

OPTIONS: tuple[Field, ...] = (
    Field(
        name="num_predict",
        read=_limit,
        range="a whole number from -2 on",
        default="the server's `-n`, else -1",
        source=OLLAMA,
        meaning="Most tokens to generate; 0 generates none, -1 and -2 go on to the end"
        " of the context.",
    ),
    Field(
        name="stop",
        read=readers.stops,
        range=f"a list of at most {readers.STOPS_MAX} strings, or a string, each of 1"
        f" to {readers.STOP_CHARS_MAX} characters",
        default="none",
        source=OLLAMA,
        meaning="Ends the answer before the first of them in its visible text; the"
        " model's own end markers always do.",
    ),
    *SAMPLING,
    *(field for field in DRAWING if field.name != "ignore_eos"),
    Field(
        name="num_ctx",
        read=whole(0),
        range="a whole number from 0 to 2147483647",
        default="the server's",
        source=OLLAMA,
        meaning="Accepted; the context's length is set with `-c` when the server is"
        " started and told in `/api/ps`.",
    ),
    *(
        Field(
            name=name,
            read=whole(-readers.INT32_MAX),
            range="a whole number from -2147483647 to 2147483647",
            default="the server's",
            source=OLLAMA,
            meaning=meaning,
        )
        for name, meaning in (
            ("num_batch", _LOADING),
            ("num_gpu", _LOADING),
            ("main_gpu", _LOADING),
            ("num_thread", _LOADING),
            ("draft_num_predict", _LOADING),
            ("num_keep", "Accepted; nothing is ever dropped from the context"),
        )
    ),
    Field(
        name="use_mmap",
        read=flag,
        range="true or false",
        default="the server's",
        source=OLLAMA,
        meaning=_LOADING,
    ),
)
"""What `options` takes. Names that are not here are let pass, as Ollama does."""

_COMMON: tuple[Field, ...] = (
    Field(
        name="stream",
        read=flag,
        range="true or false",
        default="true",
        source=OLLAMA,
        meaning="Sends the answer as lines of JSON while it is written.",
    ),
    Field(
        name="format",
        read=_as_given,
        range='"json" or a JSON schema',
        default="none",
        source=OLLAMA,
        meaning="Holds the answer to a JSON object, or to JSON of that schema;"
        ' reasoning before it stays free. "" is none.',
    ),
    Field(
        name="options",
        read=mapping,
        range="an object",
        default="none",
        source=OLLAMA,
        meaning="See Options.",
    ),
    Field(
        name="keep_alive",
        read=keep_alive,
        range='a number of seconds or a duration such as "5m" or "1h30m"',
        default="forever",
        source=OLLAMA,
        meaning="Checked, and else without effect: the model stays loaded. 0 with an"
        ' empty prompt is answered with "unload".',
    ),
    Field(
        name="think",
        read=_think,
        range='true, false, "low", "medium", "high" or "max"',
        default="true for models that think",
        source=OLLAMA,
        meaning="Whether, or how hard, the model thinks before it answers.",
    ),
    Field(
        name="logprobs",
        read=flag,
        range="true or false",
        default="false",
        source=OLLAMA,
        meaning="Adds each token's log-probability under the raw logits.",
    ),
    Field(
        name="top_logprobs",
        read=whole(0, ALTERNATIVES_MAX),
        range=f"a whole number from 0 to {ALTERNATIVES_MAX}",
        default="0",
        source=OLLAMA,
        meaning="How many of the likeliest tokens to tell beside each; above 0 only"
        " with `logprobs`.",
    ),
    *(
        Field(
            name=name,
            read=flag,
            range="true or false",
            default="false",
            source=OLLAMA,
            meaning="Accepted and without effect: a prompt is never cut, one that is"
            " too long is refused; an answer ends where the context does.",
        )
        for name in ("truncate", "shift")
    ),
    RECEIPT,
    *(
        _refused(name, "use format", source)
        for name, source in (
            ("grammar", LLAMA),
            ("json_schema", LLAMA),
            ("response_format", OPENAI),
        )
    ),
)

CHAT: tuple[Field, ...] = (
    Field(
        name="messages",
        read=_as_given,
        range="a list of messages",
        default="none, which asks for nothing but the model to be loaded",
        source=OLLAMA,
        meaning="The conversation.",
    ),
    Field(
        name="tools",
        read=_as_given,
        range="a list of function definitions",
        default="none",
        source=OLLAMA,
        meaning="Functions that the model may call.",
    ),
    *_COMMON,
)

GENERATE: tuple[Field, ...] = (
    Field(
        name="prompt",
        read=text,
        range="a string",
        default="none, which asks for nothing but the model to be loaded",
        source=OLLAMA,
        meaning="The user's text, put into the chat template.",
    ),
    Field(
        name="system",
        read=text,
        range="a string",
        default="none",
        source=OLLAMA,
        meaning="A system message before the prompt.",
    ),
    Field(
        name="raw",
        read=flag,
        range="true or false",
        default="false",
        source=OLLAMA,
        meaning="Continues the prompt as it is written, without the template. Not with"
        " `system` or `think`.",
    ),
    Field(
        name="images",
        read=_as_given,
        range="a list of base64 strings",
        default="none",
        source=OLLAMA,
        meaning="Pictures before the prompt, for a model with `--mmproj`. Not with"
        " `raw`.",
    ),
    *(
        _refused(name, reason)
        for name, reason in (
            ("suffix", "text is continued at its end only"),
            ("template", "set --chat-template-file when starting the server"),
            ("context", "send the conversation to /api/chat"),
        )
    ),
    *_COMMON,
)
