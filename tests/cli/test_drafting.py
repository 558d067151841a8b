"""Flags for drafting, and what is said of it at the start."""

import pytest

from kinetic import loading
from kinetic.cli.options import serve_options
from kinetic.cli.program import parser
from kinetic.errors import KineticError, ModelError
from tests.support import tiny_models


def options(model, *flags):
    arguments = parser().parse_args(["serve", str(model), *flags])
    return serve_options(arguments)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"")
    return path


@pytest.mark.parametrize(
    ("flags", "most", "least"),
    [
        ([], 8, 1),
        (["--draft-max", "3"], 3, 1),
        (["--draft", "16", "--draft-min", "2"], 16, 2),
        (["--spec-draft-n-max", "5", "--spec-draft-n-min", "0"], 5, 1),
        (["--draft-max", "0"], 0, 1),
        (["--no-draft"], 0, 1),
        (["--no-draft", "--draft-min", "4"], 0, 4),
    ],
)
def test_flags_say_how_much_is_drafted(model, flags, most, least):
    found = options(model, *flags)
    assert (found.draft_max, found.draft_min) == (most, least)


def test_a_least_that_no_draft_can_reach_is_refused(model):
    with pytest.raises(ModelError, match="--draft-min 5 is more than --draft-max 4"):
        options(model, "--draft-max", "4", "--draft-min", "5")


@pytest.mark.parametrize(
    ("make", "flags", "n_draft", "said"),
    [
        (tiny_models.qwen3, [], 8, "up to 8 tokens"),
        (tiny_models.qwen3, ["--draft-max", "40"], 15, "up to 15 tokens"),
        (tiny_models.qwen3, ["--no-draft"], 0, "switched off"),
        (tiny_models.qwen3, ["--no-probe"], 0, "one row of an answer at a time"),
        (tiny_models.gemma3, [], 8, "sliding window"),
        (tiny_models.lfm2, [], 0, "cannot step back"),
        (tiny_models.qwen35, [], 0, "cannot step back"),
        (tiny_models.bert_encoder, [], 0, "nothing is generated"),
    ],
)
def test_the_start_says_what_is_drafted_or_why_nothing_is(
    make, flags, n_draft, said, caplog
):
    light = ["-c", "256", "-np", "2", "-t", "1"]
    with caplog.at_level("INFO", logger="kinetic"):
        loaded = loading.load(options(make(), *light, *flags))
    loaded.engine.close()
    assert loaded.info.n_draft == n_draft
    assert said in loaded.info.drafting
    assert f"drafting: {loaded.info.drafting}" in caplog.text


LIGHT = ("-c", "256", "-np", "2", "-t", "1")


def test_a_draft_model_is_loaded_and_named():
    draft = tiny_models.qwen3_draft()
    loaded = loading.load(options(tiny_models.qwen3(), *LIGHT, "-md", str(draft)))
    assert loaded.drafts.model is not None
    assert f"constraints and {draft.name}" in loaded.info.drafting
    loaded.drafts.model.close()
    loaded.engine.close()


def test_a_draft_model_is_not_loaded_where_nothing_is_drafted():
    draft = str(tiny_models.qwen3_draft())
    flags = [*LIGHT, "--no-probe", "--model-draft", draft]
    loaded = loading.load(options(tiny_models.qwen3(), *flags))
    loaded.engine.close()
    assert loaded.drafts.model is None
    assert loaded.info.n_draft == 0


@pytest.mark.parametrize(
    ("make", "flags", "said"),
    [
        (tiny_models.llama3, [], "their vocabularies differ"),
        (tiny_models.qwen3, [], "cannot draft for itself"),
        (tiny_models.qwen3_draft, ["--no-draft"], "drafts are off"),
        (lambda: "nowhere.gguf", [], "nowhere.gguf"),
    ],
)
def test_a_draft_model_that_cannot_be_is_refused_at_the_start(make, flags, said):
    with pytest.raises(KineticError, match=said):
        loading.load(options(tiny_models.qwen3(), *LIGHT, "-md", str(make()), *flags))
