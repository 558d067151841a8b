"""A server's inside without the web: requests in, answers with receipts out."""

from __future__ import annotations

import contextlib
import itertools
import threading
from pathlib import Path

from kinetic.actors.messages import Failed, Finished
from kinetic.actors.receipt import ReceiptFacts, engine_identity
from kinetic.actors.system import ActorSystem, SystemOptions
from kinetic.files.digest import BackgroundDigest
from kinetic.loading import chat_template, choose_plan, state_rules
from kinetic.model.constraints.constraint import ConstraintCompiler
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.prompt import PromptBuilder
from kinetic.types import ChatInput, GenerationRequest, SamplingParams, TextInput
from tests.support.receipts import SIGNER

LIMIT_S = 240.0
_names = itertools.count()


class Ending:
    """A sink that keeps how each choice ended."""

    def __init__(self, system, request_id, n_jobs):
        self._system = system
        self._request_id = request_id
        self._n_jobs = n_jobs
        self._ended = threading.Condition()
        self.ends = {}

    def put(self, event):
        if not isinstance(event, Finished | Failed):
            return
        with self._ended:
            assert event.index not in self.ends, "ended twice"
            self.ends[event.index] = event
            self._system.forget(self._request_id, event.index)
            self._ended.notify_all()

    def wait(self):
        """The ends by index; every choice must have one."""
        with self._ended:
            done = self._ended.wait_for(lambda: len(self.ends) == self._n_jobs, LIMIT_S)
        assert done, "no end"
        return [self.ends[i] for i in sorted(self.ends)]


class Maker:
    """Makes answers and their receipts, several at once."""

    def __init__(
        self,
        path,
        *,
        template=None,
        signer=SIGNER,
        plan=None,
        drafting=None,
        **options,
    ):
        engine = LlamaEngine(
            Path(path),
            EngineOptions(
                **{"n_ctx": 1024, "n_parallel": 4, "n_threads": 1, **options}
            ),
        )
        self.engine = engine
        self.plan = plan or choose_plan(engine, try_it=True)[0]
        self.deaths: list[object] = []
        self.system = ActorSystem(
            engine,
            engine.model,
            engine.vocab,
            SystemOptions(
                plan=self.plan,
                can_cut=engine.can_cut,
                rules=state_rules(engine),
                line_limit=64,
                drafting=drafting,
                on_death=lambda name, error: self.deaths.append((name, error)),
                receipts=ReceiptFacts(
                    model_name=Path(path).name,
                    size_bytes=Path(path).stat().st_size,
                    architecture=engine.architecture,
                    digest=BackgroundDigest([Path(path)]),
                    engine=engine_identity(engine, self.plan.name),
                    n_ctx=engine.n_ctx,
                    template=template,
                    signer=signer,
                ),
            ),
        )
        self.builder = PromptBuilder(
            engine.vocab,
            chat_template(engine, template),
            ConstraintCompiler(engine.model, engine.vocab),
            engine.n_ctx,
        )

    def submit(self, request):
        """Start a request; its Ending."""
        jobs = self.builder.build(request)
        ending = Ending(self.system, request.request_id, len(jobs))
        self.system.submit(jobs, ending)
        return ending

    def receipts(self, request):
        """The receipts of a request's choices."""
        ends = self.submit(request).wait()
        assert all(isinstance(end, Finished) for end in ends), ends
        return [end.receipt for end in ends]

    def receipt(self, request):
        """The receipt of the only choice."""
        (found,) = self.receipts(request)
        return found


@contextlib.contextmanager
def making(path, **options):
    """A maker; afterwards nobody in it may have died."""
    maker = Maker(path, **options)
    maker.system.start()
    try:
        yield maker
    finally:
        maker.system.stop()
    assert not maker.deaths


def request(*inputs, **named):
    """A request with a receipt: greedy and short unless told otherwise."""
    given = {
        "request_id": f"made-{next(_names)}",
        "sampling": SamplingParams(temperature=0),
        "max_tokens": 20,
        "receipt": True,
        **named,
    }
    return GenerationRequest(inputs=inputs, **given)


def chat(*texts, **named):
    """A conversation that user and assistant take turns in, the user first."""
    roles = itertools.cycle(("user", "assistant"))
    messages = tuple(
        {"role": role, "content": text}
        for role, text in zip(roles, texts, strict=False)
    )
    return ChatInput(messages=messages, **named)


def text(prompt):
    """A prompt to be continued."""
    return TextInput(prompt=prompt)
