"""Makes of a client's grammar the part of an answer that is held to it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kinetic.model.constraints import lark
from kinetic.model.constraints.charset import Ranges, overlap
from kinetic.model.constraints.gbnf.lexemes import Lexed, lexed
from kinetic.model.constraints.gbnf.nodes import Tokens
from kinetic.model.constraints.gbnf.parser import ROOT, Gbnf, GbnfError, TokenIds, parse
from kinetic.model.constraints.gbnf.passes import (
    Order,
    evaluate,
    first_members,
    is_nullable,
)
from kinetic.model.constraints.gbnf.rewriting import simplified
from kinetic.model.constraints.gbnf.writer import written

if TYPE_CHECKING:
    from kinetic.model.constraints import guidance
    from kinetic.model.native.model import Model
    from kinetic.model.vocab import Vocab

GAP: Final = r"\n{1,2}"
_LINE_BREAK: Final = ((10, 10),)


class GrammarReader:
    """Reads grammars for one vocabulary; their tokens are its tokens.

    Methods raise GbnfError for what cannot be done.
    """

    def __init__(
        self, model: Model, vocab: Vocab, tokens: guidance.ModelTokens, max_bytes: int
    ) -> None:
        self._model = model
        self._vocab = vocab
        self._tokens = tokens
        self._max_bytes = max_bytes

    def answer(self, source: str) -> lark.AnswerRules:
        """An answer that follows a grammar."""
        n_bytes = len(source.encode("utf-8", "surrogatepass"))
        if n_bytes > self._max_bytes:
            raise GbnfError(
                f"the grammar has {n_bytes} bytes; the limit is {self._max_bytes}"
            )
        grammar = simplified(parse(source, self._find))
        made = lexed(grammar)
        self._check(made)
        begins_with = _begins_with(grammar)
        return lark.AnswerRules(
            lark=written(made, "answer"),
            begins_with=begins_with,
            gap="" if overlap(begins_with, _LINE_BREAK) else GAP,
        )

    def _find(self, which: str | int, negated: bool) -> TokenIds:
        """Ids that `<text>`, `<[id]>` or a negated one of them stands for."""
        last = self._tokens.n_vocab - 1
        if isinstance(which, str):
            ids = self._model.tokenize(
                which.encode("utf-8", "replace"), add_special=False, parse_special=True
            )
            if len(ids) != 1:
                raise GbnfError(f"{which} is not one token, but {len(ids)}")
            which = ids[0]
        if which > last:
            raise GbnfError(f"token {which} does not exist: ids are 0 to {last}")
        if not negated:
            if which in self._vocab.ends:
                raise GbnfError(f"token {which} ends the answer, wherever it may end")
            return ((which, which),)
        # Without bytes a token is padding; llama.cpp's grammars never allow those.
        out = {which, *self._vocab.ends}
        out.update(i for i, piece in enumerate(self._tokens.pieces) if not piece)
        pairs = pairwise([-1, *sorted(out), last + 1])
        return tuple((a + 1, b - 1) for a, b in pairs if a + 1 <= b - 1)

    def _check(self, made: Lexed) -> None:
        """Refuse tokens where text that they spell is allowed too.

        llguidance would read the token, and forget the text.
        """
        nodes = made.grammar.nodes
        for number, members in dict.fromkeys(made.beside):
            node = nodes[number]
            ids = node.ids if isinstance(node, Tokens) else ()
            for token in (i for low, high in ids for i in range(low, high + 1)):
                if token not in self._tokens.special and overlap(
                    members, _first_of(self._tokens.pieces[token])
                ):
                    raise GbnfError(
                        f"token {token} is named where text that it spells is allowed"
                        " too, which cannot be told apart"
                    )


def _begins_with(grammar: Gbnf) -> Ranges:
    """What the text of an answer may begin with."""
    nodes, rules = grammar.nodes, grammar.rules
    order = Order(nodes, rules, ROOT)
    empty, _ = evaluate(nodes, rules, order, is_nullable, start=False)
    nothing: Ranges = ()
    _, first = evaluate(nodes, rules, order, first_members(empty), nothing)
    return first[ROOT]


def _first_of(piece: bytes) -> Ranges:
    """The first character of a token, or any if it begins inside of one."""
    text = piece.decode("utf-8", "replace")
    if text[:1] in {"", "\ufffd"}:
        return ((0x80, 0x10FFFF),)
    return ((ord(text[0]), ord(text[0])),)
