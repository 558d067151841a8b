"""Two answers side by side, and a receipt against its own limits. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kinetic.types import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinetic.receipts.record import OutputRecord, Receipt
    from kinetic.types import Finish, ToolCall

SHOWN_CHARS: Final = 60


def contradiction(receipt: Receipt) -> str | None:
    """What cannot be true of any answer, if anything: its end against its limits."""
    request, output = receipt.request, receipt.output
    n_prompt, n_out = len(request.prompt_tokens), len(output.tokens)
    if n_prompt < 1 or n_prompt >= request.n_ctx:
        return f"a prompt of {n_prompt} tokens does not fit a context {request.n_ctx}"
    if n_prompt + n_out > request.n_ctx:
        return f"{n_prompt + n_out} tokens do not fit a context of {request.n_ctx}"
    if request.max_tokens is not None and n_out > request.max_tokens:
        return f"{n_out} tokens are more than max_tokens, {request.max_tokens}"
    if n_out == 0 and request.max_tokens != 0:
        return "an answer without a token, and max_tokens is not 0"
    if output.finish.context_full and not is_context_full(receipt):
        return "the answer ends for a full context, and the context is not full"
    if (
        output.finish.reason == Outcome.LIMIT
        and not counted_out(receipt)
        and not request.min_indent
    ):
        return "the answer ends at a limit, and none that the receipt names is reached"
    return None


def is_context_full(receipt: Receipt) -> bool:
    """Whether prompt and answer fill the context."""
    request = receipt.request
    n_tokens = len(request.prompt_tokens) + len(receipt.output.tokens)
    return n_tokens == request.n_ctx


def counted_out(receipt: Receipt) -> bool:
    """Whether the answer has as many tokens as it may have."""
    most = receipt.request.max_tokens
    return len(receipt.output.tokens) == most or is_context_full(receipt)


def tokens_to_draw(receipt: Receipt) -> int:
    """How many tokens a re-run draws at most.

    One more than the receipt has, so that the answer has to end by itself where it
    ended, unless it was counted out.
    """
    n_out = len(receipt.output.tokens)
    return n_out if counted_out(receipt) else n_out + 1


def wrong_prompt(recorded: tuple[int, ...], found: tuple[int, ...]) -> str | None:
    """Where the prompt's text does not come to the recorded token ids."""
    if recorded == found:
        return None
    pairs = zip(recorded, found, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if at is None:
        return (
            f"the prompt comes to {len(found)} tokens; {len(recorded)} were run, the"
            " first of them the same"
        )
    return (
        f"the prompt is not what was run: its token {at} comes to {found[at]},"
        f" recorded is {recorded[at]}"
    )


def wrong_output(recorded: OutputRecord, found: OutputRecord) -> str | None:
    """What of an answer is not as recorded."""
    if recorded.tokens != found.tokens:
        return (
            f"the answer has {len(recorded.tokens)} tokens; the model gives"
            f" {len(found.tokens)}"
        )
    if _end(recorded.finish) != _end(found.finish):
        return f"the answer ends by {_end(recorded.finish)}, not {_end(found.finish)}"
    for name in ("reasoning", "content"):
        theirs, ours = getattr(recorded, name), getattr(found, name)
        if theirs != ours:
            at = next(
                (
                    i
                    for i, (a, b) in enumerate(zip(theirs, ours, strict=False))
                    if a != b
                ),
                min(len(theirs), len(ours)),
            )
            return (
                f"the {name} is not the tokens' text: from character {at} on it is"
                f" {shown(theirs[at:])!r}, and the tokens say {shown(ours[at:])!r}"
            )
    if _calls(recorded.tool_calls) != _calls(found.tool_calls):
        return "the tool calls are not what the tokens say"
    return None


def _end(finish: Finish) -> str:
    if finish.stop_string is None:
        return finish.reason
    return f"{finish.reason} {shown(finish.stop_string)!r}"


def _calls(calls: Sequence[ToolCall]) -> list[tuple[str, str]]:
    """Calls without their ids, which the server may have made up."""
    return [(call.name, call.arguments) for call in calls]


def shown(text: str, most: int = SHOWN_CHARS) -> str:
    """A text, cut where it is long."""
    return text if len(text) <= most else text[: most - 1] + "…"
