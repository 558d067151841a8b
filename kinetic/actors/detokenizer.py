"""The Detokenizer: makes text of the tokens that slots draw, and tells the requests."""

from __future__ import annotations

import secrets
import string
from typing import TYPE_CHECKING, assert_never

from kinetic.actors.base import KineticActor, tell
from kinetic.actors.messages import (
    BeginText,
    DetokenizerMessage,
    Drew,
    EndText,
    Failed,
    Finished,
    GenerationStarted,
    PrefixLost,
    PromptRan,
    Record,
    SlotFreed,
    Spoken,
    Started,
    TextEnded,
)
from kinetic.actors.text.answer import Answer
from kinetic.actors.text.output import OutputText
from kinetic.actors.text.scoring import PromptScores
from kinetic.errors import InternalError
from kinetic.model.chat.reply.calls import parser_for
from kinetic.types import Finish, Outcome

if TYPE_CHECKING:
    from kinetic.actors.peers import Peers
    from kinetic.model.vocab import Vocab

_ALPHABET = string.ascii_letters + string.digits
_PROGRESS_EVERY = 16  # generated tokens between two progress messages to Metrics


def new_call_id() -> str:
    """An id that every chat template takes: nine letters or digits."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(9))


class Detokenizer(KineticActor):
    """Owns the text of all running answers, and so decides where they end.

    Hears: BeginText, PrefixLost, PromptRan, Drew, EndText, SlotFreed. Tells: the
    requests' sinks, Slot, Receipt, Metrics. While it makes the text of a token, the
    Decoder runs the pass for the next one.
    """

    def __init__(self, vocab: Vocab, n_ctx: int, peers: Peers) -> None:
        super().__init__(peers.on_death)
        self._vocab = vocab
        self._n_ctx = n_ctx
        self._peers = peers
        self._answers: dict[int, Answer] = {}  # by slot

    def hear(self, message: DetokenizerMessage) -> None:
        """One case per message, in the order of messages/detokenizer.py."""
        match message:
            case BeginText():
                self._begin(message)
            case PrefixLost():
                answer = self._answers[message.slot_id]
                answer.n_cached = answer.n_prompt_done = 0
            case PromptRan():
                self._prompt_ran(message)
            case Drew():
                self._drew(message)
            case EndText():
                self._end_text(message)
            case SlotFreed():
                self._tell_end(self._answers.pop(message.slot_id))
            case _:
                assert_never(message)

    def _begin(self, begun: BeginText) -> None:
        job, slot_id = begun.job, begun.slot_id
        parser = None if job.output is None else parser_for(job.output, new_call_id)
        scores = None
        if job.prompt_logprobs:
            scores = PromptScores(self._vocab, job.prompt, job.n_logprobs or 0)
        answer = Answer(
            begun=begun,
            vocab=self._vocab,
            n_ctx=self._n_ctx,
            text=OutputText(stops=job.stops, parser=parser, min_indent=job.min_indent),
            visible=self._vocab.visible(job.visible_markers),
            scores=scores,
            n_cached=begun.n_cached,
            n_prompt_done=begun.n_cached,
        )
        self._answers[slot_id] = answer
        answer.put(
            Started(
                index=job.index,
                slot_id=slot_id,
                n_prompt=len(job.prompt),
                n_cached=begun.n_cached,
            )
        )
        tell(
            self._peers.metrics,
            GenerationStarted(
                slot_id=slot_id,
                job=job,
                n_cached=begun.n_cached,
                queued_s=answer.timings().queued_s,
            ),
        )
        answer.tell_progress()

    def _prompt_ran(self, ran: PromptRan) -> None:
        answer = self._answers[ran.slot_id]
        if answer.last is not None:
            return
        answer.prompt_ran(ran.n_done, ran.rows, is_last=ran.is_last)
        if not ran.is_last:
            tell(self._peers.metrics, answer.moved())

    def _drew(self, drew: Drew) -> None:
        answer = self._answers[drew.slot_id]
        if answer.last is not None:
            return
        told = -(-answer.n_generated // _PROGRESS_EVERY)
        outcome = answer.say(drew)
        if outcome is not None:
            self._ended(answer, outcome)
            return
        if -(-answer.n_generated // _PROGRESS_EVERY) > told:
            tell(self._peers.metrics, answer.moved())
        if answer.begun.tells_spoken:
            spoken = Spoken(
                generation=answer.begun.generation, n_tokens=answer.n_generated
            )
            tell(self._peers.slots[drew.slot_id], spoken)

    def _end_text(self, end: EndText) -> None:
        answer = self._answers[end.slot_id]
        if answer.last is not None:
            return
        if end.error is None:
            outcome = answer.finish(Finish(reason=end.outcome))
        else:
            outcome = answer.fail(end.outcome, end.error)
        self._ended(answer, outcome)

    def _ended(self, answer: Answer, outcome: Outcome) -> None:
        begun = answer.begun
        tell(self._peers.metrics, answer.ended(outcome))
        tell(
            self._peers.slots[begun.slot_id],
            TextEnded(generation=begun.generation, n_generated=answer.n_generated),
        )

    def _tell_end(self, answer: Answer) -> None:
        """Tell the request's end, or let Receipt tell it along with the receipt."""
        last, job = answer.last, answer.begun.job
        if last is None:
            raise InternalError(f"slot {answer.begun.slot_id} is free before its end")
        if job.receipt is None or not isinstance(last, Finished):
            answer.put(last)
            return
        if self._peers.receipt is None:
            error = InternalError("this server makes no receipts")
            answer.put(Failed(index=job.index, error=error))
            return
        tell(
            self._peers.receipt,
            Record(
                job=job,
                sink=answer.begun.sink,
                finished=last,
                tokens=tuple(answer.output),
                pieces=tuple(answer.delivered),
            ),
        )
