"""Greedy answers about pictures are those that llama-server gives on the same files."""

from __future__ import annotations

import httpx
import numpy as np
import pytest
from PIL import Image

from kinetic.files import paths
from tests.support import tiny_models, tiny_projectors
from tests.support.peer import peer_program, running_peer
from tests.support.pictures import data_url, drawing, encoded
from tests.support.server import running_server

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("smollm2_path"),
]

WIDE = tiny_projectors.SMOLLM2_WIDTH
PAIRS = {
    "smollm2-gemma3": (paths.default_model_path, lambda: tiny_projectors.gemma3(WIDE)),
    "smollm2-qwen2vl": (
        paths.default_model_path,
        lambda: tiny_projectors.qwen2vl(WIDE),
    ),
    "gemma3": (tiny_models.gemma3, tiny_projectors.gemma3),
    "smolvlm": (tiny_models.smolvlm, tiny_projectors.idefics3),
    "qwen2vl": (tiny_models.qwen2vl, tiny_projectors.qwen2vl),
    "qwen35": (tiny_models.qwen35, tiny_projectors.qwen2vl),
}
# What changes the peer's sums from pass to pass is left off. What is left differs in the
# last bits, which quantised weights blow up: texts without pictures differ as much.
PEER_FLAGS = ("--jinja", "-fa", "off", "--no-repack", "--cache-ram", "0", "--no-ui")
COMMON = ("-c", "1024", "-np", "1")
N_TOKENS = 12
NOISE = {"smollm2-gemma3": 0.8, "smollm2-qwen2vl": 0.8}
OTHER_NOISE = 0.25
"""Most that a log-probability may differ by."""


def smooth(width, height):
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([x, y, 255 - x], -1).astype(np.uint8))


GREY = encoded(drawing(80, 80, 4).convert("L"))
PICTURES = {
    "small": encoded(drawing(96, 64, 1)),
    "tall": encoded(drawing(60, 150, 2)),
    "large": encoded(smooth(400, 300)),
    "jpeg": encoded(smooth(120, 90), "JPEG", quality=90, subsampling=0),
    "grey": GREY,
    "tiny": encoded(drawing(3, 5, 5)),
}


@pytest.fixture(scope="module", params=PAIRS)
def both(request):
    peer_program()
    model, projector = (make() for make in PAIRS[request.param])
    flags = ("--mmproj", str(projector), *COMMON)
    with (
        running_server(model, "-t", "1", "--cache-disk", "0", *flags) as process,
        running_peer(model, *flags, *PEER_FLAGS) as peer,
    ):
        yield process.root, peer, NOISE.get(request.param, OTHER_NOISE)


def parts(text, *pictures):
    """A message's content; "|" in the text stands for the next picture."""
    images = [
        {"type": "image_url", "image_url": {"url": data_url(data)}} for data in pictures
    ]
    found = []
    for i, piece in enumerate(text.split("|")):
        found += images[i - 1 : i] if i else []
        found += [{"type": "text", "text": piece}] if piece else []
    return found


def asked(root, messages):
    body = {
        "messages": messages,
        "temperature": 0,
        "max_tokens": N_TOKENS,
        "logprobs": True,
        "top_logprobs": 10,
        "cache_prompt": False,
    }
    answer = httpx.post(f"{root}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    # Neither has entries where the answer ends at once.
    entries = (found["choices"][0].get("logprobs") or {}).get("content") or []
    return found["usage"]["prompt_tokens"], entries


def is_text(entry):
    try:
        return bool(bytes(entry["bytes"]).decode())
    except UnicodeDecodeError:
        return False


def assert_same(both, messages):
    """Equal prompts, and equal tokens until two of them are about as likely.

    A token that is part of a character ends the comparison too: the peer gives it
    together with the next one.
    """
    ours_root, theirs_root, noise = both
    n_ours, ours = asked(ours_root, messages)
    n_theirs, theirs = asked(theirs_root, messages)
    assert n_ours == n_theirs
    n_same = 0
    for one, other in zip(ours, theirs, strict=False):
        if not is_text(one) or not is_text(other):
            break
        if one["bytes"] != other["bytes"]:
            likely = {bytes(t["bytes"]): t["logprob"] for t in one["top_logprobs"]}
            assert one["logprob"] - likely[bytes(other["bytes"])] < noise
            break
        assert one["logprob"] == pytest.approx(other["logprob"], abs=noise)
        n_same += 1
    return n_same, ours[0]["logprob"]


def test_each_picture_alone(both):
    rows = [
        assert_same(both, [{"role": "user", "content": parts(text, picture)}])
        for text in ("See |: what?", "|Which colours are there?")
        for picture in PICTURES.values()
    ]
    assert sum(n_same for n_same, _ in rows) >= len(rows)
    assert len({first for _, first in rows}) == len(rows)


def test_pictures_anywhere_in_a_conversation(both):
    small, tall, jpeg = (PICTURES[name] for name in ("small", "tall", "jpeg"))
    assert_same(
        both,
        [
            {
                "role": "user",
                "content": parts("|What is this? And | this?", small, tall),
            },
            {"role": "assistant", "content": "A field and a tower."},
            {"role": "user", "content": parts("And |", small)},
            {"role": "assistant", "content": "The field again."},
            {"role": "user", "content": parts("|?", jpeg)},
        ],
    )
