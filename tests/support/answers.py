"""Running jobs through the real actors and collecting what comes out."""

from __future__ import annotations

import contextlib
import itertools
import threading
from dataclasses import dataclass, field

from kinetic.actors.cache import CacheOptions
from kinetic.actors.messages import (
    Delta,
    Failed,
    Finished,
    Job,
    PromptScored,
    Started,
)
from kinetic.actors.policy.kept import StateRules
from kinetic.actors.system import ActorSystem, SystemOptions
from kinetic.model.drafts.draft_model import load_draft_model
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.types import ContentPiece, SamplingParams

LIMIT_S = 120.0
_names = itertools.count()


@dataclass
class Answer:
    """Everything one choice gave."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[tuple[object, ...]] = field(default_factory=list)
    text: str = ""
    pieces: list[object] = field(default_factory=list)
    scored: tuple[object, ...] = ()
    finish: object = None
    usage: object = None
    error: object = None
    started: int = 0

    @property
    def bits(self):
        """What must be equal bit for bit."""
        return (self.tokens, self.logprobs, self.text, self.finish)


class Collector:
    """A sink that keeps everything and lets tests wait."""

    def __init__(self, system, jobs):
        self._system = system
        self.request_id = jobs[0].request_id
        self.answers = {job.index: Answer() for job in jobs}
        self._left = set(self.answers)
        self._changed = threading.Condition()
        self.n_events = 0
        self.ends = 0

    def put(self, event):
        answer = self.answers[event.index]
        match event:  # type: ignore[exhaustive-match]
            case Started():
                answer.started += 1
                answer.usage = event
            case PromptScored():
                answer.scored = event.tokens
            case Delta():
                answer.tokens += event.tokens
                answer.logprobs += [
                    (e.token_id, e.piece, e.logprob, e.top) for e in event.logprobs
                ]
                answer.pieces += event.pieces
                answer.text += "".join(
                    p.text for p in event.pieces if isinstance(p, ContentPiece)
                )
            case Finished():
                answer.finish, answer.usage = event.finish, event.usage
            case Failed():
                answer.error = event.error
        with self._changed:
            self.n_events += 1
            if isinstance(event, Finished | Failed):
                self.ends += 1
                self._left.discard(event.index)
                self._system.forget(self.request_id, event.index)
            self._changed.notify_all()

    def wait(self, limit_s=LIMIT_S):
        """Wait for every choice's end and return the answers by index."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._left, limit_s), "no end"
        return [self.answers[i] for i in sorted(self.answers)]

    def wait_until(self, condition, limit_s=LIMIT_S):
        """Wait until `condition(collector)` holds after an event."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), limit_s)

    @property
    def n_tokens(self):
        return sum(len(a.tokens) for a in self.answers.values())


class Harness:
    """A running actor system over a real engine."""

    def __init__(
        self,
        engine,
        plan,
        *,
        line_limit=64,
        cache=None,
        encoder=None,
        drafting=None,
        guesser=None,
    ):
        self.engine = engine
        self.guesser = guesser
        self.deaths: list[tuple[str, BaseException]] = []
        rules = StateRules(
            can_cut=engine.can_cut and engine.model.n_swa <= 0,
            window=max(engine.model.n_swa, 0),
        )
        kept = None
        if cache is not None:
            kept = CacheOptions(
                memory_bytes=cache.get("memory_bytes", 1 << 30),
                folder=cache.get("folder"),
                disk_bytes=cache.get("disk_bytes", 1 << 30),
                identity=cache.get("identity", f"{engine.path.name} {plan.name}"),
                rules=rules,
            )
        self.system = ActorSystem(
            engine,
            engine.model,
            engine.vocab,
            SystemOptions(
                plan=plan,
                can_cut=engine.can_cut,
                line_limit=line_limit,
                rules=rules,
                drafting=drafting,
                guesser=guesser,
                cache=kept,
                encoder=encoder,
                on_death=lambda name, error: self.deaths.append((name, error)),
            ),
        )

    def job(self, prompt, **named):
        """A job for text or token ids; greedy unless told otherwise."""
        ids = self.engine.vocab.tokenize(prompt) if isinstance(prompt, str) else prompt
        sampling = named.pop("sampling", None) or SamplingParams(temperature=0)
        named.setdefault("max_tokens", 24)
        named.setdefault("n_logprobs", 2)
        named.setdefault("request_id", f"r{next(_names)}")
        named.setdefault("index", 0)
        return Job(prompt=tuple(ids), sampling=sampling, **named)

    def submit(self, *jobs):
        """Start jobs of one request and return their collector."""
        collector = Collector(self.system, jobs)
        self.system.submit(jobs, collector)
        return collector

    def answer(self, prompt, **named):
        """Run one job to its end, alone unless others were submitted."""
        (answer,) = self.submit(self.job(prompt, **named)).wait()
        return answer

    def wait_idle(self, limit_s=LIMIT_S):
        """Wait until no slot works and nobody waits."""
        done = threading.Event()
        deadline = limit_s / 0.01
        while self.system.view.n_idle != self.engine.n_sequences:
            deadline -= 1
            assert deadline > 0, "slots stay busy"
            done.wait(0.01)


@contextlib.contextmanager
def running(path, plan_of, **options):
    """A harness over a model file; `plan_of(engine)` gives its plan.

    `draft_model` is the file of a draft model, which the actors close.
    """
    draft_model = options.pop("draft_model", None)
    names = ("line_limit", "cache", "encoder", "drafting")
    own = {name: options.pop(name) for name in names if name in options}
    engine = LlamaEngine(path, EngineOptions(**options))
    if draft_model is not None:
        own["guesser"] = load_draft_model(draft_model, engine)
    harness = Harness(engine, plan_of(engine), **own)
    harness.system.start()
    try:
        yield harness
    finally:
        harness.system.stop()
        engine.close()
    assert not harness.deaths
