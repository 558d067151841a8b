"""Pictures stand in prompts where they stood in messages, and nowhere else."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.loading import chat_template
from kinetic.model.engine.engine import EngineOptions, LlamaEngine
from kinetic.model.native.images import Projector, ProjectorOptions
from kinetic.model.prompt import PromptBuilder
from kinetic.model.tiles import Tile
from kinetic.model.vision import vision
from kinetic.model.vision.vision import (
    MARKERS,
    PictureSource,
    Vision,
    tile_ids,
    with_markers,
)
from kinetic.types import ChatInput, GenerationRequest, SamplingParams
from tests.support import tiny_models, tiny_projectors
from tests.support.pictures import data_url, png

CAT, DOG = png(96, 64, 1), png(64, 96, 2)


def image(data=CAT, where="messages[0].content[0]"):
    source = data_url(data) if isinstance(data, bytes) else data
    return {"type": "image", "source": source, "where": where}


def text(words):
    return {"type": "text", "text": words}


def user(*parts):
    return {"role": "user", "content": list(parts)}


# --- Markers ------------------------------------------------------------------------


def test_every_picture_gets_a_marker_of_its_own():
    messages = [user(text("a"), image(CAT, "x")), user("b"), user(image(DOG, "y"))]
    messages[1]["content"] = "plain"
    marked, sources = with_markers(messages)
    assert [source.where for source in sources] == ["x", "y"]
    assert marked[0]["content"][1] == {"type": "image", "marker": MARKERS[0]}
    assert marked[1] == messages[1]
    assert marked[2]["content"] == [{"type": "image", "marker": MARKERS[1]}]
    assert messages[0]["content"][1]["source"].startswith("data:")


def test_too_many_pictures_are_refused_by_their_place():
    parts = [image(CAT, f"p{i}") for i in range(vision.MAX_PICTURES + 1)]
    with pytest.raises(RequestError, match="one picture more than the 32") as refused:
        with_markers([user(*parts)])
    assert refused.value.param == "p32"


# --- Ids ----------------------------------------------------------------------------


def tile(n_tokens=16, n_positions=16):
    return Tile(n_tokens=n_tokens, n_positions=n_positions, axes=None)


def test_ids_are_below_zero_and_the_same_for_the_same_tile_alone():
    ids = tile_ids("cat", 0, tile())
    assert len(ids) == 16
    assert all(-(1 << 31) <= i < 0 for i in ids)
    assert ids == tile_ids("cat", 0, tile())
    others = [
        tile_ids("dog", 0, tile()),
        tile_ids("cat", 1, tile()),
        tile_ids("cat", 0, tile(16, 4)),
        tile_ids("cat", 0, tile(17, 17))[:16],
    ]
    assert all(set(ids).isdisjoint(other) for other in others)


def test_a_tile_of_few_tokens_is_never_met_again():
    assert tile_ids("cat", 0, tile(3, 3)) != tile_ids("cat", 0, tile(3, 3))
    assert tile_ids("cat", 0, tile(4, 4)) == tile_ids("cat", 0, tile(4, 4))


# --- Prompts ------------------------------------------------------------------------


class Loaded:
    def __init__(self, model, projector, template=None, **options):
        self.engine = LlamaEngine(
            model, EngineOptions(n_ctx=512, n_parallel=1, n_threads=1, **options)
        )
        self.projector = Projector(
            projector, self.engine.model, ProjectorOptions(n_threads=1)
        )
        self.vision = Vision(self.projector, self.engine.vocab, self.engine.n_batch)
        self.builder = PromptBuilder(
            self.engine.vocab,
            chat_template(self.engine, template),
            None,
            self.engine.n_ctx,
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
            vision=self.vision,
        )

    def prompt(self, *messages):
        inputs = ChatInput(messages=messages)
        request = GenerationRequest(
            request_id="r", inputs=(inputs,), sampling=SamplingParams()
        )
        return self.builder.prompt(inputs, request)

    def close(self):
        self.projector.close()
        self.engine.close()


@pytest.fixture(scope="module")
def qwen(smollm2_path):
    found = Loaded(tiny_models.qwen2vl(), tiny_projectors.qwen2vl())
    yield found
    found.close()


@pytest.fixture(scope="module")
def gemma(smollm2_path):
    found = Loaded(tiny_models.gemma3(), tiny_projectors.gemma3())
    yield found
    found.close()


def texts(loaded, prompt):
    """The texts between a prompt's pictures."""
    found, start = [], 0
    for span in prompt.images:
        found.append(prompt.tokens[start : span.first])
        start = span.end
    found.append(prompt.tokens[start:])
    return [loaded.engine.vocab.detokenize(part).decode() for part in found]


def test_a_picture_stands_where_it_stood(qwen):
    prompt = qwen.prompt(user(text("Look:"), image(), text("What is it?")))
    before, behind = texts(qwen, prompt)
    assert before.endswith("user\nLook:<|vision_start|>")
    assert behind.startswith("<|vision_end|>What is it?<|im_end|>")
    (span,) = prompt.images
    assert all(token < 0 for token in prompt.tokens[span.first : span.end])
    assert sum(token < 0 for token in prompt.tokens) == span.tile.n_tokens == 24
    assert (span.number, span.sees_ahead) == (0, False)


def test_pictures_keep_their_order_through_a_conversation(qwen):
    prompt = qwen.prompt(
        user(image(CAT), text("one")),
        {"role": "assistant", "content": "two"},
        user(text("three"), image(DOG), image(CAT)),
    )
    digests = [span.picture.digest for span in prompt.images]
    assert digests[0] == digests[2] != digests[1]
    first, second, third = (
        prompt.tokens[span.first : span.end] for span in prompt.images
    )
    assert first == third != second


def test_a_longer_conversation_begins_with_the_same_ids(qwen):
    messages = [user(image(CAT), text("one")), {"role": "assistant", "content": "two"}]
    short = qwen.prompt(*messages[:1]).tokens
    long = qwen.prompt(*messages, user(image(DOG), text("three"))).tokens
    pairs = zip(short, long, strict=False)
    n_same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(short))
    assert n_same > len(short) - 8


@pytest.mark.parametrize("marker", [MARKERS[0], MARKERS[5], "<__media__>"])
def test_a_marker_that_a_user_writes_is_text(qwen, marker):
    prompt = qwen.prompt(user(text(f"see {marker}"), image(), text(marker)))
    before, behind = texts(qwen, prompt)
    assert f"see {marker}<|vision_start|>" in before
    assert behind.startswith(f"<|vision_end|>{marker}<|im_end|>")
    assert len(prompt.images) == 1


def test_a_bos_moves_the_pictures(gemma):
    prompt = gemma.prompt(user(image(), text("What?")))
    assert prompt.tokens[0] == gemma.engine.vocab.bos
    (span,) = prompt.images
    assert all(token < 0 for token in prompt.tokens[span.first : span.end])
    assert prompt.tokens[span.first - 1] >= 0
    assert prompt.tokens[span.end] >= 0
    assert span.sees_ahead


def test_a_template_that_leaves_a_picture_out_is_told_of(smollm2_path):
    only_last = "{{ messages[-1].content }}"
    loaded = Loaded(tiny_models.qwen2vl(), tiny_projectors.qwen2vl(), only_last)
    try:
        with pytest.raises(RequestError, match=r"does not print all of messages\[0\]"):
            loaded.prompt(
                user(image(CAT, "messages[0].content[0]")),
                {"role": "assistant", "content": "two"},
                user(image(DOG, "messages[2].content[0]")),
            )
        source = PictureSource(text=data_url(CAT), where="here")
        with pytest.raises(RequestError, match=r"here: .* leaves it out") as refused:
            loaded.vision.tokens("a prompt without it", None, [source])
        assert refused.value.param == "here"
    finally:
        loaded.close()


def test_a_picture_that_needs_a_larger_pass_is_refused(smollm2_path):
    loaded = Loaded(tiny_models.gemma3(), tiny_projectors.gemma3(), n_batch=8)
    try:
        with pytest.raises(RequestError, match=r"16 tokens.*a pass takes 8"):
            loaded.prompt(user(image()))
    finally:
        loaded.close()


def test_a_picture_that_cannot_be_used_is_named(qwen):
    for source, why in (
        ("http://x/y.png", "fetches nothing"),
        (b"hello", "is no picture"),
        (png(1, 100), "64 times the shorter"),
    ):
        with pytest.raises(RequestError, match=why) as refused:
            qwen.prompt(user(image(CAT, "a"), image(source, "here")))
        assert refused.value.param == "here"
        assert str(refused.value).startswith("here ")


def test_a_picture_is_decoded_once(qwen, monkeypatch):
    seen = []
    decode = vision.decode
    monkeypatch.setattr(vision, "decode", lambda data: seen.append(1) or decode(data))
    fresh = png(50, 50, 1234)
    for _ in range(3):
        qwen.prompt(user(image(fresh), image(fresh)))
    assert len(seen) == 1


def test_pixels_of_a_request_are_bounded_together(qwen, monkeypatch):
    monkeypatch.setattr(vision, "MAX_REQUEST_PIXELS", 10_000)
    pictures = [image(png(70, 70, seed), f"p{seed}") for seed in range(500, 503)]
    with pytest.raises(RequestError, match="10000 pixels together") as refused:
        qwen.prompt(user(*pictures))
    assert refused.value.param == "p502"


def test_without_a_projector_the_first_picture_is_refused(qwen):
    builder = PromptBuilder(
        qwen.engine.vocab, chat_template(qwen.engine, None), None, 512
    )
    inputs = ChatInput(messages=(user(text("a"), image(CAT, "here")),))
    request = GenerationRequest(
        request_id="r", inputs=(inputs,), sampling=SamplingParams()
    )
    with pytest.raises(UnsupportedFeature, match="no images") as refused:
        builder.prompt(inputs, request)
    assert refused.value.param == "here"


def test_a_prefill_keeps_whole_pictures(qwen):
    def job(*parts):
        inputs = ChatInput(messages=(user(*parts),))
        request = GenerationRequest(
            request_id="r", inputs=(inputs,), sampling=SamplingParams(), prefill=True
        )
        (found,) = qwen.builder.build(request)
        return found

    found = job(image(CAT), text("What is in this"))
    assert [span.end <= len(found.prompt) for span in found.images] == [True]
    assert found.prompt[-1] >= 0
    # A picture last: the part ends with what stands before the message's end.
    found = job(text("See"), image(DOG))
    assert sum(token < 0 for token in found.prompt) == sum(
        span.tile.n_tokens for span in found.images
    )


def test_sources_without_text_are_refused(qwen):
    with pytest.raises(RequestError, match=r"^x is empty"):
        qwen.vision.tokens(MARKERS[0], None, [PictureSource(text="", where="x")])
