"""What /props and /slots tell of the server. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kinetic.web.llama_server.settings import Settings

if TYPE_CHECKING:
    from kinetic.types import ModelInfo
    from kinetic.web.actors import SlotShown

Json = dict[str, Any]


def props(info: ModelInfo, *, max_tokens: int | None) -> Json:
    """The body of GET /props."""
    found: Json = {
        "default_generation_settings": {
            "params": Settings.defaults(info.sampling, max_tokens).short(),
            "n_ctx": info.n_ctx,
        },
        "total_slots": info.n_slots,
        "model_alias": info.id,
        "model_ftype": info.ftype,
        "model_path": info.path,
        "modalities": {"vision": info.has_vision, "video": False, "audio": False},
        # Images come as parts of chat messages; no text stands for one here.
        "media_marker": "",
        "endpoint_slots": True,
        "endpoint_props": False,
        "endpoint_metrics": True,
        "ui": False,
        "ui_settings": {},
        "chat_template": info.chat_template,
        "chat_template_caps": dict(sorted(info.template_caps.items())),
        "bos_token": info.bos_token,
        "eos_token": info.eos_token,
        "build_info": build_info(info),
        "is_sleeping": False,
        "cors_proxy_enabled": False,
        "kinetic": {
            "plan": info.plan,
            "plan_reason": info.plan_reason,
            "drafting": info.drafting,
            "versions": dict(info.versions),
        },
    }
    tool_use = info.metadata.get("tokenizer.chat_template.tool_use")
    if tool_use:
        found["chat_template_tool_use"] = tool_use
    return found


def build_info(info: ModelInfo) -> str:
    """Which server and which engine, in one line."""
    versions = info.versions
    own = f"kinetic-{versions.get('kinetic', '')}"
    engine = versions.get("llama_cpp_python")
    return f"{own} (llama-cpp-python {engine})" if engine else own


def slots(
    shown: Sequence[SlotShown],
    info: ModelInfo,
    *,
    detokenize: Callable[[Sequence[int]], bytes] | None,
) -> list[Json]:
    """The body of GET /slots; prompts only where `detokenize` is given."""
    return [_slot(slot, info, detokenize) for slot in shown]


def _slot(
    slot: SlotShown,
    info: ModelInfo,
    detokenize: Callable[[Sequence[int]], bytes] | None,
) -> Json:
    found: Json = {
        "id": slot.slot_id,
        "n_ctx": info.n_ctx,
        "speculative": info.n_draft > 0,
        "is_processing": slot.is_processing,
    }
    job = slot.job
    if job is None:
        return found
    limit = job.max_tokens
    found |= {
        "id_task": slot.task,
        "n_prompt_tokens": len(job.prompt),
        "n_prompt_tokens_processed": max(slot.n_prompt_done - slot.n_cached, 0),
        "n_prompt_tokens_cache": slot.n_cached,
        "params": Settings.of(job).short(),
        "next_token": [
            {
                "has_next_token": slot.is_processing,
                "has_new_line": slot.has_new_line,
                "n_remain": -1 if limit is None else max(limit - slot.n_generated, 0),
                "n_decoded": slot.n_generated,
            }
        ],
    }
    if info.n_draft > 0:
        found["n_draft"] = slot.n_drafted
        found["n_draft_accepted"] = slot.n_accepted
    if detokenize is not None:
        found["prompt"] = detokenize(job.prompt).decode("utf-8", "replace")
    return found
