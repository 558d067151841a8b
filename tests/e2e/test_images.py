"""Images through the real process, with the official clients and by hand."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import ollama
import openai
import pytest
from PIL import Image

from tests.support import tiny_projectors
from tests.support.pictures import (
    data_url,
    drawing,
    encoded,
    jpeg_bomb,
    png,
    png_bomb,
)
from tests.support.server import running_server

pytestmark = pytest.mark.model

GREEDY = {"temperature": 0, "max_tokens": 12}
ASK = "What is in this picture?"
CAT, DOG = png(96, 64, 1), png(64, 96, 2)


@pytest.fixture(scope="module")
def seeing(smollm2_path):
    """SmolLM2 with a made projector: it sees noise, and always the same noise."""
    projector = tiny_projectors.gemma3(tiny_projectors.SMOLLM2_WIDTH)
    flags = ("--mmproj", str(projector), "-np", "4", "-c", "1024", "-t", "1")
    with running_server(smollm2_path, *flags, "--cache-disk", "0") as process:
        yield process


@pytest.fixture(scope="module")
def client(seeing):
    with openai.OpenAI(base_url=seeing.base_url, api_key="any", max_retries=0) as found:
        yield found


@pytest.fixture
def ollama_client(seeing):
    found = ollama.Client(seeing.root)
    yield found
    found._client.close()


def model_name(server):
    return httpx.get(f"{server.root}/api/tags").json()["models"][0]["name"]


def image(data, kind="image/png"):
    return {"type": "image_url", "image_url": {"url": data_url(data, kind)}}


def user(*parts):
    content = [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts]
    return {"role": "user", "content": content}


def ask(client, *messages, **more):
    return client.chat.completions.create(
        model="model", messages=list(messages), **{**GREEDY, **more}
    )


def post(server, path, body, **named):
    return httpx.post(f"{server.root}{path}", json=body, timeout=60, **named)


# --- The clients --------------------------------------------------------------------


def test_the_openai_client_sends_images(client):
    cat = ask(client, user(ASK, image(CAT)))
    dog = ask(client, user(ASK, image(DOG)))
    again = ask(client, user(ASK, image(CAT)))
    words = ask(client, user(ASK))
    assert cat.choices[0].message.content == again.choices[0].message.content
    assert cat.choices[0].message.content != dog.choices[0].message.content
    # Sixteen tokens for the picture, and those of the markers around it.
    assert cat.usage.prompt_tokens >= words.usage.prompt_tokens + 16
    assert again.usage.prompt_tokens == cat.usage.prompt_tokens


def test_a_stream_says_what_the_whole_answer_says(client):
    whole = ask(client, user(ASK, image(CAT))).choices[0].message.content
    stream = ask(client, user(ASK, image(CAT)), stream=True)
    pieces = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
    assert len(pieces) > 3
    assert "".join(pieces) == whole


def test_several_images_anywhere_in_a_conversation(client):
    def conversation(last):
        return [
            user("Here is one:", image(CAT)),
            {"role": "assistant", "content": "I see it."},
            user(image(last), "And another", image(CAT), "which is older?"),
        ]

    first = ask(client, *conversation(DOG), logprobs=True)
    second = ask(client, *conversation(DOG), logprobs=True)
    assert first.choices[0].logprobs == second.choices[0].logprobs
    assert second.usage.prompt_tokens_details.cached_tokens > 100
    other = ask(client, *conversation(CAT), logprobs=True)
    assert other.choices[0].logprobs != first.choices[0].logprobs
    assert other.usage.prompt_tokens_details.cached_tokens > 50


def test_choices_and_logprobs_go_with_images(client):
    found = ask(
        client, user(ASK, image(CAT)), n=3, temperature=1, seed=5, logprobs=True
    )
    assert len({c.message.content for c in found.choices}) > 1
    for k, choice in enumerate(found.choices):
        alone = ask(
            client, user(ASK, image(CAT)), temperature=1, seed=5 + k, logprobs=True
        )
        assert alone.choices[0].logprobs == choice.logprobs


def test_a_format_is_kept_to(client):
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "green", "blue"]}},
        "required": ["colour"],
    }
    form = {"type": "json_schema", "json_schema": {"name": "c", "schema": schema}}
    found = ask(client, user(ASK, image(CAT)), response_format=form, max_tokens=60)
    colour = json.loads(found.choices[0].message.content)["colour"]
    assert colour in {"red", "green", "blue"}


def test_many_at_once_get_what_each_gets_alone(client):
    pictures = [png(90, 70, seed) for seed in range(6)]
    alone = [
        ask(client, user(ASK, image(p))).choices[0].message.content for p in pictures
    ]
    with ThreadPoolExecutor(6) as pool:
        together = list(
            pool.map(
                lambda p: ask(client, user(ASK, image(p))).choices[0].message.content,
                pictures,
            )
        )
    assert together == alone


def test_the_ollama_client_sends_images(ollama_client, client, tmp_path: Path):
    path = tmp_path / "cat.png"
    path.write_bytes(CAT)
    asked, name = ollama_client, ollama_client.list().models[0].model
    options = {"temperature": 0, "num_predict": 12}
    expected = ask(client, user(image(CAT), ASK))
    for source in (path, CAT, base64.b64encode(CAT).decode()):
        message = {"role": "user", "content": ASK, "images": [source]}
        answer = asked.chat(name, [message], options=options)
        assert answer.message.content == expected.choices[0].message.content
        assert answer.prompt_eval_count == expected.usage.prompt_tokens
        text = asked.generate(name, ASK, images=[source], options=options)
        assert text.response == expected.choices[0].message.content
    stream = asked.chat(name, [message], options=options, stream=True)
    said = "".join(part.message.content for part in stream)
    assert said == expected.choices[0].message.content


def test_ollamas_images_may_have_a_data_urls_head(seeing, client):
    name = model_name(seeing)
    body = {
        "model": name,
        "stream": False,
        "messages": [{"role": "user", "content": ASK, "images": [data_url(CAT)]}],
        "options": {"temperature": 0, "num_predict": 12},
    }
    answer = post(seeing, "/api/chat", body).json()
    expected = ask(client, user(image(CAT), ASK)).choices[0].message.content
    assert answer["message"]["content"] == expected


def test_a_prefill_runs_what_is_before_the_last_word(client, seeing):
    messages = [user(image(png(80, 80, 77)), "Look at this picture and tell me about")]
    found = post(seeing, "/v1/prefill", {"messages": messages}).json()
    assert found["cached_tokens"] > 30
    longer = [user(image(png(80, 80, 77)), "Look at this picture and tell me about it")]
    answer = ask(client, *longer)
    assert answer.usage.prompt_tokens_details.cached_tokens >= found["cached_tokens"]


def test_capabilities_are_told_everywhere(seeing):
    props = httpx.get(f"{seeing.root}/props").json()
    assert props["modalities"] == {"vision": True, "video": False, "audio": False}
    models = httpx.get(f"{seeing.root}/v1/models").json()
    assert "multimodal" in models["models"][0]["capabilities"]
    name = model_name(seeing)
    shown = post(seeing, "/api/show", {"model": name}).json()
    assert "vision" in shown["capabilities"]
    assert shown["projector_info"]["clip.projector_type"] == "gemma3"


def test_a_shown_prompt_leaves_pictures_out(smollm2_path):
    projector = tiny_projectors.gemma3(tiny_projectors.SMOLLM2_WIDTH)
    flags = ("--mmproj", str(projector), "-np", "1", "-c", "512", "-t", "1")
    with running_server(smollm2_path, *flags, "--show-prompts") as process:
        body = {"messages": [user("Hello", image(CAT))], "stream": True}
        with httpx.stream(
            "POST", f"{process.root}/v1/chat/completions", json=body, timeout=60
        ) as answer:
            next(answer.iter_lines())
            (slot,) = httpx.get(f"{process.root}/slots").json()
        assert "Hello" in slot["prompt"]


# --- Text that looks like an image --------------------------------------------------


def test_a_marker_that_a_user_writes_is_text(client):
    for marker in ("<__image_0__>", "<__media__>", "<start_of_image>"):
        plain = ask(client, user(f"see {marker} there"))
        assert plain.usage.prompt_tokens > 0
        mixed = ask(client, user(f"see {marker} there", image(CAT)))
        swapped = ask(client, user(image(CAT), f"see {marker} there"))
        assert mixed.usage.prompt_tokens == plain.usage.prompt_tokens + 30
        assert swapped.usage.prompt_tokens == plain.usage.prompt_tokens + 30


# --- What cannot be used ------------------------------------------------------------

STRANGE = {
    "hello": b"hello",
    "nothing": b"",
    "png cut short": CAT[:200],
    "jpeg cut short": encoded(drawing(), "JPEG")[:300],
    "bmp": encoded(drawing(), "BMP"),
    "a strip": encoded(Image.new("RGB", (1, 5_000))),
    "60,000 x 60,000": png_bomb(60_000, 60_000),
    "20,000 x 20,000 of zeros": png_bomb(20_000, 20_000, rows=2_000),
    "1 x 2^31": png_bomb(1, 1 << 31),
    "jpeg 65,000 x 65,000": jpeg_bomb(65_000, 65_000),
    "jpeg of 500 scans": jpeg_bomb(8_000, 8_000, n_scans=500),
}
SOURCES = {
    "http": "http://127.0.0.1:9/a.png",
    "https": "https://example.org/a.png",
    "file": "file:///etc/passwd",
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "no base64": "data:image/png,%89PNG",
    "bad base64": "data:image/png;base64,!!!!",
    "empty": "",
    "empty data": "data:image/png;base64,",
}


def memory_mib(process):
    text = Path(f"/proc/{process.pid}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def test_everything_strange_is_a_400_that_names_it_and_memory_stays_flat(seeing):
    urls = {**{k: data_url(v) for k, v in STRANGE.items()}, **SOURCES}
    before = memory_mib(seeing)
    for name, url in urls.items():
        part = {"type": "image_url", "image_url": {"url": url}}
        body = {"messages": [user("a"), user("b", part)], **GREEDY}
        answer = post(seeing, "/v1/chat/completions", body)
        assert answer.status_code == 400, (name, answer.text)
        error = answer.json()["error"]
        assert error["param"] == "messages[1].content[1]", name
        assert error["message"].startswith("messages[1].content[1] "), name
        model = model_name(seeing)
        given = url.removeprefix("data:image/png;base64,")
        message = {"role": "user", "content": "b", "images": [given]}
        body = {"model": model, "messages": [message], "stream": False}
        answer = post(seeing, "/api/chat", body)
        assert answer.status_code == 400, (name, answer.text)
        assert answer.json()["error"].startswith("messages[0].images[0] "), name
    assert memory_mib(seeing) - before < 60
    assert seeing.health()["status"] == "ok"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url"},
        {"type": "image_url", "image_url": None},
        {"type": "image_url", "image_url": 5},
        {"type": "image_url", "image_url": {}},
        {"type": "image_url", "image_url": {"url": None}},
        {"type": "image_url", "image_url": {"url": ["x"]}},
        {"type": "image", "source": data_url(CAT), "where": "here"},
        {"type": "input_image", "image_url": data_url(CAT)},
    ],
)
def test_other_shapes_of_a_part_are_refused(seeing, part):
    body = {"messages": [user("a", part)], **GREEDY}
    answer = post(seeing, "/v1/chat/completions", body)
    assert answer.status_code == 400
    assert "messages[0].content[1]" in answer.json()["error"]["message"]


@pytest.mark.parametrize("images", [[None], [5], "aGk=", {"a": 1}, [[CAT.hex()]]])
def test_other_shapes_of_ollamas_images_are_refused(seeing, images):
    name = model_name(seeing)
    message = {"role": "user", "content": "a", "images": images}
    body = {"model": name, "messages": [message], "stream": False}
    answer = post(seeing, "/api/chat", body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("messages[0].images")
    body = {"model": name, "prompt": "a", "images": images, "stream": False}
    answer = post(seeing, "/api/generate", body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("images")


def test_forty_images_are_too_many(seeing):
    body = {"messages": [user("a", *[image(CAT)] * 40)], **GREEDY}
    answer = post(seeing, "/v1/chat/completions", body)
    assert answer.status_code == 400
    assert "messages[0].content[33]" in answer.json()["error"]["message"]
    assert "32" in answer.json()["error"]["message"]


def test_images_that_are_large_together_are_refused(seeing):
    large = [
        encoded(Image.new("L", (5_000, 5_000), shade), compress_level=1)
        for shade in range(24)
    ]
    body = {"messages": [user("a", *map(image, large))], **GREEDY}
    answer = post(seeing, "/v1/chat/completions", body)
    assert answer.status_code == 400
    assert "134217728 pixels together" in answer.json()["error"]["message"]
    assert seeing.health()["status"] == "ok"


def test_a_prompt_that_images_make_too_long_is_refused_with_both_numbers(seeing):
    parts = [image(png(60, 60, seed)) for seed in range(30)] + ["word " * 300]
    answer = post(
        seeing, "/v1/chat/completions", {"messages": [user(*parts)], **GREEDY}
    )
    assert answer.status_code == 400
    assert "1024" in answer.json()["error"]["message"]


def test_an_image_cannot_have_a_receipt(seeing):
    body = {"messages": [user("a", image(CAT))], "receipt": True, **GREEDY}
    answer = post(seeing, "/v1/chat/completions", body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "receipt"
    assert "images" in answer.json()["error"]["message"]


def test_raw_text_has_no_place_for_an_image(seeing):
    name = model_name(seeing)
    body = {"model": name, "prompt": "a", "raw": True, "images": [data_url(CAT)]}
    answer = post(seeing, "/api/generate", body)
    assert answer.status_code == 400
    assert "images" in answer.json()["error"]


def test_a_text_model_refuses_images_by_message_and_part(server):
    body = {"messages": [user("a"), user("b", image(CAT))], **GREEDY}
    answer = post(server, "/v1/chat/completions", body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages[1].content[1]"
    assert "no images" in answer.json()["error"]["message"]
    name = model_name(server)
    message = {"role": "user", "content": "b", "images": [data_url(CAT)]}
    body = {"model": name, "messages": [message], "stream": False}
    assert post(server, "/api/chat", body).status_code == 400
    assert server.health()["status"] == "ok"


# --- Leaving ------------------------------------------------------------------------


def test_a_client_that_leaves_frees_its_slot_whatever_is_being_done(seeing):
    for seed in range(6):
        body = {
            "messages": [user(ASK, image(png(300, 300, 40 + seed)))],
            "stream": True,
        }
        limit = httpx.Timeout(60, read=0.005 * (seed + 1))
        try:
            with httpx.stream(
                "POST",
                f"{seeing.root}/v1/chat/completions",
                json={**body, "max_tokens": 400},
                timeout=limit,
            ) as answer:
                next(answer.iter_lines())
        except httpx.ReadTimeout:
            pass
    seeing.wait_until_idle(30)


def test_a_projector_that_does_not_fit_ends_the_start_in_one_line(smollm2_path):
    from tests.support.server import ServerProcess

    with ServerProcess(
        smollm2_path, "--mmproj", str(tiny_projectors.gemma3()), "-t", "1"
    ) as process:
        process._process.wait(60)
        process._reader.join(60)
        assert process._process.returncode == 1
        (line,) = [line for line in process.log if line.startswith("kinetic: ")]
        assert "576" in line
        assert "256" in line
