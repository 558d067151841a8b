"""A place to run receipts again: the model file, loaded as small as will do."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tqdm import tqdm

from kinetic.actors.receipt import engine_identity
from kinetic.actors.system import ActorSystem, SystemOptions
from kinetic.config import MIB, BenchOptions
from kinetic.errors import InternalError, ModelError, RequestError
from kinetic.files import digest, gguf as gguf_header, paths, store
from kinetic.loading import chat_template, choose_plan, state_rules
from kinetic.model.constraints.constraint import ConstraintCompiler
from kinetic.model.engine.engine import (
    EngineOptions,
    LlamaEngine,
    check_file,
    sequence_bytes,
)
from kinetic.model.memory import free_memory
from kinetic.model.prompt import PromptBuilder, local_time
from kinetic.proof.follow import Follower, new_name
from kinetic.receipts.compare import tokens_to_draw
from kinetic.receipts.record import ModelIdentity
from kinetic.receipts.verify import Rerun
from kinetic.types import GenerationRequest

if TYPE_CHECKING:
    from types import TracebackType

    from kinetic.model.chat.template.template import ChatTemplate
    from kinetic.model.job import Job
    from kinetic.receipts.record import EngineIdentity, Receipt

LEAST_CTX: Final = 512
ANY_LENGTH: Final = 1 << 30
"""More than any prompt has; what fits is known from the receipt."""
HEADER_ITEMS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """A model in memory, its actors running."""

    path: Path
    engine: LlamaEngine
    system: ActorSystem
    compiler: ConstraintCompiler
    identity: EngineIdentity


class ModelBench:
    """Loads model files and runs receipts on them. Thread: one. A context manager."""

    def __init__(self, options: BenchOptions) -> None:
        self._options = options
        self._path: Path | None = None
        self._reserved = 0
        self._loaded: _Loaded | None = None
        self._templates: dict[str | None, ChatTemplate] = {}

    def __enter__(self) -> Self:
        """Nothing is loaded yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the actors and free the model."""
        self.close()

    def close(self) -> None:
        """Stop the actors and free the model."""
        loaded, self._loaded = self._loaded, None
        self._templates = {}
        if loaded is not None:
            loaded.system.stop()

    def reserve(self, receipts: Iterable[Receipt]) -> None:
        """Have the next model loaded large enough for all of these, if it fits."""
        self._reserved = max(map(_length, receipts), default=0)

    # --- The model file -------------------------------------------------------------

    def find_model(self, wanted: ModelIdentity) -> ModelIdentity | None:
        """The model file that was named, or the one here that has the digest.

        Raises ModelError when a file that was named cannot be read.
        """
        if self._options.model is not None:
            files = store.shards(self._options.model)
            check_file(files[0])
            found = self._identity(files)
            self._path = files[0]
            return found
        for files in _candidates():
            if _size(files) != wanted.size_bytes:
                continue
            found = self._identity(files)
            if found.sha256 == wanted.sha256:
                self._path = files[0]
                return found
        return None

    def _identity(self, files: tuple[Path, ...]) -> ModelIdentity:
        try:
            size = _size(files)
            with self._bar(size, f"reading {files[0].name}", "B") as progress:
                sha256 = digest.find(files, progress)
        except OSError as error:
            raise ModelError(f"cannot read {files[0]}: {error}") from error
        header = gguf_header.read_header(files[0], most_items=HEADER_ITEMS)
        return ModelIdentity(
            name=files[0].name,
            sha256=sha256,
            size_bytes=size,
            architecture=str(header.values.get("general.architecture", "")),
        )

    # --- Loading --------------------------------------------------------------------

    def engine(self, receipt: Receipt) -> EngineIdentity:
        """Load the model that was found, unless it is there, with room enough."""
        if self._path is None:
            raise InternalError("no model was found")
        loaded = self._loaded
        needed = _length(receipt)
        if loaded is None or loaded.path != self._path or loaded.engine.n_ctx < needed:
            self.close()
            loaded = self._loaded = self._load(self._path, needed)
        return loaded.identity

    def _load(self, path: Path, needed: int) -> _Loaded:
        options = self._options
        n_ctx = max(options.n_ctx, self._fitting(path, needed))
        with self._bar(100, f"loading {path.name}", "%") as progress:
            engine = LlamaEngine(
                path,
                EngineOptions(
                    n_ctx=n_ctx,
                    n_parallel=options.n_parallel,
                    n_threads=options.n_threads,
                    n_batch=options.n_batch,
                    n_gpu_layers=options.n_gpu_layers,
                ),
                progress=lambda done: progress(round(done * 100)),
            )
        if engine.kind != "text":
            engine.close()
            raise ModelError(f"{path.name} is no model that generates text")
        try:
            return self._start(path, engine)
        except BaseException:
            engine.close()
            raise

    def _start(self, path: Path, engine: LlamaEngine) -> _Loaded:
        plan, _ = choose_plan(engine, try_it=True)
        system = ActorSystem(
            engine,
            engine.model,
            engine.vocab,
            SystemOptions(
                plan=plan,
                can_cut=engine.can_cut,
                rules=state_rules(engine),
                line_limit=8,
                # What is open then ends with the reason.
                on_death=lambda _name, _error: None,
            ),
        )
        loaded = _Loaded(
            path=path,
            engine=engine,
            system=system,
            compiler=ConstraintCompiler(engine.model, engine.vocab),
            identity=engine_identity(engine, plan.name),
        )
        system.start()
        return loaded

    def _fitting(self, path: Path, needed: int) -> int:
        """A context for `needed` tokens: rounded up where there is memory for it.

        Rounded to powers of two, since what the probe finds is kept per size. Raises
        ModelError when there is no memory for it at all.
        """
        header = gguf_header.read_header(path, most_items=HEADER_ITEMS)
        values = {key: str(value) for key, value in header.values.items()}
        architecture = values.get("general.architecture", "")
        free = free_memory() - path.stat().st_size
        for n_ctx in (power_of_two(max(needed, self._reserved)), power_of_two(needed)):
            if self._bytes(values, architecture, n_ctx) <= free:
                return n_ctx
        if self._bytes(values, architecture, needed) > free:
            per_slot = sequence_bytes(values, architecture, needed) // MIB
            raise ModelError(
                f"running this receipt takes a context of {needed} tokens,"
                f" {per_slot} MiB a slot, and {max(free, 0) // MIB} MiB are free"
            )
        return needed

    def _bytes(self, values: dict[str, str], architecture: str, n_ctx: int) -> int:
        each = sequence_bytes(values, architecture, n_ctx)
        return each * max(self._options.n_parallel, 1)

    # --- Running --------------------------------------------------------------------

    def rerun(self, receipt: Receipt) -> Rerun:
        """Run the request again, as the server would; raises RequestError."""
        loaded = self._loaded
        if loaded is None:
            raise InternalError("no model is loaded")
        job = self._job(loaded, receipt)
        if job.prompt != receipt.request.prompt_tokens:
            return Rerun(prompt_tokens=job.prompt)
        recorded = receipt.output.tokens
        n_tokens = len(job.prompt) + len(recorded)
        with self._bar(n_tokens, "running again", " tokens") as progress:
            follower = Follower(loaded.system, loaded.engine.vocab, progress)
            return follower.follow(job, recorded)

    def _job(self, loaded: _Loaded, receipt: Receipt) -> Job:
        request = receipt.request
        for token, _ in request.sampling.logit_bias:
            loaded.engine.vocab.check(token, param="logit_bias")
        builder = PromptBuilder(
            loaded.engine.vocab,
            self._template(loaded.engine, request.template),
            loaded.compiler,
            ANY_LENGTH,
            now=_clock(request.rendered_at),
        )
        jobs = builder.build(
            GenerationRequest(
                request_id=new_name(),
                inputs=(request.inputs,),
                sampling=request.sampling,
                max_tokens=request.max_tokens,
                stops=request.stops,
                constraint=request.constraint,
                ignore_eos=request.ignore_eos,
                min_indent=request.min_indent,
            )
        )
        return replace(jobs[0], max_tokens=tokens_to_draw(receipt), progress=True)

    def _template(self, engine: LlamaEngine, given: str | None) -> ChatTemplate:
        if given == "":
            raise RequestError("the chat template is empty", param="template")
        if given not in self._templates:
            self._templates[given] = chat_template(engine, given)
        return self._templates[given]

    @contextlib.contextmanager
    def _bar(
        self, total: int, label: str, unit: str
    ) -> Iterator[Callable[[int], None]]:
        """A bar on standard error; what it gives is told how far things are."""
        with tqdm(
            total=total,
            desc=label,
            unit=unit,
            unit_scale=unit == "B",
            file=sys.stderr,
            disable=None if self._options.show_progress else True,
            leave=False,
        ) as bar:

            def show(done: int) -> None:
                bar.update(max(done - bar.n, 0))

            yield show


def power_of_two(n: int) -> int:
    """The smallest power of two that is not below `n` nor LEAST_CTX."""
    return max(LEAST_CTX, 1 << max(n - 1, 0).bit_length())


def _length(receipt: Receipt) -> int:
    """Positions that a re-run takes, one more than the receipt's tokens at most."""
    return len(receipt.request.prompt_tokens) + tokens_to_draw(receipt) + 1


def _size(files: tuple[Path, ...]) -> int:
    return sum(file.stat().st_size for file in files)


def _candidates() -> Iterator[tuple[Path, ...]]:
    """The model files that there are without naming one."""
    path = paths.default_model_path()
    if path.is_file():
        yield (path,)
    for model in store.stored_models():
        if model.path != path:
            yield tuple(model.files)


def _clock(fixed: datetime | None) -> Callable[[], datetime]:
    return local_time if fixed is None else lambda: fixed
