"""Calls of Hermes, Qwen2.5, Qwen3 and many after them: JSON in `<tool_call>`.

Models that know the tags of Qwen3.5 write those inside; both are read.
"""

from __future__ import annotations

from kinetic.model.chat.reply.families.qwen_xml import TaggedCalls


class Hermes(TaggedCalls):
    """`<tool_call>` `{"name": …, "arguments": {…}}` `</tool_call>`."""
