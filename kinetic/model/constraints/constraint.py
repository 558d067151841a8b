"""Compiles what answers are held to: JSON, a JSON Schema or a grammar.

A `Constraint` is compiled off the event loop and shared; each generation walks it with
a `Matcher` of its own (`matching`). Masks go in before the samplers, so what is drawn
is drawn from the model's distribution given the constraint.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from kinetic.errors import InternalError, RequestError
from kinetic.model.constraints import charset, guidance, lark
from kinetic.model.constraints.gbnf.answer import GrammarReader
from kinetic.model.constraints.gbnf.parser import GbnfError
from kinetic.model.constraints.json_schema import numbers
from kinetic.model.constraints.json_schema.check import CheckedSchema, check_schema
from kinetic.model.constraints.json_schema.embedded import checked_lark
from kinetic.model.constraints.json_schema.errors import SchemaError
from kinetic.model.constraints.json_schema.judge import Judge
from kinetic.model.constraints.json_schema.values import SchemaLimits
from kinetic.model.constraints.matching import Constraint
from kinetic.model.constraints.texts import text_matches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kinetic.model.native.model import Model
    from kinetic.model.vocab import Vocab
    from kinetic.types import ConstraintSpec

FORMAT = 2
"""Counts the ways in which a constraint's source was read; part of its key."""

MAX_BLAMED = 300
"""Schemas looked at, about 1 ms each, to find the one that cannot be enforced."""

MOST_JUDGED = 256
"""Schemas of tools of which is kept what they are judged by: "" for nothing."""

Kept = TypeVar("Kept")

JSON_GAP = r"[ \t\r\n]{1,8}"
JSON_OBJECT = '{"type": "object"}'
"""What JSON mode means, in every API: clients look up keys in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintLimits:
    """What a client's constraint may cost."""

    max_grammar_bytes: int = 128 << 10
    schema: SchemaLimits = field(default_factory=SchemaLimits)
    native: guidance.NativeLimits = field(default_factory=guidance.NativeLimits)


@dataclass(frozen=True, slots=True)
class _Source:
    """A grammar to be compiled, and the clients' schemas in it by their fields."""

    lark: str
    bounds: str = ""
    """A second one, which the answer is held to as well."""
    schemas: tuple[tuple[str, CheckedSchema], ...] = ()
    judge: Judge | None = None


@dataclass(slots=True)
class _Cache(Generic[Kept]):
    """What was used last; any thread."""

    size: int
    _kept: OrderedDict[str, Kept] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: str) -> Kept | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: str, value: Kept) -> None:
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            while len(self._kept) > self.size:
                self._kept.popitem(last=False)


class ConstraintCompiler:
    """Compiles constraints for one loaded model, each once.

    Thread: any but the event loop's; compiling may take a second.
    """

    def __init__(
        self,
        model: Model,
        vocab: Vocab,
        *,
        limits: ConstraintLimits | None = None,
        cache_size: int = 64,
    ) -> None:
        self._model = model
        self._vocab = vocab
        self._limits = limits or ConstraintLimits()
        self._cache: _Cache[Constraint] = _Cache(cache_size)
        self._judged: _Cache[str] = _Cache(MOST_JUDGED)
        self._lock = threading.Lock()
        self._known_tokens: guidance.ModelTokens | None = None

    def prepare(self) -> None:
        """Read the vocabulary in now, not at the first constraint: up to a second."""
        self._tokens()

    def compile(self, spec: ConstraintSpec) -> Constraint:
        """Compile what a client asked for.

        Raises RequestError naming the field, and what of it cannot be done.
        """
        key = _key(
            spec.kind, spec.source, spec.prefix_think, spec.think_open, spec.strict
        )
        return self._cached(key, spec.param, partial(self._source, spec))

    def compile_lark(
        self,
        text: str,
        *,
        param: str,
        fields: Mapping[str, str] | None = None,
    ) -> Constraint:
        """Compile a grammar of our own making, with clients' schemas in `%json`.

        The schemas are checked as those of clients; their top-level `x-guidance` is
        taken for ours.

        Args:
            text: llguidance's Lark, with a rule `start`.
            param: The request's field, for errors.
            fields: For errors about a schema: the field that it came from, by the name
                of the rule which it stands in.

        Raises RequestError naming the field, and what of it cannot be done.
        """

        def make() -> _Source:
            limits = self._limits.schema
            checked = checked_lark(
                text, param=param, fields=fields or {}, limits=limits
            )
            return _Source(checked.text, checked.bounds, checked.schemas)

        return self._cached(_key("lark", text), param, make)

    def judge(
        self, schema: str, *, param: str, strict: bool, is_held: bool
    ) -> Judge | None:
        """What judges the arguments of a call when they are whole, if anything has to.

        Args:
            schema: The tool's parameters as JSON text.
            param: The request's field, for errors.
            strict: Refuse a schema that cannot be held wholly while decoding.
            is_held: The grammar holds arguments to what can be held of the schema.

        Raises RequestError naming the field, and what of it cannot be done.
        """
        key = _key(schema, strict)
        judged = self._judged.get(key)
        if judged is None:
            try:
                checked = check_schema(
                    schema, limits=self._limits.schema, strict=strict
                )
            except SchemaError as error:
                raise RequestError(f"{param}: {error}", param=param) from error
            judged = checked.judged or ""
            self._judged.put(key, judged)
        source = judged if is_held else schema
        return Judge(source, text_matches) if source else None

    def _cached(self, key: str, param: str, make: Callable[[], _Source]) -> Constraint:
        found = self._cache.get(key)
        if found is not None:
            found.renew()
            return found
        try:
            source = make()
        except SchemaError as error:
            where = error.field or param
            raise RequestError(f"{where}: {error}", param=where) from error
        except GbnfError as error:
            raise RequestError(f"{param}: {error}", param=param) from error
        make_native = partial(self._native, source.lark, source.bounds)
        try:
            made = Constraint(
                key, self._tokens(), self._vocab.ends, make_native, source.judge
            )
        except guidance.GrammarRefusedError as error:
            where, path, reason = self._blamed(source, param, str(error))
            raise RequestError(f"{where}: {reason}{path}", param=where) from error
        self._cache.put(key, made)
        return made

    def _native(self, *grammars: str) -> guidance.Walker:
        given = [text for text in grammars if text]
        return guidance.compiled(self._tokens(), given, self._limits.native)

    def _blamed(self, source: _Source, param: str, reason: str) -> tuple[str, str, str]:
        """Field, path and reason of the smallest schema that llguidance refuses."""
        n_left = MAX_BLAMED
        for field_name, checked in source.schemas:
            for path, part in checked.parts():
                n_left -= 1
                if n_left < 0:
                    return param, "", reason
                try:
                    self._native(f"start: %json {json.dumps(part)}\n")
                except guidance.GrammarRefusedError as error:
                    return field_name, f", at {path or '/'}", str(error)
        return param, "", reason

    def _tokens(self) -> guidance.ModelTokens:
        """The vocabulary, read in when it is first needed."""
        with self._lock:
            if self._known_tokens is None:
                self._known_tokens = guidance.ModelTokens(self._model, self._vocab)
            return self._known_tokens

    def _source(self, spec: ConstraintSpec) -> _Source:
        schemas: tuple[tuple[str, CheckedSchema], ...] = ()
        judge = None
        reasoning = self._reasoning(spec)
        bounds = ""
        match spec.kind:
            case "json_object" | "json_schema":
                text = JSON_OBJECT if spec.kind == "json_object" else spec.source
                checked = check_schema(
                    text, limits=self._limits.schema, strict=spec.strict
                )
                schemas = ((spec.param, checked),)
                if checked.judged is not None:
                    judge = Judge(checked.judged, text_matches)
                answer = _json(f"%json {json.dumps(checked.schema)}\n")
                if rules := numbers.beside([checked.schema]):
                    short = _json(f"{numbers.RULE}\n{rules}")
                    bounds = lark.grammar(short, reasoning)
            case "gbnf":
                limit = self._limits.max_grammar_bytes
                reader = GrammarReader(self._model, self._vocab, self._tokens(), limit)
                answer = reader.answer(spec.source)
            case _:
                raise InternalError(f"a constraint of unknown kind {spec.kind!r}")
        return _Source(lark.grammar(answer, reasoning), bounds, schemas, judge)

    def _reasoning(self, spec: ConstraintSpec) -> lark.Reasoning | None:
        if spec.prefix_think is None:
            return None
        opener, closer = (tag.strip() for tag in spec.prefix_think)
        if not opener or not closer:
            return None
        opener_token = self._vocab.special_token(opener)
        closer_token = self._vocab.special_token(closer)
        controls = self._vocab.controls
        return lark.Reasoning(
            opener=opener,
            closer=closer,
            opener_token=opener_token,
            opener_is_text=opener_token not in controls,
            closer_token=closer_token if closer_token in controls else None,
            is_open=spec.think_open,
        )


def _json(body: str) -> lark.AnswerRules:
    return lark.AnswerRules(
        lark=f"answer: {body}",
        begins_with=charset.ranges((ord(c), ord(c)) for c in '"-0123456789[ftn{'),
        gap=JSON_GAP,
    )


def _key(*parts: object) -> str:
    text = json.dumps([FORMAT, *parts], ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
