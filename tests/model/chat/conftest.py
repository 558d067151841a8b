"""Real chat templates, loaded and probed once for all tests of this folder."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kinetic.model.chat.template.template import ChatTemplate, Rendered

NOW = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)
CONTROL = (
    *("<|im_start|>", "<|im_end|>", "<s>", "</s>", "[INST]", "[/INST]", "<|eot_id|>"),
    *("<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>", "<end_of_turn>"),
    *("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<BOS>", "<EOS>"),
)
IMAGE = "<__image_1__>"
STRUCTURAL = ("<think>", "</think>", "<tool_call>", "</tool_call>", IMAGE)


@functools.cache
def _load(path: Path) -> ChatTemplate:
    source = path.read_text(encoding="utf-8")
    return ChatTemplate(
        source,
        bos_token="<BOS>",
        eos_token="<EOS>",
        guarded=CONTROL,
        structural=STRUCTURAL,
    )


@pytest.fixture(scope="session")
def template_names(templates_dir) -> list[str]:
    return sorted(path.stem for path in templates_dir.glob("*.jinja"))


@pytest.fixture(scope="session")
def load(templates_dir) -> Callable[[str], ChatTemplate]:
    """Loads a vendored template by the file's name."""

    def load_named(name: str) -> ChatTemplate:
        return _load(templates_dir / f"{name}.jinja")

    return load_named


@pytest.fixture(scope="session")
def render(load) -> Callable[..., Rendered]:
    """Renders with a vendored template, or with a given one."""

    def render_with(
        template: str | ChatTemplate, messages: Any, **more: Any
    ) -> Rendered:
        chosen = load(template) if isinstance(template, str) else template
        return chosen.render(messages, **{"now": NOW, **more})

    return render_with
