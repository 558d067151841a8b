"""Is a row's logits independent of its neighbours? Measured on the loaded model.

Kernels choose their code path by the number of rows, sequences or the context's
length, and each path adds in its own order. Whether that happens depends on the
processor, the build and the weights' format, so it is tried, not assumed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kinetic.files import paths
from kinetic.model.native.library import library_folder, library_versions
from kinetic.model.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from kinetic.model.engine.engine import LlamaEngine

    Float32Array = npt.NDArray[np.float32]

_log = logging.getLogger(__name__)

_FORMAT = 2  # grows when the probe compares more, so that old verdicts are not used
_N_PROMPT = 96
_N_STEPS = 4
_N_VERIFIED = 16  # rows of one sequence, the most that the uniform plan allows
_N_WRONG = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactnessVerdict:
    """What the probe found."""

    is_row_invariant: bool
    reason: str
    """One clause for the operator."""
    is_remembered: bool = False


def probe_rows(engine: LlamaEngine, *, remember: bool = True) -> ExactnessVerdict:
    """Compare logits over the shapes that the uniform plan allows.

    Uses the engine's sequences and leaves them empty. The verdict is kept per model
    file, library, processor and settings. Thread: the engine's.
    """
    path = paths.cache_dir("verdicts") / f"{_identity(engine)}.json"
    if remember and (known := _read(path)) is not None:
        return known
    verdict = _measure(engine)
    if remember:
        _write(path, verdict)
    return verdict


def _measure(engine: LlamaEngine) -> ExactnessVerdict:
    room = min(engine.n_ctx - _N_STEPS - 16, engine.n_batch - engine.n_sequences)
    n = min(_N_PROMPT, room)
    if n < 16:  # noqa: PLR2004 - too short to compare anything
        return ExactnessVerdict(
            is_row_invariant=False, reason="the context is too short"
        )
    trial = _Trial(engine, n)
    checks: list[tuple[str, Callable[[], Float32Array]]] = [
        ("a prompt in chunks", trial.in_chunks),
        ("a prompt row by row", trial.row_by_row),
        ("a prefix cut and continued", trial.cut_and_continued),
        ("several rows verified at once", trial.verified),
        ("wrong rows cut off", trial.cut_off),
    ]
    if engine.n_sequences > 1:
        checks.append(("steps beside other sequences", trial.beside_others))
        checks.append(("steps beside a prompt", trial.beside_prompt))
    try:
        expected = trial.alone()
        for name, run in checks:
            differing = int(np.count_nonzero(run() != expected))
            if differing:
                reason = f"{name}: {differing} of {expected.size} logits differ"
                return ExactnessVerdict(is_row_invariant=False, reason=reason)
    finally:
        for sequence in range(engine.n_sequences):
            engine.cut(sequence, 0)
    reason = f"{len(checks)} ways to shape a pass gave equal bits"
    return ExactnessVerdict(is_row_invariant=True, reason=reason)


class _Trial:
    """One text, run in several shapes; each returns [n_steps + 1, n_vocab]."""

    def __init__(self, engine: LlamaEngine, n: int) -> None:
        self._engine = engine
        rng = np.random.default_rng(1)
        usable = [
            t
            for t in range(engine.vocab.n_tokens)
            if t not in engine.vocab.controls and t not in engine.vocab.ends
        ]
        self._tokens = rng.choice(usable, n + _N_STEPS).astype(np.int32)
        self._others = rng.choice(usable, n).astype(np.int32)
        self._n = n

    def alone(self) -> Float32Array:
        return self._steps([self._run(0, 0, self._n)])

    def in_chunks(self) -> Float32Array:
        self._start()
        cuts = [0, 1, 8, 11, 43, 60, self._n]
        cuts = [c for c in cuts if c < self._n] + [self._n]
        for first, end in pairwise(cuts[:-1]):
            self._decode(0, first, end, 0)
        return self._steps([self._decode(0, cuts[-2], cuts[-1], 1)])

    def row_by_row(self) -> Float32Array:
        self._start()
        head = self._n - 12
        self._decode(0, 0, head, 0)
        last = [self._decode(0, i, i + 1, 1) for i in range(head, self._n)][-1]
        return self._steps([last])

    def cut_and_continued(self) -> Float32Array:
        if not self._engine.can_cut:
            return self.alone()
        self._run(0, 0, self._n)
        self._engine.cut(0, self._n // 2 + 1)
        return self._steps([self._decode(0, self._n // 2 + 1, self._n, 1)])

    def verified(self) -> Float32Array:
        end = self._n + _N_STEPS
        self._run(0, 0, end - _N_VERIFIED)
        return self._decode(0, end - _N_VERIFIED, end, _N_VERIFIED)[-_N_STEPS - 1 :]

    def cut_off(self) -> Float32Array:
        """Drafts of every sequence in one pass, of which some rows are wrong."""
        if not self._engine.can_cut:
            return self.alone()
        rows = [self._run(0, 0, self._n)]
        # Not all of them, where they are more than a pass has room for.
        others = range(1, min(self._engine.n_sequences, 8))
        for sequence in others:
            part = Rows(sequence, 0, self._others[: sequence + 3], 0)
            self._engine.decode([part])
        wrong = self._others[:_N_WRONG]
        for at in range(self._n, self._n + _N_STEPS, _N_STEPS // 2):
            right = self._tokens[at : at + _N_STEPS // 2]
            tokens = np.concatenate([right, wrong])
            mine = Rows(0, at, tokens, len(tokens))
            beside = [Rows(s, s + 3, tokens[: s % 3 + 1], 1) for s in others]
            rows.append(self._engine.decode([*beside, mine])[-1][: len(right)])
            self._engine.cut(0, at + len(right))
            for sequence in others:
                self._engine.cut(sequence, sequence + 3)
        for sequence in others:
            self._engine.cut(sequence, 0)
        return np.concatenate(rows)

    def beside_others(self) -> Float32Array:
        rows = [self._run(0, 0, self._n)]
        # Lengths differ, so that nothing lines up by chance.
        others = {
            sequence: 1 + (7 * sequence + 2) % (self._n - _N_STEPS)
            for sequence in range(1, self._engine.n_sequences)
        }
        for sequence, length in others.items():
            self._engine.decode([Rows(sequence, 0, self._others[:length], 0)])
        for i in range(_N_STEPS):
            at = self._n + i
            beside = [
                Rows(sequence, length + i, self._others[i : i + 1], 1)
                for sequence, length in others.items()
            ]
            mine = Rows(0, at, self._tokens[at : at + 1], 1)
            rows.append(self._engine.decode([*beside, mine])[-1])
        return np.concatenate(rows)

    def beside_prompt(self) -> Float32Array:
        rows = [self._run(0, 0, self._n)]
        self._engine.cut(1, 0)
        size = self._n // _N_STEPS
        for i in range(_N_STEPS):
            at = self._n + i
            chunk = Rows(1, i * size, self._others[i * size : (i + 1) * size], 0)
            mine = Rows(0, at, self._tokens[at : at + 1], 1)
            rows.append(self._engine.decode([mine, chunk])[0])
        return np.concatenate(rows)

    def _start(self) -> None:
        self._engine.cut(0, 0)

    def _run(self, sequence: int, first: int, end: int) -> Float32Array:
        self._engine.cut(sequence, 0)
        return self._decode(sequence, first, end, 1)

    def _decode(
        self, sequence: int, first: int, end: int, n_logits: int
    ) -> Float32Array:
        rows = Rows(sequence, first, self._tokens[first:end], n_logits)
        return self._engine.decode([rows])[0]

    def _steps(self, rows: list[Float32Array]) -> Float32Array:
        for i in range(_N_STEPS):
            at = self._n + i
            rows.append(self._decode(0, at, at + 1, 1))
        return np.concatenate(rows)


def _identity(engine: LlamaEngine) -> str:
    stat = engine.path.stat()
    facts = [
        _FORMAT,
        str(engine.path.resolve()),
        stat.st_size,
        stat.st_mtime_ns,
        library_versions(),
        _library_stamp(),
        processor_name(),
        os.environ.get("GGML_CPU_TILED_MM"),
        repr(engine.options),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def _library_stamp() -> list[object]:
    folder = Path(library_folder())
    files = sorted(folder.glob("*ggml*")) + sorted(folder.glob("*llama*"))
    return [(f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files]


def processor_name() -> str:
    """The processor's name as the system tells it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    for line in text.splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _read(path: Path) -> ExactnessVerdict | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return ExactnessVerdict(
            is_row_invariant=bool(found["is_row_invariant"]),
            reason=str(found["reason"]),
            is_remembered=True,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, verdict: ExactnessVerdict) -> None:
    text = json.dumps(
        {"is_row_invariant": verdict.is_row_invariant, "reason": verdict.reason}
    )
    beside = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        _log.warning("the probe's verdict could not be kept: %s", error)
