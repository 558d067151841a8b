"""Holds answers to JSON, a JSON Schema or a grammar.

A `Constraint` is compiled off the event loop and shared; each generation walks it with
a `Matcher` of its own. Masks go in before the samplers, so what is drawn is drawn from
the model's distribution given the constraint.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from kinetic.errors import InternalError, RequestError
from kinetic.model import charset, guidance, lark
from kinetic.model.gbnf.answer import GrammarReader
from kinetic.model.gbnf.parser import GbnfError
from kinetic.model.json_schema import numbers
from kinetic.model.json_schema.check import CheckedSchema, check_schema
from kinetic.model.json_schema.embedded import checked_lark
from kinetic.model.json_schema.errors import SchemaError
from kinetic.model.json_schema.judge import Judge
from kinetic.model.json_schema.numbers import MAX_DEPTH
from kinetic.model.json_schema.values import SchemaLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    import numpy.typing as npt

    from kinetic.model.ffi import Model
    from kinetic.model.vocab import Vocab
    from kinetic.types import ConstraintSpec

FORMAT = 2
"""Counts the ways in which a constraint's source was read; part of its key."""

MAX_BLAMED = 300
"""Schemas looked at, about 1 ms each, to find the one that cannot be enforced."""

MAX_SHARED_S = 0.5
"""Time of masks after which what matchers share is given up; about 20 MB."""

REPLAYED_AT_ONCE = 256
"""Tokens, about 1 ms; an answer's own are replayed behind a limit."""

MOST_CHECKS = 1_024
"""Schemas of tools whose checks are kept."""

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


class Constraint:
    """What an answer is held to; any thread, shared by generations.

    llguidance's copies share what their lexer has learnt, which makes masks cheap, and
    its limits, which would let one answer spoil another. So what is shared is given up
    once it has grown, and an answer that meets a limit goes on with a new matcher, made
    in another thread: it fails only where one that has learnt nothing fails too.
    """

    def __init__(
        self,
        key: str,
        tokens: guidance.Tokens,
        ends: frozenset[int],
        make: Callable[[], guidance.Walker],
        judge: Judge | None = None,
    ) -> None:
        self.key = key
        """Hash of everything that decides which answers are allowed."""
        self.tokens = tokens
        self.ends = ends
        self.make = make
        """Compiles once more: a matcher that shares nothing. May take a second."""
        self.judge = judge
        """Judges a whole answer by what decoding does not hold it to."""
        self._lock = threading.Lock()
        self._shared = make()
        self._spent_s = 0.0
        self._is_given_up = False

    def renew(self) -> None:
        """Compile again if what is shared was given up; where no answer waits."""
        if not self._is_given_up:
            return
        made = self.make()
        with self._lock:
            self._shared, self._spent_s, self._is_given_up = made, 0.0, False

    def matcher(self) -> Matcher:
        """A matcher at the answer's beginning; takes no time to speak of."""
        with self._lock:
            return Matcher(self, self._shared.copy())

    def spend(self, mask_s: float) -> None:
        """Count the time that a matcher's masks took, which grows with its lexer."""
        self._spent_s += mask_s
        if self._spent_s > MAX_SHARED_S:
            self.give_up()

    def give_up(self) -> None:
        """Let later requests start from a lexer that has learnt nothing."""
        self._is_given_up = True


class OutgrownError(Exception):
    """A matcher has met a limit; a renewed one may go on."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """What it takes to go on behind a limit, with a lexer that has learnt nothing."""

    constraint: Constraint
    accepted: tuple[int, ...]

    def walker(self) -> guidance.Walker:
        """Compile, and walk to where the answer stands. Takes up to a second.

        Thread: one that nothing waits for. Raises RequestError if a limit is met again,
        and InternalError for other trouble.
        """
        try:
            walker = self.constraint.make()
        except guidance.GrammarRefusedError as error:
            raise RequestError(f"the constraint is too complex: {error}") from error
        # In pieces: the library keeps Python's lock for as long as a piece takes.
        for at in range(0, len(self.accepted), REPLAYED_AT_ONCE):
            piece = list(self.accepted[at : at + REPLAYED_AT_ONCE])
            if walker.replay(piece) < len(piece):
                guidance.check(walker)
                message = "the constraint does not allow what it allowed before"
                raise InternalError(message)
        return walker


class Matcher:
    """Where one answer stands in its constraint.

    Thread: one at a time.
    """

    def __init__(self, constraint: Constraint, native: guidance.Walker) -> None:
        self._constraint = constraint
        self._native = native
        self._renewed_at: int | None = None
        self._accepted: list[int] = []
        self._masker = guidance.Masker(constraint.tokens.n_vocab)

    def mask(self, row: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The row [n_vocab] with -inf for each token that is not allowed now; new.

        The tokens that end an answer are allowed exactly where the answer may end.
        Raises OutgrownError where this has to go on with a renewed one (`renewal`,
        `resume`), RequestError if the constraint is too complex at this point, and
        InternalError if it allows nothing.
        """
        self._fill()
        if self._masker.is_empty():
            if len(self._native.natives) > 1:
                reason = f"the answer would have to nest deeper than {MAX_DEPTH} levels"
                raise RequestError(reason)
            raise InternalError("the constraint allows no token here")
        return self._masker.applied(row)

    def accept(self, token: int) -> None:
        """Go on behind a token; raises InternalError if it is not allowed.

        Where it is but a limit is met, the next mask tells.
        """
        if not self._native.consume(token) and not guidance.is_limit(self._native):
            guidance.check(self._native)
            raise InternalError(f"the constraint does not allow token {token} here")
        self._accepted.append(token)

    def renewal(self) -> Renewal:
        """What to go on with behind a limit, made in another thread."""
        self._constraint.give_up()
        return Renewal(self._constraint, tuple(self._accepted))

    def resume(self, walker: guidance.Walker) -> None:
        """Go on with what a renewal made."""
        self._renewed_at = len(self._accepted)
        self._native = walker

    def _fill(self) -> None:
        start = time.perf_counter()
        self._masker.fill(self._native)
        if self._native.error is not None:
            # Where a renewed one has failed at once, another would too.
            is_new = self._renewed_at == len(self._accepted)
            if guidance.is_limit(self._native) and not is_new:
                raise OutgrownError
            guidance.check(self._native)
        self._constraint.spend(time.perf_counter() - start)

    @property
    def is_complete(self) -> bool:
        """Whether nothing but the end may follow."""
        if not self._native.is_accepting():
            return False
        if self._native.is_stopped():
            return True
        self._fill()
        allowed = self._masker.allowed()
        ends = self._constraint.ends
        return int(allowed.sum()) == sum(bool(allowed[end]) for end in ends)

    def forced(self) -> tuple[int, ...]:
        """Tokens that the text must go on with, as the model would cut it.

        The last one is left out: what follows could be cut together with it. Another
        way of cutting stays allowed, so these are to be proposed, not taken. Asking
        changes nothing: a copy looks ahead, and what is too complex for it gives ().
        """
        text = self._native.forced_text()
        return tuple(self._constraint.tokens.canonical(text)[:-1])


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
        self._checks: _Cache[CheckedSchema] = _Cache(MOST_CHECKS)
        self._lock = threading.Lock()
        self._known_tokens: guidance.Tokens | None = None

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
        checked = self._checks.get(key)
        if checked is None:
            try:
                checked = check_schema(
                    schema, limits=self._limits.schema, strict=strict
                )
            except SchemaError as error:
                raise RequestError(f"{param}: {error}", param=param) from error
            self._checks.put(key, checked)
        if not is_held:
            return Judge(schema, guidance.text_matches)
        return _judge(checked)

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

    def _tokens(self) -> guidance.Tokens:
        """The vocabulary, read in when it is first needed."""
        with self._lock:
            if self._known_tokens is None:
                self._known_tokens = guidance.Tokens(self._model, self._vocab)
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
                judge = _judge(checked)
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


def _judge(checked: CheckedSchema) -> Judge | None:
    if checked.judged is None:
        return None
    return Judge(checked.judged, guidance.text_matches)


def _json(body: str) -> lark.Answer:
    return lark.Answer(
        lark=f"answer: {body}",
        begins_with=charset.ranges((ord(c), ord(c)) for c in '"-0123456789[ftn{'),
        gap=JSON_GAP,
    )


def _key(*parts: object) -> str:
    text = json.dumps([FORMAT, *parts], ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
