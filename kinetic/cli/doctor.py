"""`kinetic doctor`: the plan a model gets, why, and how memory fits."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from kinetic.cli.flags import Command
from kinetic.cli.model_flags import MODEL_FLAGS
from kinetic.cli.options import serve_options
from kinetic.config import MIB

if TYPE_CHECKING:
    from kinetic.config import ServeOptions
    from kinetic.loading import Loaded


def _run(arguments: argparse.Namespace) -> int:
    from kinetic.model.engine.build_choice import choose_library

    options = serve_options(arguments)
    choose_library(options.model, options.pooling)
    print(report(options))
    return 0


COMMAND: Final = Command(
    name="doctor",
    help="load a model and say which plan it gets, why, and what fits",
    run=_run,
    groups=(("model", MODEL_FLAGS),),
)


def report(options: ServeOptions) -> str:
    """What `kinetic doctor` prints: the plan, why, and how memory fits."""
    from kinetic.loading import load
    from kinetic.model.memory import free_memory

    free = free_memory()
    loaded = load(options)
    try:
        lines = _lines(loaded, free)
    finally:
        if loaded.projector is not None:
            loaded.projector.close()
        if loaded.drafts.model is not None:
            loaded.drafts.model.close()
        loaded.engine.close()
    return "\n".join(f"{name:10} {text}" for name, text in lines)


def _lines(loaded: Loaded, free: int) -> list[tuple[str, str]]:
    from kinetic.loading import template_note
    from kinetic.model.engine.engine import sequence_bytes
    from kinetic.model.native import library

    engine, info = loaded.engine, loaded.info
    per_slot = sequence_bytes(engine.metadata, engine.architecture, engine.n_ctx)
    versions = library.library_versions()
    lines = [
        ("model", f"{info.path}"),
        ("", f"{info.description}, {info.n_params / 1e6:.0f} M parameters"),
        ("serves", info.kind),
        ("plan", info.plan),
        ("because", info.plan_reason),
        ("drafting", info.drafting),
        ("engine", f"llama-cpp-python {versions['llama_cpp_python']}"),
        ("", f"{versions['system_info']}"),
        ("", f"libraries in {library.library_folder()}"),
        ("openmp", "yes: slower with actors" if library.has_openmp() else "no"),
        ("threads", str(engine.options.n_threads)),
        ("slots", f"{engine.n_sequences} of {engine.n_ctx} tokens"),
        ("memory", f"{free // MIB} MiB free before loading"),
        ("", f"{info.size_bytes // MIB} MiB for the weights"),
        ("", f"{per_slot // MIB} MiB for each slot's full context"),
        ("template", template_note(loaded.template) or "the model's, or as given"),
        ("family", f"{loaded.template.family} calls"),
    ]
    if loaded.projector is not None:
        lines.append(("images", f"{info.projector_path} ({loaded.projector.kind})"))
    return lines
