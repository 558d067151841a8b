"""Receipts of answers that nobody made, and a bench that runs them by the book."""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

from kinetic.receipts.canonical import canonical, sha256_hex
from kinetic.receipts.record import (
    EngineIdentity,
    ModelIdentity,
    OutputRecord,
    Receipt,
    RequestRecord,
    seal,
)
from kinetic.receipts.signing import Signer
from kinetic.receipts.verify import Rerun
from kinetic.types import (
    ChatInput,
    ConstraintSpec,
    Finish,
    Outcome,
    SamplingParams,
    TextInput,
    ToolCall,
)

SIGNER = Signer(bytes(range(32)))

ENGINE = EngineIdentity(
    kinetic="0.1.0",
    llama_cpp_python="0.3.36",
    llama_cpp="0.5.0",
    build="ab" * 32,
    features="AVX2 = 1 |",
    processor="A processor",
    settings="flash_attention=0",
    plan="uniform",
    gpu_layers=0,
)

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"town": {"type": "string"}, "day": {"minimum": 1.0}},
        },
    },
}

CHAT = Receipt(
    created=datetime(2026, 1, 31, 12, 30, 15, tzinfo=UTC),
    model=ModelIdentity(
        name="tiny.gguf", sha256="cd" * 32, size_bytes=123456, architecture="llama"
    ),
    engine=ENGINE,
    request=RequestRecord(
        inputs=ChatInput(
            messages=(
                {"role": "system", "content": "Überlege kurz."},
                {"role": "user", "content": [{"type": "text", "text": "Hi 😀"}]},
                {"role": "assistant", "content": None, "name": "a"},
            ),
            tools=(TOOL,),
            tool_choice="auto",
            parallel_tool_calls=True,
            template_kwargs={"enable_thinking": False, "z": 1.0, "a": 2**60},
        ),
        rendered_at=datetime(
            2026, 1, 31, 13, 30, 14, 123456, tzinfo=timezone(timedelta(hours=1), "CET")
        ),
        template=None,
        prompt_tokens=(1, 15, 42, 7),
        sampling=SamplingParams(
            seed=2**32 - 2,
            temperature=0.1 + 0.2,
            top_n_sigma=-1.0,
            logit_bias=((3, -math.inf), (5, -1.5)),
        ),
        stops=("\n\n", "END"),
        constraint=ConstraintSpec(
            kind="json_schema", source='{"b": 1, "a": [2.0]}', param="response_format"
        ),
        max_tokens=16,
        n_ctx=256,
        min_indent=0,
        ignore_eos=False,
    ),
    output=OutputRecord(
        tokens=(9, 8, 2),
        content="Hello",
        reasoning="hm",
        tool_calls=(ToolCall(id="a1b2c3d4e", name="weather", arguments="{}"),),
        finish=Finish(reason=Outcome.EOS),
    ),
)

TEXT = replace(
    CHAT,
    request=replace(
        CHAT.request,
        inputs=TextInput(prompt=("once ", 42, " upon")),
        rendered_at=None,
        constraint=None,
        max_tokens=None,
    ),
    output=replace(CHAT.output, reasoning="", tool_calls=()),
)


def resealed(value):
    """A copy whose digest is right again, as a forger would leave it."""
    body = {k: v for k, v in value.items() if k not in {"digest", "signature"}}
    return {**value, "digest": sha256_hex(canonical(body))}


def changed(value, path, new):
    """A copy with one value changed; the seals stay as they were."""
    found = copy.deepcopy(value)
    at = found
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = new
    return found


def leaves(value, path=()):
    """Paths of everything in a JSON value that holds nothing else."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from leaves(below, (*path, key))
    elif isinstance(value, list) and value:
        for i, below in enumerate(value):
            yield from leaves(below, (*path, i))
    else:
        yield path, value


class BookBench:
    """A bench whose model answers what the true receipt says, whatever is asked."""

    def __init__(self, true=CHAT, *, engine=ENGINE):
        self.true = true
        self.here = engine
        self.calls = []
        self.changes = {}

    def find_model(self, wanted):
        self.calls.append("find_model")
        return self.true.model

    def engine(self, receipt):
        self.calls.append("engine")
        return self.here

    def rerun(self, receipt):
        self.calls.append("rerun")
        found = Rerun(
            prompt_tokens=self.true.request.prompt_tokens, output=self.true.output
        )
        return replace(found, **self.changes)


def sealed_chat(*, signed=True):
    """The chat receipt as JSON."""
    return seal(CHAT, SIGNER if signed else None)


fresh_seeds = itertools.count(1000)
