"""From a query and documents to the token ids that get a score.

Source: both layouts, and which markers stand where, are llama-server's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kinetic.errors import InputTooLong, ModelError, RequestError, about
from kinetic.model.chat.template.guard import MarkerIndex, free_characters
from kinetic.model.vectors.limits import add_tokens
from kinetic.types import VectorJob

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kinetic.model.vocab import Vocab
    from kinetic.types import RankRequest

TEMPLATE_KEY: Final = "tokenizer.chat_template.rerank"
"""Where a file keeps the prompt that its model was trained to score."""

_PLACES = re.compile(r"\{(query|document)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairMarkers:
    """Which tokens stand around and between the two texts of a pair."""

    before: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        *,
        bos: int | None,
        eos: int | None,
        sep: int | None,
        add_bos: bool,
        add_eos: bool,
        add_sep: bool,
    ) -> PairMarkers:
        """Decide by the vocabulary; SEP stands in for an EOS that it lacks."""
        begin = (bos,) if add_bos else ()
        end = (sep if eos is None else eos,) if add_eos else ()
        middle = (sep,) if add_sep else ()
        return cls(
            before=_known(begin), between=_known((*end, *middle)), after=_known(end)
        )


def _known(tokens: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(token for token in tokens if token is not None)


class PairInputs:
    """Builds the inputs of one loaded ranking model.

    Thread: any; nothing is changed after construction. Raises ModelError for a
    template that has no place for one of the texts: every score would be the same.
    """

    def __init__(
        self, vocab: Vocab, markers: PairMarkers, template: str | None, n_ctx: int
    ) -> None:
        self._vocab = vocab
        self._markers = markers
        self._n_ctx = n_ctx
        self._template = template
        self._index = MarkerIndex((*vocab.control_texts, *vocab.user_texts))
        if template is not None:
            places = set(_PLACES.findall(template))
            for name in ("query", "document"):
                if name not in places:
                    message = f"the file's rerank template has no place {{{name}}}"
                    raise ModelError(message)

    def build(self, request: RankRequest) -> VectorJob:
        """Make one input of each document, with the query.

        Raises RequestError naming the document, and InputTooLong with both numbers.
        """
        inputs = []
        n_tokens = 0
        with about("query"):
            tokens_of = self._beside(request.query)
        for i, document in enumerate(request.documents):
            where = f"{request.param}[{i}]"
            with about(where):
                tokens = tokens_of(document)
            if len(tokens) > self._n_ctx and request.truncate:
                tokens = self._cut(tokens_of, document)
            if len(tokens) > self._n_ctx:
                raise InputTooLong(
                    n_prompt=len(tokens), n_ctx=self._n_ctx, param=where, beside="query"
                )
            if not tokens:
                message = f"{where} and the query hold no text the model has tokens for"
                raise RequestError(message, param=where)
            n_tokens = add_tokens(n_tokens, tokens, request.param)
            inputs.append(tuple(tokens))
        return VectorJob(
            request_id=request.request_id,
            inputs=tuple(inputs),
            n_numbers=len(inputs),
            arrived_s=request.arrived_s,
        )

    def _beside(self, query: str) -> Callable[[str], list[int]]:
        """What makes an input of each document; reads the query once where it can."""
        markers, read = self._markers, self._vocab.tokenize_plain
        # Also in front of a template: what is wrong with the query is told of it alone.
        head = [*markers.before, *read(query), *markers.between]
        if self._template is not None:
            return partial(self._rendered, self._template, query)
        return lambda document: [*head, *read(document), *markers.after]

    def _cut(self, tokens_of: Callable[[str], list[int]], document: str) -> list[int]:
        """As much of the document's beginning as fits; too long is the query alone."""
        least, most = 0, len(document)
        while least < most:
            middle = (least + most + 1) // 2
            if len(tokens_of(document[:middle])) <= self._n_ctx:
                least = middle
            else:
                most = middle - 1
        return tokens_of(document[:least])

    def _rendered(self, template: str, query: str, document: str) -> list[int]:
        """Both texts in the template, tokenised as one: words join over its edges.

        Markers in the two texts stay plain: a document cannot write the answer.
        """
        (guard,) = free_characters((template, query, document), 1)
        texts = {
            "query": self._index.break_up(query, guard),
            "document": self._index.break_up(document, guard),
        }
        text = _PLACES.sub(lambda place: texts[place[1]], template)
        tokens: list[int] = []
        for part in text.split(guard):
            tokens += self._vocab.tokenize(part)
        return tokens
