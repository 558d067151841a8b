"""The sampler chain against llama.cpp's own, built by hand on the same logits."""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace

import llama_cpp.llama_cpp as lib
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from kinetic.errors import RequestError
from kinetic.model.defaults import recommended_sampling
from kinetic.model.native.model import _MOST_DRY, Model
from kinetic.model.sampler_chain import (
    TokenSampler,
    history_window,
    is_plain_greedy,
    likeliest,
    log_softmax,
    prepare,
)
from kinetic.types import SamplingParams
from kinetic.web.fields import readers
from tests.support import tiny_models

N_CTX = 256
N_DRAWS = 24
BASE = SamplingParams()
OFF = replace(BASE, top_k=0, top_p=1.0, min_p=0.0)

CASES = {
    "defaults": BASE,
    "greedy": replace(BASE, temperature=0),
    "hot": replace(OFF, temperature=100),
    "top_k": replace(OFF, top_k=3),
    "top_k off": replace(OFF, top_k=-5),
    "top_p": replace(OFF, top_p=0.5),
    "min_p": replace(OFF, min_p=0.2),
    "typical_p": replace(OFF, typical_p=0.6),
    "top_n_sigma": replace(OFF, top_n_sigma=1.5),
    "xtc": replace(OFF, xtc_probability=0.7, xtc_threshold=0.01),
    "repeat": replace(OFF, repeat_penalty=1.5),
    "repeat all": replace(OFF, repeat_penalty=1.5, repeat_last_n=-1),
    "presence": replace(OFF, presence_penalty=1.5),
    "frequency": replace(OFF, frequency_penalty=-1.0),
    "greedy with penalty": replace(OFF, temperature=0, repeat_penalty=2.0),
    "dry": replace(OFF, dry_multiplier=2.0, dry_allowed_length=1),
    "dry window": replace(OFF, dry_multiplier=2.0, dry_penalty_last_n=8),
    "dry breakers": replace(OFF, dry_multiplier=2.0, dry_sequence_breakers=("a", "x")),
    "mirostat 1": replace(OFF, mirostat=1, mirostat_tau=3.0, mirostat_eta=0.2),
    "mirostat 2": replace(OFF, mirostat=2, mirostat_tau=3.0, mirostat_eta=0.2),
    "bias": replace(OFF, logit_bias=((5, 4.0), (7, -math.inf), (9, -100.0))),
    "dynamic temperature": replace(OFF, dynatemp_range=0.5, dynatemp_exponent=2.0),
    "order": replace(BASE, samplers=("temperature", "min_p", "top_k")),
    "everything": replace(
        BASE,
        temperature=1.3,
        typical_p=0.9,
        top_n_sigma=3.0,
        xtc_probability=0.3,
        repeat_penalty=1.2,
        presence_penalty=0.3,
        frequency_penalty=0.1,
        dry_multiplier=0.7,
        logit_bias=((11, 2.0),),
    ),
}


@pytest.fixture(scope="module")
def model():
    loaded = Model(tiny_models.qwen3(), vocab_only=True)
    yield loaded
    loaded.close()


class Reference:
    """llama.cpp's chain, put together as its common library does."""

    def __init__(self, model, p, prompt):
        vocab = model._vocab
        n = model.n_vocab
        self.chain = lib.llama_sampler_chain_init(
            lib.llama_sampler_chain_default_params()
        )
        if p.logit_bias:
            biases = (lib.llama_logit_bias * len(p.logit_bias))()
            for entry, (token, bias) in zip(biases, p.logit_bias, strict=True):
                entry.token, entry.bias = token, bias
            self.add(lib.llama_sampler_init_logit_bias(n, len(biases), biases))
        if p.mirostat:
            self.add(lib.llama_sampler_init_temp(p.temperature))
            tail = (p.seed, p.mirostat_tau, p.mirostat_eta)
            if p.mirostat == 1:
                self.add(lib.llama_sampler_init_mirostat(n, *tail, 100))
            else:
                self.add(lib.llama_sampler_init_mirostat_v2(*tail))
        else:
            for name in p.samplers:
                self.add(self.member(name, vocab, n, p))
            self.add(lib.llama_sampler_init_dist(p.seed))
        for token in prompt:
            lib.llama_sampler_accept(self.chain, token)

    def member(self, name, vocab, n, p):
        last_n = N_CTX if p.repeat_last_n < 0 else p.repeat_last_n
        dry_n = N_CTX if p.dry_penalty_last_n < 0 else p.dry_penalty_last_n
        breakers = [b.encode() for b in p.dry_sequence_breakers]
        texts = (ctypes.c_char_p * len(breakers))(*breakers)
        return {
            "penalties": lambda: lib.llama_sampler_init_penalties(
                n, last_n, p.repeat_penalty, p.frequency_penalty, p.presence_penalty
            ),
            "dry": lambda: lib.llama_sampler_init_dry(
                vocab,
                p.dry_multiplier,
                p.dry_base,
                p.dry_allowed_length,
                dry_n,
                texts,
                len(breakers),
            ),
            "top_n_sigma": lambda: lib.llama_sampler_init_top_n_sigma(p.top_n_sigma),
            "top_k": lambda: lib.llama_sampler_init_top_k(p.top_k),
            "typ_p": lambda: lib.llama_sampler_init_typical(p.typical_p, 0),
            "top_p": lambda: lib.llama_sampler_init_top_p(p.top_p, 0),
            "min_p": lambda: lib.llama_sampler_init_min_p(p.min_p, 0),
            "xtc": lambda: lib.llama_sampler_init_xtc(
                p.xtc_probability, p.xtc_threshold, 0, p.seed
            ),
            "temperature": lambda: lib.llama_sampler_init_temp_ext(
                p.temperature, p.dynatemp_range, p.dynatemp_exponent
            ),
        }[name]()

    def add(self, member):
        lib.llama_sampler_chain_add(self.chain, member)

    def draw(self, row):
        data = (lib.llama_token_data * len(row))()
        for i, logit in enumerate(row):
            data[i] = lib.llama_token_data(i, float(logit), 0.0)
        array = lib.llama_token_data_array(data, len(row), -1, False)
        lib.llama_sampler_apply(self.chain, ctypes.byref(array))
        token = array.data[array.selected].id
        lib.llama_sampler_accept(self.chain, token)
        return token

    def close(self):
        lib.llama_sampler_free(self.chain)


def rows(n_vocab, seed):
    """Rows in which a few tokens are likely, so that text repeats."""
    rng = np.random.default_rng(seed)
    likely = rng.choice(40, 8, replace=False)
    found = rng.normal(0, 1.5, (N_DRAWS, n_vocab)).astype(np.float32)
    found[:, likely] += 5
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [0, 1, 42, 2**32 - 2])
def test_each_sampler_draws_what_llama_cpp_draws(model, name, seed):
    params = replace(CASES[name], seed=seed)
    prompt = [int(t) for t in np.random.default_rng(seed).integers(0, 40, 60)]
    ours = TokenSampler(model, params, prompt, N_CTX)
    theirs = Reference(model, params, prompt)
    for row in rows(model.n_vocab, seed):
        assert ours.draw(row) == theirs.draw(row)
    ours.close()
    theirs.close()


def test_a_seed_repeats_and_another_differs(model):
    def drawn(seed):
        sampler = TokenSampler(model, replace(OFF, seed=seed), [], N_CTX)
        found = [sampler.draw(row) for row in rows(model.n_vocab, 1)]
        sampler.close()
        return found

    assert drawn(7) == drawn(7)
    assert len({tuple(drawn(seed)) for seed in range(20)}) == 20


def test_a_ban_holds_against_the_likeliest_token(model):
    row = np.zeros(model.n_vocab, np.float32)
    row[3] = 50
    banned = replace(OFF, temperature=0, logit_bias=((3, -math.inf),))
    sampler = TokenSampler(model, banned, [], N_CTX)
    assert sampler.draw(row) != 3
    sampler.close()


@pytest.mark.parametrize("params", [replace(OFF, temperature=0), OFF])
def test_nothing_left_to_draw_is_an_error(model, params):
    sampler = TokenSampler(model, params, [], N_CTX)
    with pytest.raises(RequestError, match="no token"):
        sampler.draw(np.full(model.n_vocab, -np.inf, np.float32))
    sampler.close()


@pytest.mark.parametrize("params", [replace(OFF, temperature=0), OFF])
def test_banned_and_suppressed_tokens_are_never_drawn(model, monkeypatch, params):
    row = np.zeros(model.n_vocab, np.float32)
    row[[3, 5, 7]] = 90, 80, 70
    monkeypatch.setattr(model, "suppressed", lambda: (3,))
    sampler = TokenSampler(model, params, [], N_CTX, banned=(5,))
    assert sampler.draw(row) == 7
    sampler.close()
    assert row.tolist()[3:8:2] == [90, 80, 70]


def test_a_breaker_that_the_engine_would_cut_is_refused(model):
    def asked(*breakers):
        params = replace(CASES["dry"], dry_sequence_breakers=breakers)
        return lambda: prepare(model, params, n_ctx=N_CTX)

    asked("\n", "e" * 21, "漢" * 7)()
    with pytest.raises(RequestError, match=r"breakers\[1\] has 36 tokens.* at most 20"):
        asked("\n", "🦊" * 10)()


@settings(max_examples=60)
@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=4))
@example(["e\0b"])
@example(["\u2028\ufeff"])
@example(["Z" * 40])
@example(["Z" * 30_000])
def test_breakers_of_any_characters_are_taken_whole_or_refused(model, breakers):
    try:
        read = readers.breakers(breakers)
        params = replace(CASES["dry"], dry_sequence_breakers=read)
        prepare(model, params, n_ctx=N_CTX)
    except (readers.Unfit, RequestError):
        longest = max(breakers, key=len)
        assert len(longest.encode()) > 20 or "\0" in "".join(breakers)
    else:
        assert list(read) == breakers
        assert all(0 < len(text.encode()) <= 40 and "\0" not in text for text in read)


def test_dry_draws_the_same_however_often_its_settings_were_asked_for(model):
    def drawn(params):
        sampler = TokenSampler(model, params, list(range(20)) * 3, N_CTX)
        found = [sampler.draw(row) for row in rows(model.n_vocab, 1)]
        sampler.close()
        return found

    first = drawn(CASES["dry breakers"])
    for i in range(3 * _MOST_DRY):
        breakers = tuple(chr(97 + (i + j) % 26) for j in range(i % 5))
        other = replace(CASES["dry"], dry_sequence_breakers=breakers, dry_base=2 + i)
        prepare(model, other, n_ctx=N_CTX)
        drawn(other)
        assert len(model._dry_known) <= _MOST_DRY
    assert drawn(CASES["dry breakers"]) == first
    # The one that draws is a copy: what it accepts stays with it.
    assert drawn(CASES["dry breakers"]) == first


def test_plain_greedy_is_told_from_greedy_with_changes():
    greedy = replace(OFF, temperature=0)
    assert is_plain_greedy(greedy)
    assert not is_plain_greedy(OFF)
    assert not is_plain_greedy(replace(greedy, repeat_penalty=1.1))
    assert not is_plain_greedy(replace(greedy, dry_multiplier=1.0))
    assert not is_plain_greedy(replace(greedy, mirostat=2))
    assert not is_plain_greedy(replace(greedy, logit_bias=((1, 1.0),)))


def test_only_as_much_of_a_prompt_is_looked_back_on_as_is_needed():
    assert history_window(OFF, 100) == 0
    assert history_window(replace(OFF, repeat_penalty=1.1), 100) == 64
    assert history_window(replace(OFF, dry_multiplier=1.0), 100) == 100
    assert history_window(replace(OFF, mirostat=1, repeat_penalty=1.1), 100) == 0


def test_log_probabilities_sum_to_one_and_are_never_nan():
    row = np.array([0.0, 1.0, -np.inf, 3.0], np.float32)
    found = log_softmax(row)
    assert np.isfinite(found).all()
    assert math.isclose(np.exp(found[[0, 1, 3]]).sum(), 1.0)
    assert np.isfinite(log_softmax(np.full(4, -np.inf, np.float32))).all()


def test_the_likeliest_come_first_and_ties_by_id():
    logprobs = np.array([-1.0, -0.5, -1.0, -3.0, -0.5])
    assert likeliest(logprobs, 3) == [1, 4, 0]
    assert likeliest(logprobs, 0) == []
    assert likeliest(logprobs, 99) == [1, 4, 0, 2, 3]


def test_a_files_recommended_sampling_is_the_default():
    model = Model(tiny_models.with_sampling_defaults(), vocab_only=True)
    found = recommended_sampling(model.metadata())
    model.close()
    names = {
        "top_k": "top_k",
        "top_p": "top_p",
        "min_p": "min_p",
        "temp": "temperature",
        "penalty_repeat": "repeat_penalty",
        "penalty_last_n": "repeat_last_n",
        "mirostat": "mirostat",
    }
    checked = 0
    for key, value in tiny_models.SAMPLING_DEFAULTS.items():
        field = names.get(key.removeprefix("general.sampling."))
        if field is not None:
            assert getattr(found, field) == pytest.approx(float(str(value)), rel=1e-6)
            checked += 1
    assert checked >= 3
    assert recommended_sampling({}) == SamplingParams()
    assert recommended_sampling({"general.sampling.temp": "hot"}) == SamplingParams()
