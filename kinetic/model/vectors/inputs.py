"""From texts to the token ids that become vectors. Runs off the event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinetic.errors import InputTooLong, RequestError, about
from kinetic.model.vectors.limits import add_tokens, check_numbers
from kinetic.types import VectorJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinetic.model.vocab import Vocab
    from kinetic.types import VectorRequest


class VectorInputs:
    """Builds the inputs of one loaded embedding model.

    Thread: any; nothing is changed after construction.
    """

    def __init__(
        self, vocab: Vocab, n_ctx: int, *, n_vector: int, is_pooled: bool = True
    ) -> None:
        """`n_vector` is a vector's length; without pooling each token has one."""
        self._vocab = vocab
        self._n_ctx = n_ctx
        self._n_vector = n_vector
        self._is_pooled = is_pooled
        around = vocab.tokenize("", add_special=True)
        n_head = 1 if vocab.add_bos else 0
        self._head = around[:n_head]
        self._tail = around[n_head:]

    def build(self, request: VectorRequest) -> VectorJob:
        """Make one input of each text.

        Raises RequestError naming the item, and InputTooLong with both numbers.
        """
        inputs = []
        n_tokens = 0
        for i, given in enumerate(request.inputs):
            where = f"{request.param}[{i}]" if request.is_list else request.param
            tokens = self._tokens(given, where)
            if len(tokens) > self._n_ctx:
                if not request.truncate:
                    raise InputTooLong(
                        n_prompt=len(tokens), n_ctx=self._n_ctx, param=where
                    )
                tokens = self._cut(tokens)
            n_tokens = add_tokens(n_tokens, tokens, request.param)
            inputs.append(tuple(tokens))
        n_vectors = len(inputs) if self._is_pooled else sum(map(len, inputs))
        check_numbers(n_vectors * self._n_vector, request.param)
        return VectorJob(
            request_id=request.request_id,
            inputs=tuple(inputs),
            n_numbers=n_vectors * self._n_vector,
            arrived_s=request.arrived_s,
        )

    def _tokens(self, given: str | Sequence[int], where: str) -> list[int]:
        if isinstance(given, str):
            return self._text(given, where)
        for token in given:
            self._vocab.check(token, param=where)
        return list(given)

    def _text(self, text: str, where: str) -> list[int]:
        # Markers in the text are markers, as for llama-server and the tokenizers that
        # these models were published with: users end queries with one themselves.
        with about(where):
            tokens = self._vocab.tokenize(text, add_special=True)
        tokens = without_repeats(tokens, self._head, self._tail)
        if not tokens:
            # An empty text is what stands around it, as for llama-server: one of them
            # must not cost a client the other texts of its batch.
            message = (
                f"{where} is {'blank' if text else 'an empty string'}, for which this"
                " model has no tokens"
            )
            raise RequestError(message, param=where)
        return tokens

    def _cut(self, tokens: list[int]) -> list[int]:
        """Leave the end away, but for the markers that close an input."""
        tail = self._tail
        if len(tail) >= self._n_ctx or tokens[len(tokens) - len(tail) :] != tail:
            return tokens[: self._n_ctx]
        return tokens[: self._n_ctx - len(tail)] + tail


def without_repeats(
    tokens: list[int], head: Sequence[int], tail: Sequence[int]
) -> list[int]:
    """Leave away the markers that a user's text already begins or ends with."""
    n_head, n_tail = len(head), len(tail)
    if n_head and tokens[:n_head] == tokens[n_head : 2 * n_head] == list(head):
        tokens = tokens[n_head:]
    n = len(tokens)
    if n_tail and tokens[n - n_tail :] == list(tail):
        before = n - 2 * n_tail
        if before >= n_head and tokens[before : n - n_tail] == list(tail):
            tokens = tokens[: n - n_tail]
    return tokens
