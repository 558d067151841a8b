"""kinetic verify-receipt, as it is called."""

import io
import json
import subprocess
import sys
from dataclasses import replace

import pytest

from kinetic.cli import verifying
from kinetic.cli.program import main
from kinetic.receipts.record import seal
from kinetic.receipts.verify import Outcome
from tests.support.receipts import (
    CHAT,
    ENGINE,
    SIGNER,
    BookBench,
    changed,
    resealed,
)

SIGNED = seal(CHAT, SIGNER)
UNSIGNED = seal(CHAT, None)
FALSE = resealed(changed(UNSIGNED, ("output", "content"), "Goodbye"))


class Benches(BookBench):
    """Stands for every ModelBench that the command makes."""

    def __call__(self, options):
        self.options = options
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.calls.append("close")

    def reserve(self, receipts):
        self.reserved = list(receipts)


@pytest.fixture
def bench(monkeypatch):
    found = Benches()
    monkeypatch.setattr(verifying, "ModelBench", found)
    return found


@pytest.fixture
def run(bench, tmp_path, capsys, monkeypatch):
    """Calls the command with files of these contents; its code and what it said."""

    def call(*contents, flags=(), stdin=None):
        names = []
        for i, content in enumerate(contents):
            path = tmp_path / f"{i}.json"
            path.write_bytes(content if isinstance(content, bytes) else dump(content))
            names.append(str(path))
        if stdin is not None:
            fake = io.TextIOWrapper(io.BytesIO(stdin))
            monkeypatch.setattr(sys, "stdin", fake)
            names.append("-")
        code = main(["verify-receipt", *flags, *names])
        return code, capsys.readouterr().out

    return call


def dump(value):
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("value", "code", "words"),
    [
        (SIGNED, 0, "PROVEN"),
        (UNSIGNED, 0, "NOT SIGNED"),
        (FALSE, 1, "NOT PROVEN, it differs"),
        (b"nonsense", 2, "not JSON"),
        ({**UNSIGNED, "digest": "0" * 64}, 2, "altered"),
        ({**SIGNED, "signature": "0" * 128}, 4, "the signature is not"),
    ],
)
def test_each_outcome_has_its_exit_code_and_words(run, value, code, words):
    found, out = run(value)
    assert found == code
    assert words in out
    assert ("\nPROVEN" in out) == (code == 0)


def test_another_model_is_3_and_another_engine_5(run, bench):
    bench.here = replace(ENGINE, plan="alone")
    assert run(SIGNED)[0] == 5
    assert run(SIGNED, flags=["--anyway"])[0] == 0
    bench.true = replace(CHAT, model=replace(CHAT.model, sha256="0" * 64))
    assert run(SIGNED)[0] == 3


def test_standard_input_is_read(run):
    code, out = run(stdin=dump(SIGNED))
    assert code == 0
    assert out.startswith("standard input\n")


def test_several_receipts_are_told_one_by_one(run, bench):
    code, out = run(dump(SIGNED) + b"\n" + dump(FALSE), b"{}", SIGNED)
    assert code == 1  # the first that is not proven
    assert "receipt 1 of 2" in out
    assert "receipt 2 of 2" in out
    assert "2 of 4 receipts are proven" in out
    assert len(bench.reserved) == 3
    assert bench.calls[-1] == "close"


def test_a_whole_response_is_searched(run):
    assert run({"choices": [{"receipt": SIGNED}, {"receipt": SIGNED}]})[0] == 0


def test_a_file_that_is_not_there_is_2(bench, capsys, tmp_path):
    for path in (tmp_path / "none", tmp_path):
        assert main(["verify-receipt", str(path)]) == 2
        assert "cannot be read" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--key", SIGNER.public_key.fingerprint], 0),
        (["--key", SIGNER.public_key.fingerprint.upper()], 0),
        (["--key", "0" * 32], 4),
        (["--public-key", SIGNER.public_key.hex], 0),
        (["--public-key", "1" * 64], 4),
        (["--key", "abc"], 2),
        (["--public-key", "no/such/file"], 2),
        (["--model", "no-such-model"], 2),
    ],
)
def test_a_pinned_key_decides(run, flags, code):
    assert run(SIGNED, flags=flags)[0] == code


def test_unsigned_is_not_enough_where_a_key_is_pinned(run):
    code, out = run(UNSIGNED, flags=["--key", SIGNER.public_key.fingerprint])
    assert code == 4
    assert "not signed" in out


def test_the_engine_s_flags_are_handed_on(run, bench):
    run(SIGNED, flags=["-t", "3", "-c", "4096", "-np", "1", "-b", "64"])
    found = bench.options
    assert (found.n_threads, found.n_ctx, found.n_parallel, found.n_batch) == (
        3,
        4096,
        1,
        64,
    )


def test_no_control_character_reaches_the_terminal(run, bench):
    evil = "evil\x1b[2J\x07\u202e.gguf"
    model = replace(CHAT.model, name=evil, sha256="ff" * 32)
    code, out = run(seal(replace(CHAT, model=model), SIGNER))
    assert code == 3
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\u202e" not in out
    assert "evil\\x1b[2J\\x07\\u202e.gguf" in out


def test_a_bug_is_no_outcome_and_the_others_are_judged(bench, run):
    def broken(receipt):
        bench.rerun = lambda _: BookBench.rerun(bench, _)
        raise RuntimeError("a bug")

    bench.rerun = broken
    code, out = run(SIGNED, SIGNED)
    assert code == 5
    assert "a bug" in out
    assert "1 of 2 receipts are proven" in out
    assert bench.calls[-1] == "close"


def test_the_bench_is_closed_when_interrupted(bench, run):
    def interrupted(receipt):
        raise KeyboardInterrupt

    bench.rerun = interrupted
    assert run(SIGNED)[0] == 130
    assert bench.calls[-1] == "close"


def test_the_real_command_reads_a_bad_file_without_loading_a_model(tmp_path):
    path = tmp_path / "bad.json"
    path.write_text('{"format": "kinetic-receipt", "version": 1}')
    done = subprocess.run(
        [sys.executable, "-m", "kinetic", "verify-receipt", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "is missing" in done.stdout
    assert not done.stderr


def test_outcomes_are_all_named():
    assert set(verifying._VERDICTS) == set(Outcome)
