"""Jinja's filters as chat templates need them, metered."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, Final

import jinja2
from jinja2.filters import do_indent, make_attrgetter
from jinja2.runtime import Undefined
from jinja2.utils import pass_environment
from markupsafe import escape

from kinetic.model.chat.reply.jsontext import loads
from kinetic.model.chat.template.metering import (
    ITEM_STEPS,
    Fault,
    check_chars,
    check_padding,
    check_replacement,
    counted,
    join,
    percent_format,
    spend,
    spend_on_text,
    to_text,
    walk,
)

# They make texts or lists of any size out of small ones, are random, or print anything.
_REFUSED = ("batch", "center", "pprint", "random", "slice", "urlize", "wordwrap")


def chat_filters(
    builtin: Mapping[str, Callable[..., Any]],
) -> dict[str, Callable[..., Any]]:
    """Return Jinja's own filters, metered, with those that do not fit replaced."""
    filters = {name: _metered(function) for name, function in builtin.items()}
    filters.update({name: _refused(name) for name in (*_REFUSED, "xmlattr")})
    filters.update(_OWN)
    return filters


def tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Print a value as JSON, the way chat templates are written for.

    Jinja's own filter escapes for HTML, sorts keys and returns markup that escapes the
    text it is added to. Source: `tojson` as transformers and llama.cpp give it.
    """
    walk(value)
    if indent is not None:
        check_padding(indent)
    text = json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
        default=_jsonable,
    )
    check_chars(len(text))
    return text


def _jsonable(value: object) -> object:
    if isinstance(value, Undefined):
        return None
    if isinstance(value, Iterator):
        # Templates pipe what `map` and `select` return.
        return list(value)
    return to_text(value)


def _indent(
    text: str, width: int | str = 4, first: bool = False, blank: bool = False
) -> str:
    n_chars = check_padding(width)
    check_chars(len(text) + (text.count("\n") + 1) * n_chars)
    return do_indent(text, width, first, blank)


def _format(text: object, *args: Any, **kwargs: Any) -> str:
    return percent_format(str(text), kwargs or args)


def _replace(text: object, old: object, new: object, count: int | None = None) -> str:
    whole = to_text(text)
    check_replacement(whole, str(old), str(new))
    return whole.replace(str(old), str(new), -1 if count is None else count)


@pass_environment
def _join(
    environment: jinja2.Environment,
    items: Iterable[Any],
    d: object = "",
    attribute: str | int | None = None,
) -> str:
    if attribute is not None:
        items = map(make_attrgetter(environment, attribute), items)
    return join(str(d), items)


def _escape(value: object) -> str:
    return str(escape(to_text(value)))


_OWN: Final[Mapping[str, Callable[..., Any]]] = {
    "e": _escape,
    "escape": _escape,
    "forceescape": _escape,
    "format": _format,
    "from_json": loads,
    "indent": _indent,
    "join": _join,
    "replace": _replace,
    # Markup would escape every text it is added to, and a prompt is not HTML.
    "safe": to_text,
    "string": to_text,
    "tojson": tojson,
}


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*_args: object, **_kwargs: object) -> Any:
        raise Fault(
            f"the chat template uses the filter {name!r}, which is not supported"
        )

    return refuse


def _metered(function: Callable[..., Any]) -> Callable[..., Any]:
    position = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def metered(*args: Any, **kwargs: Any) -> Any:
        value = args[position] if len(args) > position else None
        if isinstance(value, str):
            spend_on_text(len(value))
        else:
            spend(ITEM_STEPS + (len(value) if isinstance(value, Sized) else 0))
        made = function(*args, **kwargs)
        return counted(made, ITEM_STEPS) if isinstance(made, Iterator) else made

    return metered
