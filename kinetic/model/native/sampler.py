"""Chains of the engine's samplers, which draw tokens from logits."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kinetic.errors import InternalError, RequestError
from kinetic.model.native.library import lib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinetic.model.native.model import DrySettings, Model
    from kinetic.model.rows import Float32Array

LOWEST: Final = float(np.finfo(np.float32).min)
TOKEN_DATA: Final = np.dtype(
    [("id", np.int32), ("logit", np.float32), ("p", np.float32)]
)


class Sampler:
    """A chain of llama.cpp samplers over plain logits rows.

    Thread: one at a time. The chain owns its members.
    """

    def __init__(self, n_vocab: int) -> None:
        self._chain: Any = lib.llama_sampler_chain_init(
            lib.llama_sampler_chain_default_params()
        )
        self._data = np.empty(n_vocab, TOKEN_DATA)
        fresh = np.zeros(n_vocab, TOKEN_DATA)
        fresh["id"] = np.arange(n_vocab)
        # As bytes: field by field, or as records, they would be copied one by one.
        self._fresh, self._bytes = fresh.view(np.uint8), self._data.view(np.uint8)
        self._array: Any = lib.llama_token_data_array()
        self._address = self._data.ctypes.data_as(ctypes.POINTER(lib.llama_token_data))

    def add(self, name: str, *args: object) -> None:
        """Append `llama_sampler_init_<name>(*args)`."""
        self._append(name, getattr(lib, f"llama_sampler_init_{name}")(*args))

    def _append(self, name: str, member: Any) -> None:
        if not member:
            message = f"the engine refused the sampler {name}"
            raise InternalError(message)
        lib.llama_sampler_chain_add(self._chain, member)

    def add_dry(self, model: Model, settings: DrySettings) -> None:
        """Append DRY with its sequence breakers."""
        self._append("dry", model._dry(settings))  # noqa: SLF001 - native, so it stays here

    def add_logit_bias(self, n_vocab: int, biases: Sequence[tuple[int, float]]) -> None:
        """Append a bias per token; -inf bans one."""
        entries = (lib.llama_logit_bias * max(len(biases), 1))()
        for entry, (token, bias) in zip(entries, biases, strict=False):
            entry.token = token
            entry.bias = bias
        self.add("logit_bias", n_vocab, len(biases), entries)

    def draw(self, logits: Float32Array) -> int:
        """Apply the chain to one row [n_vocab] and return the drawn token.

        The chain's state is not advanced: call `accept` with what is kept.
        Raises RequestError when no token is left: it was the request that banned them.
        """
        data = self._data
        self._bytes[:] = self._fresh  # the chain has sorted what was there
        data["logit"] = logits
        array = self._array
        array.data = self._address
        array.size = len(data)
        array.selected = -1
        array.sorted = False
        lib.llama_sampler_apply(self._chain, ctypes.byref(array))
        # Where every token is banned, the chain still names one of them.
        if not 0 <= array.selected < array.size or (
            array.data[array.selected].logit == -math.inf
        ):
            message = (
                "logit_bias, and what the answer is held to, leave no token to draw"
            )
            raise RequestError(message, param="logit_bias")
        return int(array.data[array.selected].id)

    def candidates(self) -> list[tuple[int, float]]:
        """Tokens that survived the last `draw`, with their probabilities."""
        array = self._array
        return [
            (int(array.data[i].id), float(array.data[i].p)) for i in range(array.size)
        ]

    def accept(self, token: int) -> None:
        """Tell the chain that a token was kept (or stood in the prompt)."""
        lib.llama_sampler_accept(self._chain, token)

    def close(self) -> None:
        """Free the chain and its members."""
        if self._chain:
            lib.llama_sampler_free(self._chain)
            self._chain = None
