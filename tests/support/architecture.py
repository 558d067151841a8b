"""What it takes to write a model of one architecture."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scripts.gguf_file import Metadata, Tensor
from tests.support.vocabularies import Vocabulary
from tests.support.weights import Weights

Named = Iterator[tuple[str, Tensor]]


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture in a tiny size.

    Attributes:
        name: `general.architecture`, which also prefixes the keys.
        keys: Hyperparameters, without the prefix.
        tensors: Draws the tensors for a vocabulary.
    """

    name: str
    keys: Metadata
    tensors: Callable[[Weights, Vocabulary], Named]

    def metadata(self) -> Metadata:
        """The hyperparameters under their full names."""
        prefixed = {f"{self.name}.{key}": value for key, value in self.keys.items()}
        return {"general.architecture": self.name, **prefixed}
