"""A crowd with a seed: requests that come, leave, prefill and displace each other.

Everything that is drawn comes from one random number generator; the threads' timing does
not, so a seed makes a crowd likely to meet again, not the same. What every answer must be
is what a server of one slot, which keeps and drafts nothing, gives the same request.
"""

from __future__ import annotations

import contextlib
import random
import threading
from dataclasses import dataclass, replace

from kinetic.actors import base, cache, detokenizer
from kinetic.actors.messages import Matched, Spoken, TextEnded
from kinetic.errors import InternalError
from kinetic.model.constraints.constraint import ConstraintCompiler
from kinetic.types import ConstraintSpec, SamplingParams
from tests.support.answers import LIMIT_S, running
from tests.support.drafts import eager

N_CTX = 512
MOST_OPEN = 8
SAMPLINGS = (
    SamplingParams(temperature=0),
    SamplingParams(temperature=1.0, seed=7, top_k=0, top_p=1.0, min_p=0.0),
    SamplingParams(
        temperature=1.2,
        seed=11,
        repeat_penalty=1.3,
        presence_penalty=0.4,
        dry_multiplier=0.8,
        xtc_probability=0.5,
        typical_p=0.95,
    ),
    SamplingParams(temperature=1.0, seed=5, mirostat=2),
)
CONSTRAINTS = (
    ConstraintSpec(kind="json_object"),
    ConstraintSpec(kind="gbnf", source='root ::= ("yes " | "no " | "maybe ")+'),
)


@dataclass(frozen=True)
class Wish:
    """What decides an answer's bits; whoever wishes the same gets the same."""

    prompt: tuple[int, ...]
    sampling: SamplingParams
    max_tokens: int
    n_logprobs: int | None
    stops: tuple[str, ...]
    constraint: int | None

    def named(self, compiled):
        """The arguments of a harness's `job`."""
        made = None if self.constraint is None else compiled[self.constraint]
        return {
            "sampling": self.sampling,
            "max_tokens": self.max_tokens,
            "n_logprobs": self.n_logprobs,
            "stops": self.stops,
            "constraint": made,
        }


class Alone:
    """What a wish gets when nobody else is there. Each is computed once."""

    def __init__(self, harness):
        self._harness = harness
        self._compiled = compiled(harness)
        self._known = {}

    def answer(self, wish):
        """The answer, of a prompt that was run from its first token."""
        if wish not in self._known:
            h = self._harness
            h.answer((1, 2), max_tokens=0)
            found = h.answer(wish.prompt, **wish.named(self._compiled))
            assert found.usage.n_cached == 0
            self._known[wish] = found
        return self._known[wish]


def compiled(harness):
    """The constraints, for a harness's vocabulary."""
    compiler = ConstraintCompiler(harness.engine.model, harness.engine.vocab)
    return [compiler.compile(spec) for spec in CONSTRAINTS]


class Postman:
    """Delivers the Cache's answers late and in any order, the Detokenizer's late.

    Both only of the actors that `peers` are.
    """

    def __init__(self, rng, peers):
        self._rng = rng
        self._for = {ref.actor_urn for ref in (peers.scheduler, *peers.slots)}
        self._lock = threading.Lock()
        self._held = []

    @contextlib.contextmanager
    def at_work(self):
        """Take what those two tell while this lasts."""
        before = cache.tell, detokenizer.tell
        cache.tell = detokenizer.tell = self._take
        try:
            yield
        finally:
            cache.tell, detokenizer.tell = before
            self.deliver_all()

    def _take(self, ref, message):
        is_held = isinstance(message, Matched | Spoken | TextEnded)
        if not is_held or ref.actor_urn not in self._for:
            base.tell(ref, message)
            return
        with self._lock:
            self._held.append((ref, message))

    def deliver(self):
        """Let go of about half of it: a slot's words stay in their order."""
        with self._lock:
            names = dict.fromkeys(ref.actor_urn for ref, _ in self._held)
            lucky = {name for name in names if self._rng.random() < 0.5}
            mail = [pair for pair in self._held if pair[0].actor_urn in lucky]
            self._held = [p for p in self._held if p[0].actor_urn not in lucky]
        answers = [pair for pair in mail if isinstance(pair[1], Matched)]
        self._rng.shuffle(answers)
        for ref, message in mail:
            if not isinstance(message, Matched):
                base.tell(ref, message)
        for ref, message in answers:
            base.tell(ref, message)

    def deliver_all(self):
        """Let go of everything."""
        with self._lock:
            mail, self._held = self._held, []
        for ref, message in mail:
            base.tell(ref, message)


@dataclass
class Visit:
    """A request that was sent, and what each of its choices is to be."""

    collector: object
    wishes: tuple[Wish, ...]
    is_cancelled: bool = False


class Crowd:
    """Sends requests to a harness and compares what comes back."""

    def __init__(self, harness, alone, seed):
        self._h = harness
        self._alone = alone
        self._rng = random.Random(seed)
        self._compiled = compiled(harness)
        self._postman = Postman(random.Random(seed + 1), harness.system._peers)
        self._open = []
        self._prompts = [self._story(i) for i in range(6)]
        self.n_compared = 0
        self.n_cut_short = 0
        self.n_cached = 0

    @property
    def view(self):
        """What the server counted."""
        return self._h.system.view

    @property
    def metrics_page(self):
        """What the whole crowd did, as Prometheus reads it."""
        return self._h.system.metrics_page()

    def run(self, n_comparisons):
        """Go on until so many answers were compared."""
        acts = (self._ask, self._cancel, self._prefill, self._wait, self._keep)
        weights = (10, 2, 2, 4, 1)
        with self._postman.at_work():
            while self.n_compared < n_comparisons:
                self._rng.choices(acts, weights)[0]()
                if self._rng.random() < 0.7:
                    self._postman.deliver()
                while len(self._open) > MOST_OPEN:
                    self._wait()
            while self._open:
                self._wait()
        self._h.wait_idle()

    # --- What the crowd does --------------------------------------------------------

    def _ask(self):
        rng = self._rng
        wish = Wish(
            prompt=self._prompt(),
            sampling=rng.choice(SAMPLINGS),
            max_tokens=rng.randint(0, 24),
            n_logprobs=rng.choice((None, 0, 2)),
            stops=rng.choice(((), (), ("e",), ("and", "zz"))),
            constraint=rng.choice((None, None, None, 0, 1)),
        )
        n = rng.choice((1, 1, 1, 3))
        seed = rng.randint(0, 3)
        wishes = tuple(
            replace(wish, sampling=replace(wish.sampling, seed=seed + i))
            for i in range(n)
        )
        self._send(wishes, slot_id=rng.choice((None, None, None, 0)))

    def _prefill(self):
        wish = Wish(self._prompt(), SAMPLINGS[0], 0, None, (), None)
        visit = self._send((wish,), is_prefill=True, progress=True)
        # It ends where somebody else came: nothing of it is compared.
        visit.wishes = ()

    def _cancel(self):
        if not self._open:
            return
        visit = self._rng.choice(self._open)
        if self._rng.random() < 0.5:
            least = self._rng.randint(1, 6)
            self._until(visit, lambda c: c.n_tokens >= least or not c._left)
        visit.is_cancelled = True
        gone = InternalError("gone")
        self._h.system.cancel(visit.collector.request_id, gone)

    def _keep(self):
        self._h.system.keep_idle(self._rng.choice((0.0, 1e9)), 0.0)

    def _wait(self):
        if self._open:
            visit = self._open.pop(self._rng.randrange(len(self._open)))
            self._until(visit, lambda c: not c._left)
            self._compare(visit)

    # --- How ------------------------------------------------------------------------

    def _send(self, wishes, **named):
        h, request = self._h, f"crowd{self._rng.getrandbits(60)}"
        jobs = [
            h.job(
                wish.prompt,
                request_id=request,
                index=i,
                group=request if len(wishes) > 1 else None,
                **wish.named(self._compiled),
                **named,
            )
            for i, wish in enumerate(wishes)
        ]
        visit = Visit(h.submit(*jobs), wishes)
        self._open.append(visit)
        return visit

    def _until(self, visit, condition):
        """Wait for a request, and let the post through meanwhile."""
        collector = visit.collector
        for _ in range(int(LIMIT_S / 0.01)):
            self._postman.deliver_all()
            with collector._changed:
                if collector._changed.wait_for(lambda: condition(collector), 0.01):
                    return
        raise AssertionError("no end")

    def _compare(self, visit):
        collector = visit.collector
        assert collector.ends == len(collector.answers), "each ends exactly once"
        for i, wish in enumerate(visit.wishes):
            found, own = collector.answers[i], self._alone.answer(wish)
            if visit.is_cancelled and found.error is not None:
                # What came before the end was right.
                n = len(found.tokens)
                assert found.tokens == own.tokens[:n], wish
                assert found.logprobs == own.logprobs[: len(found.logprobs)], wish
                self.n_cut_short += 1
                continue
            assert type(found.error) is type(own.error), (found.error, wish)
            assert found.bits == own.bits, wish
            self.n_compared += 1
            self.n_cached += found.usage.n_cached > 0
            if found.tokens and self._rng.random() < 0.3:
                self._goes_on(wish.prompt, found.tokens)

    def _goes_on(self, prompt, tokens):
        """The next turn of a conversation, in place of some other prompt."""
        story = self._story(self._rng.randrange(90), self._rng.randint(1, 30))
        following = (*prompt, *tokens[: self._rng.randint(0, len(tokens))], *story)
        if len(following) < N_CTX - 64:
            self._prompts[self._rng.randrange(len(self._prompts))] = following

    def _prompt(self):
        """One that was seen before, a piece of one, or one that leaves it halfway."""
        rng = self._rng
        if rng.random() < 0.1:
            new = self._story(rng.randrange(90), rng.randint(2, 200))
            self._prompts[rng.randrange(len(self._prompts))] = new
        prompt = rng.choice(self._prompts)
        if rng.random() < 0.6:
            return prompt
        shared = prompt[: rng.randint(1, len(prompt))]
        if rng.random() < 0.5:
            return shared
        return (*shared, *self._story(rng.randrange(90), rng.randint(1, 60)))

    def _story(self, number, n=150):
        words = " ".join(f"{number} {(number * 31 + i * i) % 97} and" for i in range(n))
        ids = self._h.engine.vocab.tokenize(f"{chr(ord('!') + number)}: {words}")
        return tuple(ids[:n])


@contextlib.contextmanager
def gathered(path, plan_of, folder, seed, **options):
    """A crowd before three slots that draft and keep states in very little room."""
    size = {"n_ctx": N_CTX, "n_threads": 1, **options}
    room = {"memory_bytes": 600_000, "disk_bytes": 1_500_000, "folder": folder}
    with (
        running(path, plan_of, n_parallel=1, **size) as one,
        running(
            path, plan_of, n_parallel=3, cache=room, drafting=eager(6), **size
        ) as many,
    ):
        yield Crowd(many, Alone(one), seed)
