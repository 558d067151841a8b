"""Vision encoders in tiny sizes, with the projection into a text model's embeddings.

Names and shapes are those that mtmd asks for. What matters to a test: embeddings that
depend on every part of a picture, and that are about as large as a token's.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scripts.gguf_file import Metadata, MetaValue, Tensor
from tests.support.weights import Weights

Named = Iterator[tuple[str, Tensor]]

_N_EMBD = 64
_N_FF = 128
_N_HEAD = 4
_N_LAYER = 2
_PATCH = 8
_MERGE = 2
_SIDE = 64  # pixels of a picture, or of a tile, whose size is fixed
_N_PATCHES = (_SIDE // _PATCH) ** 2


@dataclass(frozen=True, slots=True)
class Projector:
    """One kind of projector in a tiny size.

    Attributes:
        name: `clip.projector_type`.
        keys: Hyperparameters that only this kind has, by their full names.
        tensors: Draws the tensors for text embeddings of a width and a size.
    """

    name: str
    keys: Metadata
    tensors: Callable[[Weights, int, float], Named]

    def metadata(self, n_embd: int) -> Metadata:
        """All keys but the general ones, for text embeddings [n_embd]."""
        keys: dict[str, MetaValue] = {
            "general.architecture": "clip",
            "clip.has_vision_encoder": True,
            "clip.projector_type": self.name,
            "clip.use_gelu": True,
            "clip.vision.image_size": _SIDE,
            "clip.vision.patch_size": _PATCH,
            "clip.vision.embedding_length": _N_EMBD,
            "clip.vision.feed_forward_length": _N_FF,
            "clip.vision.projection_dim": n_embd,
            "clip.vision.block_count": _N_LAYER,
            "clip.vision.attention.head_count": _N_HEAD,
            "clip.vision.attention.layer_norm_epsilon": 1e-6,
            "clip.vision.image_mean": (0.5, 0.5, 0.5),
            "clip.vision.image_std": (0.5, 0.5, 0.5),
        }
        return {**keys, **self.keys}


def _linear(w: Weights, name: str, n_out: int, n_in: int, gain: float = 1.0) -> Named:
    yield f"{name}.weight", w.matrix(f"{name}.weight", n_out, n_in, gain=gain)
    yield f"{name}.bias", w.table(f"{name}.bias", n_out, size=0.1)


def _norm(w: Weights, name: str) -> Named:
    yield f"{name}.weight", w.norm(f"{name}.weight", _N_EMBD)
    yield f"{name}.bias", w.table(f"{name}.bias", _N_EMBD, size=0.1)


def _patches(w: Weights, name: str) -> Named:
    n_inputs = 3 * _PATCH * _PATCH
    kernel = w.matrix(name, _N_EMBD, n_inputs, gain=4.0)
    yield name, kernel.reshape(_N_EMBD, 3, _PATCH, _PATCH)


def _blocks(w: Weights) -> Named:
    for layer in range(_N_LAYER):
        block = f"v.blk.{layer}"
        yield from _norm(w, f"{block}.ln1")
        yield from _norm(w, f"{block}.ln2")
        for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
            yield from _linear(w, f"{block}.{name}", _N_EMBD, _N_EMBD, gain=1.5)
        yield from _linear(w, f"{block}.ffn_up", _N_FF, _N_EMBD)
        yield from _linear(w, f"{block}.ffn_down", _N_EMBD, _N_FF)


def _siglip(w: Weights) -> Named:
    yield from _patches(w, "v.patch_embd.weight")
    yield "v.patch_embd.bias", w.table("v.patch_embd.bias", _N_EMBD, size=0.1)
    place = "v.position_embd.weight"
    yield place, w.table(place, _N_PATCHES, _N_EMBD)
    yield from _blocks(w)
    yield from _norm(w, "v.post_ln")


def _gemma3_tensors(w: Weights, n_embd: int, size: float) -> Named:
    yield from _siglip(w)
    norm, name = "mm.soft_emb_norm.weight", "mm.input_projection.weight"
    yield norm, w.norm(norm, _N_EMBD)
    # Stored the other way round: the graph turns it before it multiplies.
    yield name, w.matrix(name, n_embd, _N_EMBD, gain=size).T.copy()


def _idefics3_tensors(w: Weights, n_embd: int, size: float) -> Named:
    yield from _siglip(w)
    name = "mm.model.fc.weight"
    yield name, w.matrix(name, n_embd, _N_EMBD * _MERGE**2, gain=size)


def _qwen2vl_tensors(w: Weights, n_embd: int, size: float) -> Named:
    # Two frames of a video would each have a kernel of their own.
    yield from _patches(w, "v.patch_embd.weight")
    yield from _patches(w, "v.patch_embd.weight.1")
    yield from _blocks(w)
    yield from _norm(w, "v.post_ln")
    n_merged = _N_EMBD * _MERGE**2
    yield from _linear(w, "mm.0", n_merged, n_merged)
    yield from _linear(w, "mm.2", n_embd, n_merged, gain=2 * size)


GEMMA3 = Projector(
    "gemma3", {"clip.vision.projector.scale_factor": _MERGE}, _gemma3_tensors
)
"""A picture of any shape becomes 16 tokens, which all see each other."""

IDEFICS3 = Projector(
    "idefics3",
    {
        "clip.vision.projector.scale_factor": _MERGE,
        "clip.vision.preproc_image_size": 2 * _SIDE,
    },
    _idefics3_tensors,
)
"""A picture is cut into up to four tiles with markers between, and shown whole too:
16 tokens each."""

QWEN2VL = Projector(
    "qwen2vl_merger", {"clip.vision.spatial_merge_size": _MERGE}, _qwen2vl_tensors
)
"""A picture keeps its shape: a token for 16 x 16 pixels, 8 tokens at least."""
