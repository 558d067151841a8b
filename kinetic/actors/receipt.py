"""The Receipt actor: who the model is, and the key that answers are signed with."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, assert_never

from kinetic import __version__
from kinetic.actors.base import KineticActor, tell
from kinetic.actors.messages import (
    Cancel,
    Digested,
    Failed,
    ReceiptMessage,
    Record,
)
from kinetic.errors import InternalError, KineticError, ReceiptError, ShuttingDown
from kinetic.model.engine.exactness import processor_name
from kinetic.model.engine.identity import engine_build, engine_settings
from kinetic.model.native.library import library_versions
from kinetic.receipts.record import (
    EngineIdentity,
    ModelIdentity,
    OutputRecord,
    Receipt as ReceiptRecord,
    RequestRecord,
    seal,
)
from kinetic.types import CallPiece, ChatInput, ContentPiece, ReasoningPiece

if TYPE_CHECKING:
    from kinetic.actors.peers import Peers
    from kinetic.files.digest import BackgroundDigest
    from kinetic.model.engine.engine import LlamaEngine
    from kinetic.receipts.signing import Signer

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptFacts:
    """What all receipts of one server have in common."""

    model_name: str
    size_bytes: int
    architecture: str
    digest: BackgroundDigest
    engine: EngineIdentity
    n_ctx: int
    template: str | None = None
    """The chat template that stands in place of the model's own."""
    signer: Signer | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


class Receipt(KineticActor):
    """Owns the model's identity and the signing key. Hears: Record, Digested, Cancel.

    Tells: the request's sink. The model file is read for its digest from the start on,
    by a thread of its own; what is to be recorded before that is done waits here, so
    that the slots and everybody else go on.
    """

    def __init__(self, facts: ReceiptFacts, peers: Peers) -> None:
        super().__init__(peers.on_death)
        self._facts = facts
        self._digested: Digested | None = None
        self._waiting: list[Record] = []

    def acquire(self) -> None:
        """Have the digest found."""
        self._facts.digest.ask().add_done_callback(self._tell_digest)

    def release(self) -> None:
        """End the requests that wait for their receipt."""
        waiting, self._waiting = self._waiting, []
        for record in waiting:
            _fail(
                record, ShuttingDown("the server stopped before the receipt was made")
            )

    def hear(self, message: ReceiptMessage) -> None:
        """One case per message, in the order of messages/receipt.py."""
        match message:
            case Record():
                self._record(message)
            case Digested():
                self._digest_known(message)
            case Cancel():
                self._cancel(message)
            case _:
                assert_never(message)

    def _tell_digest(self, found: Future[str]) -> None:
        """Any thread: hand the digest, or why there is none, to the actor."""
        error = found.exception()
        if error is None:
            tell(self.actor_ref, Digested(sha256=found.result()))
        else:
            reason = f"no receipt can be made, the model file cannot be read: {error}"
            tell(self.actor_ref, Digested(error=ReceiptError(reason)))

    def _record(self, record: Record) -> None:
        if self._digested is None:
            self._waiting.append(record)
        else:
            self._end(record, self._digested)

    def _digest_known(self, digested: Digested) -> None:
        self._digested = digested
        waiting, self._waiting = self._waiting, []
        for record in waiting:
            self._end(record, digested)

    def _cancel(self, cancel: Cancel) -> None:
        left = []
        for record in self._waiting:
            if record.job.request_id == cancel.request_id:
                _fail(record, cancel.error)
            else:
                left.append(record)
        self._waiting = left

    def _end(self, record: Record, digested: Digested) -> None:
        """End the request, with its receipt or by an error; exactly once."""
        if digested.error is not None:
            _fail(record, digested.error)
            return
        try:
            receipt = self._seal(record, digested.sha256)
        except ReceiptError as error:
            _fail(record, error)
            return
        except Exception as error:  # noqa: BLE001 - one answer's fault is not all others'
            _log.exception("a receipt could not be made")
            _fail(record, InternalError(f"the receipt could not be made: {error}"))
            return
        record.sink.put(replace(record.finished, receipt=receipt))

    def _seal(self, record: Record, sha256: str) -> dict[str, Any]:
        facts, job = self._facts, record.job
        asked = job.receipt
        if asked is None:
            raise InternalError("the job asks for no receipt")
        if job.images:
            # The prompt builder refuses these; a picture's rows are no tokens.
            raise ReceiptError("an answer about pictures can have no receipt yet")
        is_chat = isinstance(asked.inputs, ChatInput)
        receipt = ReceiptRecord(
            created=facts.now(),
            model=ModelIdentity(
                name=facts.model_name,
                sha256=sha256,
                size_bytes=facts.size_bytes,
                architecture=facts.architecture,
            ),
            engine=facts.engine,
            request=RequestRecord(
                inputs=asked.inputs,
                rendered_at=asked.rendered_at,
                template=facts.template if is_chat else None,
                prompt_tokens=job.prompt,
                sampling=job.sampling,
                stops=job.stops,
                constraint=asked.constraint,
                max_tokens=job.max_tokens,
                n_ctx=facts.n_ctx,
                min_indent=job.min_indent,
                ignore_eos=job.ignore_eos,
            ),
            output=output_record(record),
        )
        return seal(receipt, facts.signer)


def _fail(record: Record, error: KineticError) -> None:
    finished = record.finished
    failed = Failed(
        index=record.job.index,
        error=error,
        usage=finished.usage,
        timings=finished.timings,
    )
    record.sink.put(failed)


def output_record(record: Record) -> OutputRecord:
    """The answer as it was delivered."""
    pieces = record.pieces
    return OutputRecord(
        tokens=record.tokens,
        content="".join(p.text for p in pieces if isinstance(p, ContentPiece)),
        reasoning="".join(p.text for p in pieces if isinstance(p, ReasoningPiece)),
        tool_calls=tuple(p.call for p in pieces if isinstance(p, CallPiece)),
        finish=record.finished.finish,
    )


def engine_identity(engine: LlamaEngine, plan: str) -> EngineIdentity:
    """What makes answers here."""
    versions = library_versions()
    return EngineIdentity(
        kinetic=__version__,
        llama_cpp_python=versions["llama_cpp_python"],
        llama_cpp=versions["llama_cpp"],
        build=engine_build(),
        features=versions["system_info"],
        processor=processor_name(),
        settings=engine_settings(engine),
        plan=plan,
        gpu_layers=engine.options.n_gpu_layers,
    )
