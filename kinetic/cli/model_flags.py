"""The flags that say which model is loaded, and how; several commands have them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kinetic.cli.flags import DEFAULTS, Flag, whole

_POOLINGS: Final = ("none", "mean", "cls", "last", "rank")

VERBOSE: Final = Flag(
    "-v --verbose", "verbose", "log the engine's own words too", action="store_true"
)


def _none_below_0(count: int) -> int:
    """llama.cpp's -1 and 0 both leave the choice to the program."""
    return max(count, 0)


_ENGINE_FLAGS: Final = (
    Flag(
        "-t --threads N",
        "n_threads",
        "threads of the engine [default: all processors]",
        whole(-1, to=_none_below_0),
    ),
    Flag(
        "-b --batch-size N",
        "n_batch",
        f"most tokens in one pass [default: {DEFAULTS.n_batch}]",
        whole(32),
    ),
    Flag("-ub --ubatch-size N", "ubatch", "accepted; a pass is never split", whole(1)),
    Flag(
        "-ngl --gpu-layers --n-gpu-layers N",
        "n_gpu_layers",
        "layers kept on a GPU, where the engine is built for one"
        f" [default: {DEFAULTS.n_gpu_layers}]",
        whole(0),
    ),
)


def engine_flags(*, context: str, slots: str) -> tuple[Flag, ...]:
    """The engine's flags; the words are for what a command takes in place of zeros."""
    return (
        Flag(
            "-c --ctx-size N",
            "n_ctx",
            f"context of one slot in tokens [default: {DEFAULTS.n_ctx}, {context}]",
            whole(0),
        ),
        Flag(
            "-np --parallel N",
            "n_parallel",
            f"slots, requests that run at once [default: {slots}]",
            whole(-1, to=_none_below_0),
        ),
        *_ENGINE_FLAGS,
    )


def _image_flag(bound: str, word: str) -> Flag:
    option = f"image_{bound}_tokens"
    return Flag(
        f"--image-{bound}-tokens N",
        option,
        f"{word} tokens of an image, for projectors that keep its shape"
        f" [default: {getattr(DEFAULTS, option)}, what the projector says]",
        whole(0),
    )


MODEL_FLAGS: Final = (
    Flag(
        "MODEL",
        "model_file",
        "a GGUF file, or the name of a pulled model [default: the small model that"
        " `make install` fetches]",
        Path,
        nargs="?",
    ),
    Flag("-m --model FILE", "model_flag", "the same", Path),
    *engine_flags(
        context="the model's own",
        slots="as many full contexts as half the free memory holds, at most 4",
    ),
    Flag(
        "-mm --mmproj FILE",
        "mmproj",
        "the projector (mmproj) file of a vision model, to read images with",
        Path,
    ),
    _image_flag("min", "fewest"),
    _image_flag("max", "most"),
    Flag(
        "--pooling",
        "pooling",
        "how token vectors become one [default: what the file says]",
        choices=_POOLINGS,
    ),
    Flag(
        "--rerank --reranking",
        "pooling",
        "the same as --pooling rank",
        action="store_const",
        const="rank",
    ),
    Flag(
        "--embedding --embeddings",
        "embeddings",
        "serve vectors or nothing: a file that says how is served so anyway",
        action="store_true",
    ),
    Flag(
        "--chat-template-file FILE",
        "chat_template",
        "a Jinja template in place of the model's own",
        Path,
    ),
    Flag(
        "--no-probe",
        "probe",
        "do not try the model's exactness: requests take turns",
        action="store_false",
    ),
    VERBOSE,
)
"""One model's, as it is served or looked at."""
