"""Verify receipts file by file and tell of each: what `kinetic verify-receipt` runs."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kinetic.config import BenchOptions
from kinetic.errors import ReceiptError
from kinetic.proof.bench import ModelBench
from kinetic.proof.remote import RemoteBench
from kinetic.receipts import reading, schema, signing
from kinetic.receipts.record import Receipt
from kinetic.receipts.verify import Bench, Outcome, Pin, Report, verify

_log = logging.getLogger(__name__)

STDIN: Final = "-"
_VERDICTS: Final = {
    Outcome.PROVEN: "PROVEN",
    Outcome.DIFFERS: "NOT PROVEN, it differs",
    Outcome.UNREADABLE: "NOT PROVEN, no receipt to be run",
    Outcome.OTHER_MODEL: "NOT PROVEN, another model",
    Outcome.BAD_SIGNATURE: "NOT PROVEN, the signature",
    Outcome.UNDECIDED: "NOT PROVEN, it cannot be told here",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """What is to be verified, and how."""

    files: tuple[str, ...]
    """Paths; "-" is standard input."""
    pin: Pin = field(default_factory=Pin)
    anyway: bool = False
    bench: BenchOptions = field(default_factory=BenchOptions)
    url: str | None = None
    """A server to ask in place of loading the model."""
    api_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One receipt to be judged, or why a file holds none."""

    label: str
    value: Any = None
    error: ReceiptError | None = None


def pin_of(public_key: str | None, fingerprint: str | None) -> Pin:
    """Whose signature the flags ask for; raises ReceiptError."""
    if fingerprint is not None and not signing.is_fingerprint(fingerprint):
        raise ReceiptError(
            f"--key takes a fingerprint of {signing.FINGERPRINT_DIGITS} hex digits"
        )
    key = None if public_key is None else signing.read_public_key(public_key)
    return Pin(public_key=key, fingerprint=fingerprint)


def verify_files(options: VerifyOptions, say: Callable[[str], None]) -> int:
    """Verify every receipt of some files and tell what was checked.

    Returns:
        0 when all are proven, else the outcome of the first that is not.
    """
    entries = [entry for file in options.files for entry in _entries(file)]
    with contextlib.ExitStack() as stack:
        bench = _bench(options, entries, stack)
        outcomes = [
            _verify(entry, bench, options, say, is_first=i == 0)
            for i, entry in enumerate(entries)
        ]
    if len(outcomes) > 1:
        n_proven = outcomes.count(Outcome.PROVEN)
        say(f"\n{n_proven} of {len(outcomes)} receipts are proven")
    return next((int(o) for o in outcomes if o is not Outcome.PROVEN), 0)


def _bench(
    options: VerifyOptions, entries: list[_Entry], stack: contextlib.ExitStack
) -> Bench:
    if options.url is not None:
        return RemoteBench(options.url, options.api_key)
    bench = stack.enter_context(ModelBench(options.bench))
    bench.reserve(_receipts(entries))
    return bench


def _verify(
    entry: _Entry,
    bench: Bench,
    options: VerifyOptions,
    say: Callable[[str], None],
    *,
    is_first: bool,
) -> Outcome:
    say(printable(entry.label) if is_first else "\n" + printable(entry.label))
    if entry.error is not None:
        report = Report().end(Outcome.UNREADABLE, str(entry.error))
    else:
        report = _report(entry.value, bench, options)
    if options.url is not None:
        say(f"  {'note':8} asked of {options.url}: this is that server's word")
    for step in report.steps:
        say(f"  {step.mark:8} {printable(step.text)}")
    say(_VERDICTS[report.outcome])
    return report.outcome


def _report(value: Any, bench: Bench, options: VerifyOptions) -> Report:
    try:
        return verify(value, bench, pin=options.pin, anyway=options.anyway)
    except Exception as error:  # noqa: BLE001 - a bug must not pass for "it differs"
        _log.exception("verifying failed")
        return Report().end(Outcome.UNDECIDED, f"this program failed: {error!r}")


def _entries(file: str) -> Iterator[_Entry]:
    name = "standard input" if file == STDIN else file
    try:
        values = reading.receipts_in(_content(file))
    except ReceiptError as error:
        yield _Entry(label=name, error=error)
        return
    for i, value in enumerate(values, 1):
        label = name if len(values) == 1 else f"{name}, receipt {i} of {len(values)}"
        yield _Entry(label=label, value=value)


def _content(file: str) -> bytes:
    most = reading.BYTES_MAX + 1
    try:
        if file == STDIN:
            return sys.stdin.buffer.read(most)
        with Path(file).open("rb") as opened:
            return opened.read(most)
    except OSError as error:
        raise ReceiptError(f"cannot be read: {error.strerror}") from error


def _receipts(entries: list[_Entry]) -> Iterator[Receipt]:
    """Those that can be read; the others are told of in their turn."""
    for entry in entries:
        with contextlib.suppress(ReceiptError):
            yield schema.read(entry.value).receipt


def printable(text: str) -> str:
    """A text without control characters, which a terminal might obey."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )
