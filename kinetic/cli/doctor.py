"""`kinetic doctor`: the plan a model gets, why, and how memory fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinetic.config import MIB
from kinetic.loading import load, template_note
from kinetic.model.engine.engine import sequence_bytes
from kinetic.model.memory import free_memory
from kinetic.model.native.library import has_openmp, library_folder, library_versions

if TYPE_CHECKING:
    from kinetic.config import ServeOptions


def report(options: ServeOptions) -> str:
    """What `kinetic doctor` prints: the plan, why, and how memory fits."""
    free = free_memory()
    loaded = load(options)
    try:
        engine, info = loaded.engine, loaded.info
        per_slot = sequence_bytes(engine.metadata, engine.architecture, engine.n_ctx)
        versions = library_versions()
        lines = [
            ("model", f"{info.path}"),
            ("", f"{info.description}, {info.n_params / 1e6:.0f} M parameters"),
            ("serves", info.kind),
            ("plan", info.plan),
            ("because", info.plan_reason),
            ("drafting", info.drafting),
            ("engine", f"llama-cpp-python {versions['llama_cpp_python']}"),
            ("", f"{versions['system_info']}"),
            ("", f"libraries in {library_folder()}"),
            ("openmp", "yes: slower with actors" if has_openmp() else "no"),
            ("threads", str(engine.options.n_threads)),
            ("slots", f"{engine.n_sequences} of {engine.n_ctx} tokens"),
            ("memory", f"{free // MIB} MiB free before loading"),
            ("", f"{info.size_bytes // MIB} MiB for the weights"),
            ("", f"{per_slot // MIB} MiB for each slot's full context"),
            ("template", template_note(loaded.template) or "the model's, or as given"),
            ("family", f"{loaded.template.family} calls"),
        ]
        if loaded.projector is not None:
            kind = loaded.projector.kind
            lines.append(("images", f"{info.projector_path} ({kind})"))
    finally:
        if loaded.projector is not None:
            loaded.projector.close()
        if loaded.drafts.model is not None:
            loaded.drafts.model.close()
        loaded.engine.close()
    return "\n".join(f"{name:10} {text}" for name, text in lines)
