"""Tiny projectors with random weights: the second file of a vision model.

They are made on first use and kept, as the models of `tiny_models` are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

from gguf import GGMLQuantizationType, LlamaFileType

from scripts import gguf_file
from scripts.file_cache import cached_file
from tests.support import projectors, sources, weights

SMOLLM2_WIDTH = 576
TINY_WIDTH = 256

_WRITERS = (projectors, gguf_file, weights)
_SMOLLM2_SIZE = 0.12  # a token's embedding there is about as large
_DRAW = weights.Weights(seed=1)


@dataclass(frozen=True, slots=True)
class _Recipe:
    projector: projectors.Projector
    n_embd: int
    size: float

    def build(self) -> Path:
        """The file of this recipe, made if it is not there yet."""
        key = [
            repr((self.projector.name, self.n_embd, self.size, _DRAW)).encode(),
            version("gguf").encode(),
            *(Path(str(writer.__file__)).read_bytes() for writer in _WRITERS),
        ]
        stem = f"tiny-mmproj-{self.projector.name}-{self.n_embd}"
        return cached_file(sources.made_models(), stem, ".gguf", key, self._write)

    def _write(self, path: Path) -> None:
        metadata = {
            **self.projector.metadata(self.n_embd),
            "general.name": f"Tiny {self.projector.name} projector",
            "general.file_type": int(LlamaFileType.ALL_F32.value),
        }
        tensors = self.projector.tensors(_DRAW, self.n_embd, self.size)
        gguf_file.write_gguf(path, metadata, tensors, GGMLQuantizationType.F32)


def _build(projector: projectors.Projector, n_embd: int) -> Path:
    size = _SMOLLM2_SIZE if n_embd == SMOLLM2_WIDTH else 1.0
    return _Recipe(projector, n_embd, size).build()


def gemma3(n_embd: int = TINY_WIDTH) -> Path:
    """Gemma 3's kind: 16 tokens a picture, which all see each other."""
    return _build(projectors.GEMMA3, n_embd)


def idefics3(n_embd: int = TINY_WIDTH) -> Path:
    """SmolVLM's kind: tiles of 16 tokens with markers between; for `smolvlm`."""
    return _build(projectors.IDEFICS3, n_embd)


def qwen2vl(n_embd: int = TINY_WIDTH) -> Path:
    """Qwen-VL's kind: as many tokens as the picture has parts of 16 x 16 pixels."""
    return _build(projectors.QWEN2VL, n_embd)


PROJECTORS: Mapping[str, Callable[[], Path]] = MappingProxyType(
    {function.__name__: function for function in (gemma3, idefics3, qwen2vl)}
)
"""Every kind of projector, for the tiny models."""
