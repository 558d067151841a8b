r"""Bounds on numbers and on nesting, so that no answer is digits or brackets for ever.

llguidance's numbers have any number of digits: a model that goes on writing them never
comes to an end, and readers take `8e4760` for infinity. Bounded ranges end their whole
part, but not their fraction. So a second grammar, of all JSON with short numbers and
few levels, walks beside the schema's own, and only what both allow is allowed. No
number comes to a dead end by that, as each bound of a schema is written with at most
`EXACT` digits, and each range with both its ends: where this grammar ends a
number, the schema's lets it end too, or needs a last digit that is not 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Any, Final

SAFE_INTEGER: Final = (1 << 53) - 1
"""Beyond it llguidance, as most readers of JSON, mistakes one number for another."""

EXACT: Final = 15
"""Digits by which doubles tell any two numbers apart; of a schema's bounds."""

DIGITS: Final = 17
"""Of a fraction; digits by which any double can be written."""

MAX_DEPTH: Final = 60
"""Of lists and objects inside each other; readers of calls go a few levels deeper."""

MOST_WHOLE: Final = 16
"""Digits of a whole part."""

RULE: Final = "json_short"


def beside(schemas: Iterable[Any]) -> str:
    """Lark of the rule `RULE`: JSON of short numbers and few levels; "" if not needed.

    Args:
        schemas: Checked ones that it stands for.
    """
    found = _Found()
    for schema in schemas:
        found.look(schema)
    if not found.is_needed:
        return ""
    # 0.99999999999999999 is below 1, and read as 1.
    number = _number(EXACT if found.is_exclusive else DIGITS)
    fits = re.compile(number)
    known = {format(Decimal(repr(value)), "f") for value in found.literals}
    more = [re.escape(text) for text in sorted(known) if not fits.fullmatch(text)]
    return _grammar("|".join([number, *more]))


def _number(digits: int) -> str:
    """Numbers that are finite as doubles; llama.cpp's bounds, but for zeros in front.

    Behind the last of too many zeros stands no further one: see above.
    """
    fractions = [
        rf"[1-9][0-9]{{{n - 1}}}\.[0-9]{{1,{digits - n}}}"
        for n in range(1, digits)
        if n <= MOST_WHOLE
    ]
    small = rf"0\.0{{0,8}}[0-9]{{1,{digits - 1}}}[1-9]?"
    whole = rf"0|[1-9][0-9]{{0,{MOST_WHOLE - 1}}}"
    mantissa = "|".join([whole, small, *fractions])
    exponent = r"[eE](-[0-9]{1,3}|\+?([0-9]{1,2}|[12][0-8][0-9]))"
    return f"-?({mantissa})({exponent})?"


def _grammar(number: str) -> str:
    lines = [
        f"{RULE}: json_0",
        f"JSON_ATOM: /null|true|false|{number}/ | JSON_STRING",
        r'JSON_STRING: /"(\\.|[^"\\])*"/',
        r"JSON_GAP: /[ \t\r\n]+/",
        f"json_{MAX_DEPTH}: JSON_GAP? JSON_ATOM",
    ]
    for level in range(MAX_DEPTH):
        array, map_ = f"json_array_{level}", f"json_map_{level}"
        item = f"json_{level + 1} JSON_GAP?"
        pair = f'JSON_GAP? JSON_STRING JSON_GAP? ":" {item}'
        lines += [
            f"json_{level}: JSON_GAP? (JSON_ATOM | {array} | {map_})",
            f'{array}: "[" (JSON_GAP? | {item} ("," {item})*) "]"',
            f'{map_}: "{{" (JSON_GAP? | {pair} ("," {pair})*) "}}"',
        ]
    return "\n".join(["", *lines, ""])


@dataclass(slots=True)
class _Found:
    """What checked schemas hold that has to do with numbers and depth."""

    is_needed: bool = False
    """They may let out numbers, or depths, to which they make no end."""
    is_exclusive: bool = False
    literals: set[float] = field(default_factory=set)

    def look(self, schema: Any) -> None:
        """Look through a schema and those inside."""
        todo = [schema]
        while todo:
            part = todo.pop()
            if isinstance(part, Mapping):
                todo += self._inner(part)
            elif part is True:
                self.is_needed = True

    def _inner(self, part: Mapping[str, Any]) -> Iterator[Any]:
        if "const" in part or "enum" in part:
            self._literals([part.get("const"), part.get("enum")])
            return
        types = part.get("type", ())
        types = {types} if isinstance(types, str) else set(types)
        combined = [*part.get("anyOf", ()), *part.get("allOf", ())]
        is_range = part.keys() >= {"minimum", "maximum"}
        self.is_needed |= (
            "$ref" in part
            or "number" in types
            or ("integer" in types and not is_range)
            or ("array" in types and "items" not in part)
            or ("object" in types and "additionalProperties" not in part)
            or not (types or combined)
        )
        bounds = {"exclusiveMinimum", "exclusiveMaximum"}
        self.is_exclusive |= not bounds.isdisjoint(part)
        yield from combined
        yield from part.get("prefixItems", ())
        yield from (part[k] for k in ("items", "additionalProperties") if k in part)
        for key in ("properties", "patternProperties", "$defs"):
            yield from part.get(key, {}).values()

    def _literals(self, values: list[Any]) -> None:
        while values:
            value = values.pop()
            if isinstance(value, list):
                values += value
            elif isinstance(value, dict):
                values += value.values()
            elif isinstance(value, float):
                self.literals.add(value)


def most_of(factor: float | None) -> int:
    """The largest whole number that ranges reach to, beside a `multipleOf`.

    A whole part that no multiple begins with would be a dead end if it left no room for
    the digits behind the point.
    """
    if factor is None or factor == int(factor):
        return SAFE_INTEGER
    return int(10 ** max(EXACT - decimals(factor), 1)) - 1


def decimals(value: float) -> int:
    """Digits behind the point of a finite number, written without an exponent."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0


def rounded(given: dict[str, Any]) -> None:
    """Write bounds with at most `EXACT` digits, and as many decimals.

    One that is out itself, on the side of 0, becomes the next number that is in:
    llguidance lets 3 through where `exclusiveMinimum` is 3 and `maximum` 3.5, and may
    ask for some digit but 0 behind any number of them.
    """
    for keyword, up in (
        ("minimum", True),
        ("exclusiveMinimum", True),
        ("maximum", False),
        ("exclusiveMaximum", False),
    ):
        if keyword in given:
            given[keyword] = _rounded(given[keyword], up=up)
    low, high = given.get("exclusiveMinimum", -1), given.get("exclusiveMaximum", 1)
    if low >= 0:
        del given["exclusiveMinimum"]
        given["minimum"] = max(_next(low, up=True), given.get("minimum", low))
    if high <= 0:
        del given["exclusiveMaximum"]
        given["maximum"] = min(_next(high, up=False), given.get("maximum", high))


def _rounded(bound: float, *, up: bool) -> float:
    if bound == int(bound):
        return int(bound)
    with localcontext(prec=400):
        exact = Decimal(repr(bound))
        step = _step(exact)
        rounding = ROUND_CEILING if up else ROUND_FLOOR
        return float(exact.quantize(step, rounding=rounding))


def _next(bound: float, *, up: bool) -> float:
    """The next number of as many digits."""
    exact = Decimal(repr(bound))
    step = _step(exact)
    return _rounded(float(exact + step if up else exact - step), up=up)


def _step(value: Decimal) -> Decimal:
    return Decimal(1).scaleb(min(max(value.adjusted(), 0) + 1 - EXACT, 0))
