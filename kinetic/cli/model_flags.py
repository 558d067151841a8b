"""The flags that say which model is loaded, and how; several commands have them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kinetic.cli.flags import DEFAULTS, Flag, whole

_POOLINGS: Final = ("none", "mean", "cls", "last", "rank")

VERBOSE: Final = {
    Flag("-v --verbose", "verbose", action="store_true"): (
        "log the engine's own words too"
    )
}


def _none_below_0(count: int) -> int:
    """llama.cpp's -1 and 0 both leave the choice to the program."""
    return max(count, 0)


_ENGINE_FLAGS: Final = {
    Flag("-t --threads N", "n_threads", whole(-1, to=_none_below_0)): (
        "threads of the engine [default: all processors]"
    ),
    Flag("-b --batch-size N", "n_batch", whole(32)): (
        f"most tokens in one pass [default: {DEFAULTS.n_batch}]"
    ),
    Flag("-ub --ubatch-size N", "ubatch", whole(1)): "accepted; a pass is never split",
    Flag("-ngl --gpu-layers --n-gpu-layers N", "n_gpu_layers", whole(0)): (
        "layers kept on a GPU, where the engine is built for one"
        f" [default: {DEFAULTS.n_gpu_layers}]"
    ),
}


def engine_flags(*, context: str, slots: str) -> dict[Flag, str]:
    """The engine's flags; the words are for what a command takes in place of zeros."""
    return {
        Flag("-c --ctx-size N", "n_ctx", whole(0)): (
            f"context of one slot in tokens [default: {DEFAULTS.n_ctx}, {context}]"
        ),
        Flag("-np --parallel N", "n_parallel", whole(-1, to=_none_below_0)): (
            f"slots, requests that run at once [default: {slots}]"
        ),
        **_ENGINE_FLAGS,
    }


MODEL_FLAGS: Final = {
    Flag("MODEL", "model_file", Path, nargs="?"): (
        "a GGUF file, or the name of a pulled model [default: the small model that"
        " `make install` fetches]"
    ),
    Flag("-m --model FILE", "model_flag", Path): "the same",
    **engine_flags(
        context="the model's own",
        slots="as many full contexts as half the free memory holds, at most 4",
    ),
    Flag("-mm --mmproj FILE", "mmproj", Path): (
        "the projector (mmproj) file of a vision model, to read images with"
    ),
    Flag("--image-min-tokens N", "image_min_tokens", whole(0)): (
        "fewest tokens of an image, for projectors that keep its shape"
        f" [default: {DEFAULTS.image_min_tokens}, what the projector says]"
    ),
    Flag("--image-max-tokens N", "image_max_tokens", whole(0)): (
        "most tokens of an image, for projectors that keep its shape"
        f" [default: {DEFAULTS.image_max_tokens}, what the projector says]"
    ),
    Flag("--pooling", "pooling", choices=_POOLINGS): (
        "how token vectors become one [default: what the file says]"
    ),
    Flag("--rerank --reranking", "pooling", action="store_const", const="rank"): (
        "the same as --pooling rank"
    ),
    Flag("--embedding --embeddings", "embeddings", action="store_true"): (
        "serve vectors or nothing: a file that says how is served so anyway"
    ),
    Flag("--chat-template-file FILE", "chat_template", Path): (
        "a Jinja template in place of the model's own"
    ),
    Flag("--no-probe", "probe", action="store_false"): (
        "do not try the model's exactness: requests take turns"
    ),
    **VERBOSE,
}
"""One model's, as it is served or looked at."""
