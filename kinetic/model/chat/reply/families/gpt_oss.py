"""gpt-oss's channels: a reply is a row of messages, each with a header.

`<|channel|>analysis<|message|>` reasoning `<|end|>`, then `<|start|>assistant`
`<|channel|>final<|message|>` and the answer. A call is a message to a function: the
header holds `to=functions.NAME`, the body its arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kinetic.model.chat.reply.arguments import FoundCall, Tools
from kinetic.model.chat.reply.jsontext import read_object
from kinetic.model.chat.reply.outlet import Outlet
from kinetic.model.chat.reply.source import Mismatch, Reading, Source, skip_blanks

START = "<|start|>"
CHANNEL = "<|channel|>"
CONSTRAIN = "<|constrain|>"
MESSAGE = "<|message|>"
ENDS = ("<|end|>", "<|call|>", "<|return|>")
MARKERS = (START, CHANNEL, CONSTRAIN, MESSAGE, *ENDS)
MESSAGE_STARTS = (START, CHANNEL)
HEADER_PARTS = (CHANNEL, CONSTRAIN, MESSAGE)

RECIPIENT_KEY = "to="
FUNCTIONS = "functions."
ANALYSIS = "analysis"
HEADER_RUN = re.compile(r"[^<\n]+")
MAX_HEADER = 256
MAX_PARTS = 6
UNFINISHED = re.compile(
    rf"(?:{re.escape(START)}\w*)?"
    rf"(?:{re.escape(CHANNEL)}\w* ?)?(?:{re.escape(CONSTRAIN)}\w*)?"
)
CHANNEL_NAME = re.compile(re.escape(CHANNEL) + r"\s*(\w+)")
RECIPIENT = re.compile(r"\bto=([^\s<]+)")
NOBODY = frozenset(("assistant", "user", "all"))
"""Recipients that make no call of a message; models write them by mistake."""
BODY_RUN = re.compile(r"[^<]+")


@dataclass(frozen=True, slots=True)
class MessageHeader:
    """What stands before a message's body."""

    text: str
    channel: str | None
    recipient: str | None

    @classmethod
    def parse(cls, text: str) -> MessageHeader:
        """The last channel counts, and the last recipient that is one."""
        channels = CHANNEL_NAME.findall(text)
        recipients = [name for name in RECIPIENT.findall(text) if name not in NOBODY]
        return cls(
            text, *(found[-1] if found else None for found in (channels, recipients))
        )


class ChannelReader:
    """Reads messages to the end of the text, or to the one call asked for.

    A message to a known function is a call if its body is an object; else, and if the
    function is unknown, the message is text, header and all. A message to something
    that is no function, such as a tool built into other products, is not for the user:
    it counts as reasoning.
    """

    def __init__(
        self, source: Source, outlet: Outlet, tools: Tools, *, split: bool
    ) -> None:
        self._source = source
        self._outlet = outlet
        self._tools = tools
        self._split = split
        self.is_reasoning = False
        """What is read now is reasoning."""

    def read(self) -> Reading[None]:
        """Reads the whole reply."""
        header = yield from self._read_header((*MESSAGE_STARTS, MESSAGE, RECIPIENT_KEY))
        while True:
            following = yield from self._read_message(header)
            if self._outlet.complete:
                return
            if following is None and not (yield from self._source.peek()):
                return
            header = following or (
                yield from self._read_header((*MESSAGE_STARTS, MESSAGE))
            )

    def _read_header(self, starts: tuple[str, ...]) -> Reading[MessageHeader | None]:
        """Reads a header up to after `<|message|>`, if one stands here."""
        source = self._source
        start = source.mark()
        text = ""
        try:
            yield from skip_blanks(source)
            for part in range(MAX_PARTS):
                options = HEADER_PARTS if part else starts
                text += yield from source.expect(*options)
                if text.endswith(MESSAGE):
                    return MessageHeader.parse(text)
                text += yield from source.read_run(HEADER_RUN)
                if len(text) > MAX_HEADER:
                    break
            source.rewind(start)
        except Mismatch:
            # The end of the text in a header's middle cuts off no text.
            if (yield from source.peek()) or not UNFINISHED.fullmatch(text):
                source.rewind(start)
        finally:
            source.release()
        return None

    def _read_message(
        self, header: MessageHeader | None
    ) -> Reading[MessageHeader | None]:
        """Reads a message's body, and the next header if no end stands between."""
        outlet = self._outlet
        if header is None:
            return (yield from self._read_body(outlet.content))
        recipient = header.recipient
        if recipient is not None:
            name = recipient.removeprefix(FUNCTIONS)
            if name in self._tools:
                return (yield from self._read_call(header, name))
            if recipient != name:
                return (yield from self._read_as_text(header))
        if recipient is None and header.channel != ANALYSIS:
            outlet.begin_message()
            return (yield from self._read_body(outlet.content))
        if not self._split:
            return (yield from self._read_as_text(header))
        self.is_reasoning = True
        outlet.begin_reasoning()
        following = yield from self._read_body(outlet.reasoning)
        outlet.end_reasoning()
        self.is_reasoning = False
        return following

    def _read_call(
        self, header: MessageHeader, name: str
    ) -> Reading[MessageHeader | None]:
        source = self._source
        start = source.mark()
        try:
            yield from skip_blanks(source)
            arguments = yield from read_object(source)
        except Mismatch:
            source.rewind(start)
            source.release()
            return (yield from self._read_as_text(header))
        source.release()
        self._outlet.calls([FoundCall(name, arguments)])
        if self._outlet.complete:
            return None
        return (yield from self._read_body(self._outlet.content))

    def _read_as_text(self, header: MessageHeader) -> Reading[MessageHeader | None]:
        self._outlet.begin_message()
        self._outlet.content(header.text)
        return (yield from self._read_body(self._outlet.content))

    def _read_body(self, put: Callable[[str], None]) -> Reading[MessageHeader | None]:
        """Reads up to the message's end, or to after the next header."""
        source = self._source
        while True:
            put(source.run(BODY_RUN))
            if not source.now:
                if not (yield from source.peek()):
                    return None
                continue
            marker = yield from source.choose((*ENDS, *MESSAGE_STARTS))
            if marker in ENDS:
                source.take(len(marker))
                return None
            if marker is not None:
                header = yield from self._read_header(MESSAGE_STARTS)
                if header is not None:
                    return header
            put(source.take(len(marker or "<")))
