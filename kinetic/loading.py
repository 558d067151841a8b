"""Loading a model: engine, plan, template, and what there is to say of it."""

from __future__ import annotations

import contextlib
import logging
import shutil
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from kinetic import __version__
from kinetic.actors.cache import CacheOptions
from kinetic.actors.drafting.drafter import DraftOptions
from kinetic.actors.drafting.set_up import DraftSetup, set_up
from kinetic.actors.policy.kept import StateRules
from kinetic.actors.policy.plan import BatchPlan, alone_plan, uniform_plan
from kinetic.errors import ModelError
from kinetic.files import paths
from kinetic.files.store import model_stem, shards
from kinetic.model.chat.reply.calls import FAMILIES, markers
from kinetic.model.chat.template.template import ChatTemplate
from kinetic.model.defaults import recommended_sampling
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.engine.exactness import ExactnessVerdict, probe_rows
from kinetic.model.engine.identity import state_identity
from kinetic.model.engine.vector_exactness import probe_vectors
from kinetic.model.memory import free_memory
from kinetic.model.native.library import has_openmp, library_versions
from kinetic.model.vectors.inputs import VectorInputs
from kinetic.model.vectors.ranking import TEMPLATE_KEY, PairInputs, PairMarkers
from kinetic.model.vision.vision import MARKERS
from kinetic.types import ModelInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kinetic.config import ServeOptions
    from kinetic.model.native.images import Projector

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model in memory with the plan it is run by."""

    engine: LlamaEngine
    template: ChatTemplate
    plan: BatchPlan
    verdict: ExactnessVerdict
    info: ModelInfo
    drafts: DraftSetup
    projector: Projector | None = None
    """Reads pictures for the model."""


@contextlib.contextmanager
def _progress(label: str) -> Iterator[Callable[[float], None]]:
    """A bar that shows a share from 0 to 1 on standard error."""
    with tqdm(
        total=100,
        desc=label,
        unit="%",
        file=sys.stderr,
        bar_format="{desc}: {bar} {n:.0f}%",
    ) as bar:

        def show(done: float) -> None:
            bar.update(max(done * 100 - bar.n, 0))

        yield show


def load(options: ServeOptions) -> Loaded:
    """Load the model, probe it and choose the plan. Raises ModelError."""
    _log.info("kinetic %s loads %s", __version__, options.model)
    started = time.monotonic()
    with _progress("loading the model") as progress:
        engine = LlamaEngine(options.model, engine_options(options), progress=progress)
    projector = None
    try:
        _check_kind(engine, options)
        projector = load_projector(engine, options)
        return _describe(engine, projector, options, started)
    except BaseException:
        if projector is not None:
            projector.close()
        engine.close()
        raise


def load_projector(engine: LlamaEngine, options: ServeOptions) -> Projector | None:
    """The projector that the options name. Raises ModelError."""
    if options.mmproj is None:
        return None
    if engine.kind != "text":
        raise ModelError("--mmproj goes with a model that serves text")
    # It loads a library that only vision models need.
    from kinetic.model.native.images import Projector, ProjectorOptions  # noqa: PLC0415

    projector = Projector(
        options.mmproj,
        engine.model,
        ProjectorOptions(
            n_threads=engine.options.n_threads,
            min_tokens=options.image_min_tokens,
            max_tokens=options.image_max_tokens,
        ),
    )
    _log.info("images are read with %s (%s)", options.mmproj.name, projector.kind)
    return projector


def _check_kind(engine: LlamaEngine, options: ServeOptions) -> None:
    if options.embeddings and engine.kind == "text":
        raise ModelError(
            f"{options.model.name} does not say how its vectors are pooled: add"
            " --pooling mean, cls or last to --embeddings"
        )


def engine_options(options: ServeOptions) -> EngineOptions:
    """What of the server's options concerns the engine."""
    return EngineOptions(
        n_ctx=options.n_ctx,
        n_parallel=options.n_parallel,
        n_batch=options.n_batch,
        n_threads=options.n_threads,
        n_gpu_layers=options.n_gpu_layers,
        pooling=options.pooling,
    )


def choose_plan(
    engine: LlamaEngine, *, try_it: bool
) -> tuple[BatchPlan, ExactnessVerdict]:
    """The least strict plan that the loaded model is exact with."""
    if engine.kind != "text":
        return alone_plan(), _try_vectors(engine, try_it=try_it)
    if try_it:
        verdict = probe_rows(engine)
    else:
        verdict = ExactnessVerdict(
            is_row_invariant=False, reason="the probe is switched off"
        )
    if verdict.is_row_invariant:
        return uniform_plan(n_sequences=engine.n_sequences), verdict
    return alone_plan(), verdict


def _try_vectors(engine: LlamaEngine, *, try_it: bool) -> ExactnessVerdict:
    if not try_it:
        reason = "each input is run in passes of its own; the probe is switched off"
        return ExactnessVerdict(is_row_invariant=False, reason=reason)
    verdict = probe_vectors(engine)
    if not verdict.is_row_invariant:
        _log.warning("vectors are not exact on this machine: %s", verdict.reason)
    return verdict


def _describe(
    engine: LlamaEngine,
    projector: Projector | None,
    options: ServeOptions,
    started: float,
) -> Loaded:
    _log.info(
        "loaded in %.1f s: %s, %d slots of %d tokens",
        time.monotonic() - started,
        engine.model.description,
        engine.n_sequences,
        engine.n_ctx,
    )
    if has_openmp():
        _log.warning("the engine is built with OpenMP, which slows the actors down")
    plan, verdict = choose_plan(engine, try_it=options.probe)
    remembered = " (remembered)" if verdict.is_remembered else ""
    _log.info("plan: %s, %s%s", plan.name, verdict.reason, remembered)
    template = chat_template(engine, options.chat_template)
    if engine.kind == "text" and (note := template_note(template)):
        _log.warning("chat template: %s", note)
    info = model_info(engine, options, template, plan, verdict)
    if projector is not None:
        path = str(projector.path)
        info = replace(info, has_vision=True, projector_path=path)
    chosen = DraftOptions(most=options.draft_max, least=options.draft_min)
    drafts = set_up(engine, plan, chosen, options.draft_model)
    _log.info("drafting: %s", drafts.how)
    info = replace(info, n_draft=drafts.n_draft, drafting=drafts.how)
    return Loaded(
        engine=engine,
        template=template,
        plan=plan,
        verdict=verdict,
        info=info,
        drafts=drafts,
        projector=projector,
    )


def chat_template(engine: LlamaEngine, given: str | None) -> ChatTemplate:
    """The model's chat template, or the one given in its place."""
    vocab = engine.vocab
    metadata = engine.metadata
    own = given is None
    source = metadata.get("tokenizer.chat_template") if own else given
    tool_use = metadata.get("tokenizer.chat_template.tool_use") if own else None
    known = {text for family in FAMILIES for text in markers(family)}
    structural = [
        text
        for text in vocab.user_texts
        if text in known or (source is not None and text in source)
    ]
    # Also for models that read no pictures, so that texts have the same ids anywhere.
    structural += MARKERS
    return ChatTemplate(
        source,
        tool_use_source=tool_use or None,
        bos_token=vocab.text(vocab.bos),
        eos_token=vocab.text(vocab.eos),
        guarded=vocab.control_texts,
        structural=structural,
    )


def template_note(template: ChatTemplate) -> str | None:
    """What an operator should know of a template that is not what one expects."""
    if template.is_empty:
        return "empty, so chats are refused; --chat-template-file gives another"
    if not template.is_own:
        return "none in the file, so ChatML is used; --chat-template-file gives another"
    return None


def state_rules(engine: LlamaEngine) -> StateRules:
    """What the model's memory allows; measured, see docs/exactness.md."""
    window = max(engine.model.n_swa, 0)
    return StateRules(can_cut=engine.can_cut and window == 0, window=window)


def cache_options(
    engine: LlamaEngine, options: ServeOptions, plan: BatchPlan
) -> CacheOptions | None:
    """What states are kept; None for models that have none, or where asked so."""
    memory = options.cache_ram_bytes
    if memory is None:
        memory = free_memory() // 4
    folder = options.cache_dir or paths.cache_dir("states")
    disk = options.cache_disk_bytes
    if disk is None:
        disk = min(_free_disk(folder) // 10, 8 << 30)
    if engine.kind != "text" or (memory == 0 and disk == 0):
        return None
    return CacheOptions(
        memory_bytes=memory,
        folder=folder if disk else None,
        disk_bytes=disk,
        identity=state_identity(engine, plan.name),
        rules=state_rules(engine),
    )


def _free_disk(folder: Path) -> int:
    """Free bytes where a folder is or would be."""
    try:
        for place in (folder, *folder.parents):
            if place.exists():
                return shutil.disk_usage(place).free
    except OSError as error:
        _log.warning("no states are kept in %s: %s", folder, error.strerror)
    return 0


def model_info(
    engine: LlamaEngine,
    options: ServeOptions,
    template: ChatTemplate,
    plan: BatchPlan,
    verdict: ExactnessVerdict,
) -> ModelInfo:
    """What the handlers tell of the model."""
    model, vocab, path = engine.model, engine.vocab, Path(options.model)
    return ModelInfo(
        id=options.alias or model_stem(path.name),
        path=str(path),
        kind=engine.kind,
        architecture=engine.architecture,
        description=model.description,
        ftype=model.ftype,
        n_params=model.n_params,
        size_bytes=sum(part.stat().st_size for part in shards(path)),
        n_vocab=model.n_vocab,
        n_embd=model.n_embd,
        n_ctx_train=model.n_ctx_train,
        n_ctx=engine.n_ctx,
        n_slots=engine.n_sequences,
        vocab_type=model.vocab_type,
        created=int(path.stat().st_mtime),
        metadata=engine.metadata,
        sampling=recommended_sampling(engine.metadata),
        chat_template=template.source,
        template_caps=template.capabilities(),
        knows_thinking=template.knows_think,
        bos_token=vocab.text(vocab.bos),
        eos_token=vocab.text(vocab.eos),
        plan=plan.name,
        plan_reason=verdict.reason,
        pooling=engine.serving.pooling,
        n_vector=engine.n_vector,
        gives_probabilities=engine.serving.gives_probabilities,
        versions={"kinetic": __version__, **library_versions()},
    )


def vector_inputs(engine: LlamaEngine) -> VectorInputs | None:
    """What makes inputs of texts; None for other than embedding models."""
    if engine.kind != "embedding":
        return None
    return VectorInputs(
        engine.vocab,
        engine.n_ctx,
        n_vector=engine.n_vector,
        is_pooled=engine.serving.pooling != "none",
    )


def pair_inputs(engine: LlamaEngine) -> PairInputs | None:
    """What makes inputs of documents; None for other than ranking models."""
    if engine.kind != "rerank":
        return None
    model = engine.model
    markers = PairMarkers.of(
        bos=model.bos if model.bos >= 0 else None,
        eos=model.eos if model.eos >= 0 else None,
        sep=model.sep if model.sep >= 0 else None,
        add_bos=model.add_bos,
        add_eos=model.add_eos,
        add_sep=model.add_sep,
    )
    template = engine.metadata.get(TEMPLATE_KEY)
    return PairInputs(engine.vocab, markers, template, engine.n_ctx)


def build_labels(info: ModelInfo) -> dict[str, str]:
    """Labels of the build info among the metrics."""
    return {
        "version": __version__,
        "engine": info.versions.get("llama_cpp_python", ""),
        "model": info.id,
        "ftype": info.ftype,
        "plan": info.plan,
    }
