"""Is a receipt true? The steps of a verification and what each outcome means. Pure.

What needs a model is given from outside as a `Bench`: kinetic/rerun.py has one that
loads the file, tests have their own. From the cheapest check to the dearest:

    shape and digest -> signature -> model file -> engine -> prompt -> tokens -> text
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from kinetic.errors import KineticError, ReceiptError, RequestError
from kinetic.receipts import schema
from kinetic.receipts.canonical import sha256_hex
from kinetic.receipts.compare import contradiction, shown, wrong_output, wrong_prompt
from kinetic.receipts.record import EngineIdentity
from kinetic.receipts.signing import same_fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinetic.receipts.record import ModelIdentity, OutputRecord, Receipt, Sealed
    from kinetic.receipts.signing import PublicKey


class Outcome(IntEnum):
    """What became of a receipt; the number is the exit code of verify-receipt."""

    PROVEN = 0
    """Run again, the model gave every token, and the text and its end are theirs."""
    DIFFERS = 1
    """Run again, the model gave something else, or the receipt contradicts itself."""
    UNREADABLE = 2
    """No receipt, not whole, altered, or not to be run by anybody."""
    OTHER_MODEL = 3
    """The model file here is not the one that the receipt names."""
    BAD_SIGNATURE = 4
    """The signature is wrong, missing though asked for, or another key's."""
    UNDECIDED = 5
    """This machine cannot tell: another engine or plan, or not enough memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Whose signature is asked for; nobody's where both are None."""

    public_key: PublicKey | None = None
    fingerprint: str | None = None

    @property
    def is_set(self) -> bool:
        """Whether an unsigned receipt will not do."""
        return self.public_key is not None or self.fingerprint is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first token that came out otherwise."""

    at: int
    """Index in the answer's tokens."""
    recorded: str
    """Token and probability as one says them, such as `12 " Paris" (p = 0.31)`."""
    drawn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """What running a receipt's request again gave."""

    prompt_tokens: tuple[int, ...]
    """What the messages, or the prompt's text, come to here. Where that is not the
    recorded prompt nothing was run and the rest is empty."""
    output: OutputRecord | None = None
    """None where a token differed."""
    difference: Difference | None = None


class Bench(Protocol):
    """A place where receipts can be run again."""

    def find_model(self, wanted: ModelIdentity) -> ModelIdentity | None:
        """The model to use: the wanted one, or what there is in its place.

        Raises ModelError when the file cannot be read.
        """

    def engine(self, receipt: Receipt) -> EngineIdentity:
        """Load what the receipt needs and say what would run it.

        Raises ModelError when it cannot be loaded.
        """

    def rerun(self, receipt: Receipt) -> Rerun:
        """Run the request again.

        Raises RequestError for a request that cannot be served at all.
        """


@dataclass(slots=True)
class Report:
    """What was checked, step by step, and the outcome."""

    outcome: Outcome = Outcome.UNDECIDED
    steps: list[Step] = field(default_factory=list)

    def say(self, mark: str, text: str) -> None:
        """Add a step: "ok", "note", "warning" or "failed"."""
        self.steps.append(Step(mark, text))

    def end(self, outcome: Outcome, text: str) -> Report:
        """Add the last step."""
        self.outcome = outcome
        self.say("ok" if outcome is Outcome.PROVEN else "failed", text)
        return self


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a report."""

    mark: str
    text: str


def verify(value: Any, bench: Bench, *, pin: Pin, anyway: bool = False) -> Report:
    """Verify one receipt.

    Args:
        value: Decoded JSON from anywhere.
        bench: Where to run it.
        pin: Whose signature it must bear.
        anyway: Run it also where engine or plan differ from the receipt's; agreement
            then proves the same, a difference proves nothing.

    Returns:
        The report; every fault of the receipt is an outcome, not an exception.
    """
    report = Report()
    try:
        sealed = schema.read(value)
        _check_digest(sealed)
    except ReceiptError as error:
        return report.end(Outcome.UNREADABLE, str(error))
    report.say("ok", "the receipt is well-formed and its digest is right")
    if (wrong := wrong_signature(sealed, pin)) is not None:
        return report.end(Outcome.BAD_SIGNATURE, wrong)
    _say_signer(sealed, pin, report)
    if (wrong := contradiction(sealed.receipt)) is not None:
        return report.end(Outcome.DIFFERS, wrong)
    try:
        return _judge(sealed.receipt, bench, report, anyway=anyway)
    except RequestError as error:
        return report.end(Outcome.UNREADABLE, f"the request cannot be run: {error}")
    except KineticError as error:
        return report.end(Outcome.UNDECIDED, str(error))


# --- Seals --------------------------------------------------------------------------


def _check_digest(sealed: Sealed) -> None:
    if sha256_hex(sealed.message) != sealed.digest:
        raise ReceiptError("the receipt was altered: its digest is another one")
    signer = sealed.signer
    if signer is None and sealed.signature is not None:
        raise ReceiptError("the receipt has a signature and names no signer")


def wrong_signature(sealed: Sealed, pin: Pin) -> str | None:
    """What is wrong with the signature, if anything is."""
    signer = sealed.signer
    if signer is None:
        if pin.is_set:
            return "the receipt is not signed, and a signature is asked for"
        return None
    if sealed.signature is None:
        return "the receipt names a signer, and its signature is missing"
    if not signer.accepts(sealed.message, sealed.signature):
        return f"the signature is not the one of key {signer.fingerprint}"
    if pin.public_key is not None and pin.public_key != signer:
        return (
            f"signed by key {signer.fingerprint}, not by {pin.public_key.fingerprint},"
            " which is asked for"
        )
    if pin.fingerprint is not None and not same_fingerprint(
        pin.fingerprint, signer.fingerprint
    ):
        return (
            f"signed by key {signer.fingerprint}, not by {pin.fingerprint}, which is"
            " asked for"
        )
    return None


def _say_signer(sealed: Sealed, pin: Pin, report: Report) -> None:
    if sealed.signer is None:
        report.say(
            "warning",
            "NOT SIGNED: nothing tells who made this receipt or when; only what the"
            " model answers is checked",
        )
        return
    name = sealed.signer.fingerprint
    report.say("ok", f"the signature is right, by key {name}")
    if not pin.is_set:
        report.say(
            "warning",
            "the key is the receipt's own word: compare its fingerprint with the"
            " signer's, or name it with --key or --public-key",
        )


# --- Running it ---------------------------------------------------------------------


def _judge(receipt: Receipt, bench: Bench, report: Report, *, anyway: bool) -> Report:
    found = bench.find_model(receipt.model)
    if found is None or found.sha256 != receipt.model.sha256:
        return report.end(Outcome.OTHER_MODEL, _other_model(receipt.model, found))
    report.say("ok", f"the model is {found.name}, sha256 {found.sha256}")
    for name in ("size_bytes", "architecture"):
        if getattr(found, name) != getattr(receipt.model, name):
            reason = f"the model's {name} is another one than told"
            return report.end(Outcome.DIFFERS, reason)
    here = bench.engine(receipt)
    apart = differing(receipt.engine, here)
    decisive = [name for name in apart if name in DECISIVE]
    if decisive and not anyway:
        reason = (
            f"made by another engine ({_apart(receipt.engine, here, decisive)}), whose"
            " last bits may differ from this one's; --anyway tries it all the same"
        )
        return report.end(Outcome.UNDECIDED, reason)
    if apart:
        report.say(
            "note", f"engines differ: {_apart(receipt.engine, here, apart, short=True)}"
        )
    else:
        report.say("ok", f"engine and plan are the same ({here.plan})")
    wrong = _compare(receipt, bench.rerun(receipt), report)
    if wrong is None:
        return report.end(Outcome.PROVEN, "every token, the text and its end agree")
    if apart:
        reason = f"{wrong}; as the engines differ, this proves nothing"
        return report.end(Outcome.UNDECIDED, reason)
    return report.end(Outcome.DIFFERS, wrong)


def _other_model(wanted: ModelIdentity, found: ModelIdentity | None) -> str:
    if found is None:
        return (
            f"made by {wanted.name} ({wanted.size_bytes} bytes, sha256"
            f" {wanted.sha256}), and no such file is here: name it with --model"
        )
    return (
        f"made by {wanted.name} with sha256 {wanted.sha256}; {found.name} has"
        f" {found.sha256}"
    )


DECISIVE: Final = frozenset(
    ("llama_cpp_python", "llama_cpp", "features", "settings", "plan", "gpu_layers")
)
"""Where one of these differs, other bits are to be expected.

A build of the same engine for the same processor features on another machine may well
agree (its file's hash is another one for no reason that counts), so it is tried.
"""


def differing(one: EngineIdentity, other: EngineIdentity) -> list[str]:
    """Names of what differs between two engines; the processor's name does not count.

    What the engine uses of a processor stands in `features`.
    """
    names = [f.name for f in fields(EngineIdentity) if f.name != "processor"]
    return [name for name in names if getattr(one, name) != getattr(other, name)]


def _apart(
    there: EngineIdentity,
    here: EngineIdentity,
    names: Sequence[str],
    *,
    short: bool = False,
) -> str:
    parts = []
    for name in names:
        theirs, ours = str(getattr(there, name)), str(getattr(here, name))
        if short or name in {"build", "features"}:
            theirs, ours = shown(theirs, 24), shown(ours, 24)
        parts.append(f"{name} {theirs}, here {ours}")
    return "; ".join(parts)


# --- Comparing ----------------------------------------------------------------------


def _compare(receipt: Receipt, rerun: Rerun, report: Report) -> str | None:
    """What differs first, if anything does."""
    wrong = wrong_prompt(receipt.request.prompt_tokens, rerun.prompt_tokens)
    if wrong is not None:
        return wrong
    report.say("ok", f"the prompt comes to its {len(rerun.prompt_tokens)} tokens")
    if rerun.difference is not None:
        apart = rerun.difference
        return (
            f"token {apart.at} of the answer is {apart.recorded}; the model gives"
            f" {apart.drawn}"
        )
    output = rerun.output
    if output is None:
        return "the answer did not come to its end"
    wrong = wrong_output(receipt.output, output)
    if wrong is None:
        report.say("ok", f"the model gives the answer's {len(output.tokens)} tokens")
    return wrong
