"""The composition root: the only module that knows every part."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinetic import log
from kinetic.actors.receipt import ReceiptFacts, engine_identity
from kinetic.actors.system import ActorSystem, SystemOptions
from kinetic.errors import ShuttingDown
from kinetic.files.digest import BackgroundDigest
from kinetic.files.store import shards
from kinetic.loading import (
    Loaded,
    build_labels,
    cache_options,
    load,
    pair_inputs,
    state_rules,
    vector_inputs,
)
from kinetic.model.constraints.constraint import ConstraintCompiler
from kinetic.model.prompt import PromptBuilder
from kinetic.model.sampler_chain import prepare
from kinetic.model.vision.vision import Vision
from kinetic.receipts import signing
from kinetic.receipts.record import signer_json
from kinetic.web.fields.sampling import ModelFacts
from kinetic.web.http.server import check_address, listen
from kinetic.web.routes import application
from kinetic.web.service import Service

if TYPE_CHECKING:
    from kinetic.config import ServeOptions
    from kinetic.receipts.signing import Signer

_log = logging.getLogger(__name__)

KEEP_EVERY_S = 2.0
"""How long a slot is idle before its state is kept, while nothing runs."""

SWITCH_S = 0.0005
"""How long a Python thread runs while others wait for the interpreter."""

DRAIN_S = 10.0
"""How long running answers may go on after SIGTERM before they are ended."""


def serve(options: ServeOptions) -> int:
    """Load, listen and serve until a signal or a dead actor; the exit code.

    Raises ModelError, ReceiptError and AddressError.
    """
    # A thread that comes back from native code must not wait long for the others: one
    # stream runs at 0.96 of a plain loop's speed, against 0.90 with Python's own 5 ms.
    sys.setswitchinterval(SWITCH_S)
    check_address(options)
    # Before anything is loaded: a key that cannot be used is told at once.
    signer = None if options.sign_key is None else signing.load(options.sign_key)
    # Of the file as it is loaded, so what comes in its place later is told apart.
    digest = BackgroundDigest(shards(options.model))
    loaded = load(options)
    server = Server(loaded, options, digest, signer)
    with log.without_waiting():
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
                drafting=self._loaded.drafts.drafting,
                guesser=self._loaded.drafts.model,
                cache=cache_options(engine, self._options, self._loaded.plan),
                receipts=self._receipts(),
                encoder=self._loaded.projector,
                on_death=self._actor_died,
                build=build_labels(self._loaded.info),
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
        compiler = ConstraintCompiler(engine.model, engine.vocab)
        if engine.kind == "text":
            # The first held answer then waits for no vocabulary to be read.
            pool.submit(compiler.prepare)
        builder = PromptBuilder(
            engine.vocab,
            self._loaded.template,
            compiler,
            engine.n_ctx,
            vision=vision,
            prepare=partial(prepare, engine.model, n_ctx=engine.n_ctx),
        )
        texts, pairs = vector_inputs(engine), pair_inputs(engine)
        service = Service(
            info=self._loaded.info,
            options=self._options,
            actors=system,
            builder=builder,
            facts=self._facts(),
            pool=pool,
            # One reading of the file does for receipts and for Ollama's lists.
            digest=self._digest,
            vector_inputs=None if texts is None else texts.build,
            pair_inputs=None if pairs is None else pairs.build,
            receipt_key=self._receipt_key(),
        )
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
            piece=vocab.full_piece,
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
