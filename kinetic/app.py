"""The composition root: the only module that knows every part."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from kinetic import __version__, paths
from kinetic.actors.cache import CacheOptions
from kinetic.actors.drafting import Drafting, DraftOptions, TextDrafter, why_off
from kinetic.actors.kept import StateRules
from kinetic.actors.plan import BatchPlan, alone_plan, uniform_plan
from kinetic.actors.receipt import ReceiptFacts, engine_identity
from kinetic.actors.system import ActorSystem, SystemOptions
from kinetic.digest import BackgroundDigest
from kinetic.errors import ModelError, ShuttingDown
from kinetic.model import ffi
from kinetic.model.chat.calls import FAMILIES, markers
from kinetic.model.chat.template import ChatTemplate
from kinetic.model.constraint import ConstraintCompiler
from kinetic.model.defaults import recommended_sampling
from kinetic.model.engine import EngineOptions, LlamaEngine, free_memory
from kinetic.model.identity import state_identity
from kinetic.model.probe import Verdict, probe
from kinetic.model.prompt import PromptBuilder
from kinetic.model.ranking import TEMPLATE_KEY, PairInputs, PairMarkers
from kinetic.model.vector_probe import probe_vectors
from kinetic.model.vectors import VectorInputs
from kinetic.model.vision import MARKERS, Vision
from kinetic.receipts import signing
from kinetic.receipts.record import signer_json
from kinetic.store import model_stem, shards
from kinetic.types import ModelInfo
from kinetic.web.routes import application
from kinetic.web.sampling import ModelFacts
from kinetic.web.server import check_address, listen
from kinetic.web.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kinetic.config import ServeOptions
    from kinetic.model.images import Projector
    from kinetic.receipts.signing import Signer

_log = logging.getLogger(__name__)

KEEP_EVERY_S = 2.0
"""How long a slot is idle before its state is kept, while nothing runs."""

DRAIN_S = 10.0
"""How long running answers may go on after SIGTERM before they are ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model in memory with the plan it is run by."""

    engine: LlamaEngine
    template: ChatTemplate
    plan: BatchPlan
    verdict: Verdict
    info: ModelInfo
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
    from kinetic.model.images import Projector, ProjectorOptions  # noqa: PLC0415

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


def choose_plan(engine: LlamaEngine, *, try_it: bool) -> tuple[BatchPlan, Verdict]:
    """The least strict plan that the loaded model is exact with."""
    if engine.kind != "text":
        return alone_plan(), _try_vectors(engine, try_it=try_it)
    if try_it:
        verdict = probe(engine)
    else:
        verdict = Verdict(is_row_invariant=False, reason="the probe is switched off")
    if verdict.is_row_invariant:
        return uniform_plan(n_sequences=engine.n_sequences), verdict
    return alone_plan(), verdict


def _try_vectors(engine: LlamaEngine, *, try_it: bool) -> Verdict:
    if not try_it:
        reason = "each input is run in passes of its own; the probe is switched off"
        return Verdict(is_row_invariant=False, reason=reason)
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
    if ffi.has_openmp():
        _log.warning("the engine is built with OpenMP, which slows the actors down")
    plan, verdict = choose_plan(engine, try_it=options.probe)
    remembered = " (remembered)" if verdict.is_remembered else ""
    _log.info("plan: %s, %s%s", plan.name, verdict.reason, remembered)
    _log.info("drafting: %s", drafting(engine, options, plan)[1])
    template = chat_template(engine, options.chat_template)
    info = model_info(engine, options, template, plan, verdict)
    if projector is not None:
        path = str(projector.path)
        info = replace(info, has_vision=True, projector_path=path)
    return Loaded(
        engine=engine,
        template=template,
        plan=plan,
        verdict=verdict,
        info=info,
        projector=projector,
    )


def chat_template(engine: LlamaEngine, given: str | None) -> ChatTemplate:
    """The model's chat template, or the one given in its place."""
    vocab = engine.vocab
    metadata = engine.metadata
    source = given or metadata.get("tokenizer.chat_template")
    tool_use = None if given else metadata.get("tokenizer.chat_template.tool_use")
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
        tool_use_source=tool_use,
        bos_token=vocab.text(vocab.bos),
        eos_token=vocab.text(vocab.eos),
        guarded=vocab.control_texts,
        structural=structural,
    )


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


def drafting(
    engine: LlamaEngine, options: ServeOptions, plan: BatchPlan
) -> tuple[Drafting | None, str]:
    """How slots draft (None: not at all), and what there is to say about it."""
    chosen = DraftOptions(most=options.draft_max, least=options.draft_min)
    n_rows = plan.rows_per_sequence
    if engine.kind != "text":
        return None, "off: nothing is generated"
    if why := why_off(chosen, n_rows=n_rows, can_cut=engine.can_cut):
        return None, f"off: {why}"
    found = Drafting(make=partial(TextDrafter, options=chosen), most=chosen.most)
    most = min(chosen.most, n_rows - 1)
    rule = "from repeated text and constraints, where it pays"
    if engine.model.n_swa > 0:
        rule += ", but not behind a sliding window that was put back"
    return found, f"up to {most} tokens {rule}"


def _free_disk(folder: Path) -> int:
    """Free bytes where a folder is or would be."""
    for place in (folder, *folder.parents):
        if place.exists():
            return shutil.disk_usage(place).free
    return 0


def model_info(
    engine: LlamaEngine,
    options: ServeOptions,
    template: ChatTemplate,
    plan: BatchPlan,
    verdict: Verdict,
) -> ModelInfo:
    """What the handlers tell of the model."""
    model, vocab, path = engine.model, engine.vocab, Path(options.model)
    drafts, how = drafting(engine, options, plan)
    n_rows = plan.rows_per_sequence
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
        n_draft=0 if drafts is None else min(drafts.most, n_rows - 1),
        drafting=how,
        pooling=engine.serving.pooling,
        n_vector=engine.n_vector,
        gives_probabilities=engine.serving.gives_probabilities,
        versions={"kinetic": __version__, **ffi.library_versions()},
    )


def vector_inputs(engine: LlamaEngine) -> VectorInputs | None:
    """What makes inputs of texts; None for other than embedding models."""
    if engine.kind != "embedding":
        return None
    return VectorInputs(engine.vocab, engine.n_ctx)


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


def _build(info: ModelInfo) -> dict[str, str]:
    """Labels of the build info among the metrics."""
    return {
        "version": __version__,
        "engine": info.versions.get("llama_cpp_python", ""),
        "model": info.id,
        "ftype": info.ftype,
        "plan": info.plan,
    }


def serve(options: ServeOptions) -> int:
    """Load, listen and serve until a signal or a dead actor; the exit code.

    Raises ModelError, and OSError when the address cannot be used.
    """
    check_address(options)
    # Before anything is loaded: a key that cannot be used is told at once.
    signer = None if options.sign_key is None else signing.load(options.sign_key)
    # Of the file as it is loaded, so what comes in its place later is told apart.
    digest = BackgroundDigest(shards(options.model))
    loaded = load(options)
    server = Server(loaded, options, digest, signer)
    return asyncio.run(server.run())


class Server:
    """The running process. Thread: the event loop's, except for `_actor_died`."""

    def __init__(
        self,
        loaded: Loaded,
        options: ServeOptions,
        digest: BackgroundDigest,
        signer: Signer | None = None,
    ) -> None:
        self._loaded = loaded
        self._options = options
        self._signer = signer
        self._digest = digest
        self._code = 0
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Serve until told to stop; the exit code."""
        loop = asyncio.get_running_loop()
        self._loop = loop
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        engine = self._loaded.engine
        system = ActorSystem(
            engine,
            engine.model,
            engine.vocab,
            SystemOptions(
                plan=self._loaded.plan,
                can_cut=engine.can_cut,
                line_limit=self._options.line_limit,
                rules=state_rules(engine),
                drafting=drafting(engine, self._options, self._loaded.plan)[0],
                cache=cache_options(engine, self._options, self._loaded.plan),
                receipts=self._receipts(),
                encoder=self._loaded.projector,
                on_death=self._actor_died,
                build=_build(self._loaded.info),
            ),
        )
        with ThreadPoolExecutor(2, thread_name_prefix="prompt") as pool:
            try:
                system.start()
                await self._listen(system, pool)
            finally:
                await loop.run_in_executor(None, system.stop)
        return self._code

    async def _listen(self, system: ActorSystem, pool: ThreadPoolExecutor) -> None:
        engine, projector = self._loaded.engine, self._loaded.projector
        vision = None
        if projector is not None:
            vision = Vision(projector, engine.vocab, engine.n_batch)
        builder = PromptBuilder(
            engine.vocab,
            self._loaded.template,
            ConstraintCompiler(engine.model, engine.vocab),
            engine.n_ctx,
            vision=vision,
        )
        texts, pairs = vector_inputs(engine), pair_inputs(engine)
        service = Service(
            info=self._loaded.info,
            options=self._options,
            actors=system,
            builder=builder,
            facts=self._facts(),
            pool=pool,
            vector_inputs=None if texts is None else texts.build,
            pair_inputs=None if pairs is None else pairs.build,
            receipt_key=self._receipt_key(),
        )
        # One reading of the file does for receipts and for Ollama's lists.
        service.digest = self._digest
        server = listen(application(service), self._options)
        self._say_where(server.bound_port)
        await self._until_stopped(system)
        server.stop()
        await self._wind_down(system, service)
        await self._loop.run_in_executor(None, system.keep_all)
        await asyncio.wait_for(server.close_all_connections(), DRAIN_S)

    async def _until_stopped(self, system: ActorSystem) -> None:
        """Wait for a signal; have idle slots' states kept meanwhile."""
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), KEEP_EVERY_S)
            system.keep_idle(self._loop.time(), KEEP_EVERY_S)

    def _receipts(self) -> ReceiptFacts | None:
        """What receipts tell of this server; models without text have none."""
        engine, info = self._loaded.engine, self._loaded.info
        if info.kind != "text":
            return None
        return ReceiptFacts(
            model_name=Path(info.path).name,
            size_bytes=info.size_bytes,
            architecture=engine.architecture,
            digest=self._digest,
            engine=engine_identity(engine, self._loaded.plan.name),
            n_ctx=engine.n_ctx,
            template=self._options.chat_template or None,
            signer=self._signer,
        )

    def _receipt_key(self) -> dict[str, Any] | None:
        if self._signer is None:
            return None
        key = signer_json(self._signer.public_key)
        _log.info("receipts are signed by key %s", key["fingerprint"])
        return key

    def _facts(self) -> ModelFacts:
        vocab, info = self._loaded.engine.vocab, self._loaded.info
        return ModelFacts(
            n_tokens=info.n_vocab,
            tokenize=vocab.tokenize_plain,
            detokenize=vocab.detokenize,
            ends=tuple(sorted(vocab.ends)),
            sampling=info.sampling,
            n_slots=info.n_slots,
            n_at_once=info.n_slots + self._options.line_limit,
            max_tokens=self._options.max_tokens,
            has_vision=info.has_vision,
        )

    async def _wind_down(self, system: ActorSystem, service: Service) -> None:
        """Let running answers end, then end those that do not."""
        system.drain()
        if self._code == 0 and await service.is_quiet(within_s=DRAIN_S):
            return
        _log.info("ending %d running requests", len(service.streams))
        system.end_open(ShuttingDown("the server is stopping"))
        await service.is_quiet(within_s=DRAIN_S)

    def _say_where(self, port: int) -> None:
        host = self._options.host
        shown = f"[{host}]" if ":" in host else host
        _log.info("serving %s at http://%s:%d/v1", self._loaded.info.id, shown, port)

    def _signalled(self) -> None:
        if self._stop.is_set():
            _log.warning("asked to stop again: leaving at once")
            raise SystemExit(1)
        _log.info("stopping: running answers have %.0f s to end", DRAIN_S)
        self._stop.set()

    def _actor_died(self, name: str, error: BaseException) -> None:
        """Any thread: say why and end the process with a code that is not zero."""
        _log.critical("%s died (%s): the server stops", name, error)
        self._code = 1
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)


def doctor(options: ServeOptions) -> str:
    """What `kinetic doctor` prints: the plan, why, and how memory fits."""
    from kinetic.model.engine import MIB, free_memory, sequence_bytes  # noqa: PLC0415

    free = free_memory()
    loaded = load(options)
    try:
        engine, info = loaded.engine, loaded.info
        per_slot = sequence_bytes(engine.metadata, engine.architecture, engine.n_ctx)
        versions = ffi.library_versions()
        lines = [
            ("model", f"{info.path}"),
            ("", f"{info.description}, {info.n_params / 1e6:.0f} M parameters"),
            ("serves", info.kind),
            ("plan", info.plan),
            ("because", info.plan_reason),
            ("drafting", info.drafting),
            ("engine", f"llama-cpp-python {versions['llama_cpp_python']}"),
            ("", f"{versions['system_info']}"),
            ("", f"libraries in {ffi.library_folder()}"),
            ("openmp", "yes: slower with actors" if ffi.has_openmp() else "no"),
            ("threads", str(engine.options.n_threads)),
            ("slots", f"{engine.n_sequences} of {engine.n_ctx} tokens"),
            ("memory", f"{free // MIB} MiB free before loading"),
            ("", f"{info.size_bytes // MIB} MiB for the weights"),
            ("", f"{per_slot // MIB} MiB for each slot's full context"),
            ("family", f"{loaded.template.family} calls"),
        ]
        if loaded.projector is not None:
            kind = loaded.projector.kind
            lines.append(("images", f"{info.projector_path} ({kind})"))
    finally:
        if loaded.projector is not None:
            loaded.projector.close()
        loaded.engine.close()
    return "\n".join(f"{name:10} {text}" for name, text in lines)


__all__ = ["ModelError", "doctor", "load", "serve"]
