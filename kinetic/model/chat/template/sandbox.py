"""Runs a model file's own chat template, which is foreign code.

Jinja's sandbox keeps a template away from Python's insides. Here it also cannot run or
grow without end: as it is compiled, a template is rewritten so that loop turns, macro
calls, filters, method calls and growing texts are paid for out of a budget of steps.

Bounded: loops (nested, filtered, recursive), macros, `range`, the length of texts and
lists, numbers, the output. Not bounded: a search in, a slice of or a comparison with a
text costs one step however long the text (which has its own limit), and a comparison of
lists that contain each other many times over may take long.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import LoopContext
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import pass_context
from jinja2.visitor import NodeTransformer

from kinetic.model.chat.reply.jsontext import whole_characters
from kinetic.model.chat.template.filters import chat_filters
from kinetic.model.chat.template.metering import (
    CALL_STEPS,
    RECURSION_STEPS,
    TURN_STEPS,
    Fault,
    MeteredTurns,
    check_brace_format,
    check_chars,
    check_items,
    check_power,
    check_product,
    check_replacement,
    check_sum,
    join,
    percent_format,
    spend,
    spend_on_text,
    start_meter,
    stop_meter,
    walk,
)

MAX_STEPS: Final = 50_000_000
"""Steps of one rendering: a few seconds. A thousand messages take some percent."""
MAX_MESSAGE_CHARS: Final = 600
"""What is shown of a template's own error message."""

_COUNT, _SPEND, _CONCAT = "count turns", "spend steps", "concatenate"
# Names of filters that the rewritten template uses; no template can write the spaces.
_REFUSED_METHODS = frozenset(
    [
        "center",
        "encode",
        "expandtabs",
        "format_map",
        "from_bytes",
        "ljust",
        "maketrans",
        "rjust",
        "to_bytes",
        "translate",
        "zfill",
    ]
)
# They make long texts out of short ones, or something other than text.


class Sandbox:
    """One compiled template. Immutable after construction; any thread may render.

    Args:
        source: The template.

    Raises:
        Fault: Jinja or the sandbox does not take it.
    """

    def __init__(self, source: str) -> None:
        environment = _Environment()
        self.global_names = frozenset(
            (*environment.globals, "raise_exception", "strftime_now")
        )
        """Names that a template takes for functions."""
        token = start_meter(MAX_STEPS)
        try:
            tree = environment.parse(source)
            _MeterWriter().visit(tree)
            tree.set_environment(environment)
            code = environment.compile(tree)
            self._template = jinja2.Template.from_code(
                environment, code, environment.make_globals(None)
            )
        except (MemoryError, Exception) as error:
            raise _fault(error, "does not compile") from error
        finally:
            stop_meter(token)

    def render(
        self, variables: Mapping[str, Any], *, now: datetime, max_steps: int = MAX_STEPS
    ) -> str:
        """Render with deep copies of `variables`, which stay unchanged.

        Raises:
            Fault: Whatever went wrong: the template refused, failed, or did too much.
        """

        def strftime_now(pattern: str) -> str:
            return now.strftime(pattern)

        token = start_meter(max_steps)
        try:
            context = self._template.new_context(
                {
                    **copy.deepcopy(dict(variables)),
                    "raise_exception": _raise_exception,
                    "strftime_now": strftime_now,
                }
            )
            # `Template.render` would rewrite tracebacks, milliseconds for each fault.
            text = join("", self._template.root_render_func(context))
            # Templates may write half a surrogate pair as an escape of their own.
            return whole_characters(text)
        except (MemoryError, Exception) as error:
            raise _fault(error, "fails") from error
        finally:
            stop_meter(token)


class _Environment(SandboxedEnvironment):
    """Jinja's sandbox, with every operation that can grow without end bounded.

    Lists may be changed, as two templates do: all they see are copies.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            # All chat templates are written for these two.
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_GenerationTag, loopcontrols],
            finalize=_finalize,
        )
        self.filters = chat_filters(self.filters)
        self.filters.update({_COUNT: _count, _SPEND: _spend, _CONCAT: _concat})
        del self.globals["lipsum"]

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """Join what a macro or a block printed."""
        return join("", parts)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Refuse Python's insides and the methods that pad or encode."""
        if attr in _REFUSED_METHODS and isinstance(obj, (str, int)):
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Run `+ * ** %` after a look at what they would make."""
        match operator:
            case "+":
                check_sum(left, right)
            case "*":
                check_product(left, right)
            case "**":
                check_power(left, right)
            case _:
                if isinstance(left, str):
                    return percent_format(left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run a call, paid for by what its method works on."""
        spend(CALL_STEPS)
        owner = getattr(obj, "__self__", None)
        if isinstance(obj, LoopContext) and args:
            args = (MeteredTurns(args[0], RECURSION_STEPS), *args[1:])
        elif isinstance(owner, str):
            spend_on_text(len(owner))
            if obj.__name__ == "join" and args:
                return join(owner, args[0])
            if obj.__name__ == "replace" and len(args) > 1:
                check_replacement(owner, str(args[0]), str(args[1]))
        elif isinstance(owner, list) and obj.__name__ == "extend" and args:
            args = (list(args[0]), *args[1:])
            check_items(len(owner) + len(args[0]))
        return super().call(context, obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Let `str.format` pad by a written, small width only."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        template = value.__self__

        def bounded(*args: Any, **kwargs: Any) -> str:
            check_brace_format(template)
            walk([args, kwargs])
            made = wrapped(*args, **kwargs)
            check_chars(len(made))
            return made

        return bounded


class _GenerationTag(Extension):
    """`{% generation %}…{% endgeneration %}` marks what was trained on; not for us."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the body as it stands."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _MeterWriter(NodeTransformer):
    """Writes the spending of steps into a template's syntax tree."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - Jinja's naming
        self.generic_visit(node)
        steps = nodes.Const(TURN_STEPS + _n_nodes(node.body))
        node.iter = nodes.Filter(node.iter, _COUNT, [steps], [], None, None)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        return self._spend_at_entry(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802
        return self._spend_at_entry(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        # `~` is the one operator that the sandbox cannot intercept.
        self.generic_visit(node)
        return nodes.Filter(nodes.List(node.nodes), _CONCAT, [], [], None, None)

    def _spend_at_entry(self, node: nodes.Macro | nodes.CallBlock) -> nodes.Node:
        self.generic_visit(node)
        steps = nodes.Const(CALL_STEPS + _n_nodes(node.body))
        spent = nodes.Filter(steps, _SPEND, [], [], None, None)
        node.body.insert(0, nodes.ExprStmt(spent))
        return node


def _n_nodes(body: list[nodes.Node]) -> int:
    """Count the nodes one pass over `body` may run; inner loops count their own."""
    n_nodes = 0
    stack = list(body)
    while stack:
        node = stack.pop()
        n_nodes += 1
        if not isinstance(node, (nodes.For, nodes.Macro)):
            stack.extend(node.iter_child_nodes())
    return n_nodes


# Taking the context keeps Jinja from running these as it compiles.
@pass_context
def _count(_context: object, items: Any, steps: int) -> MeteredTurns:
    return MeteredTurns(items, steps)


@pass_context
def _spend(_context: object, steps: int) -> str:
    spend(steps)
    return ""


def _concat(items: list[object]) -> str:
    return join("", items)


def _finalize(value: object) -> object:
    walk(value)
    return value


def _raise_exception(message: object = "") -> None:
    raise Fault(
        _shortened(str(message)) or "the chat template refuses the conversation"
    )


def _shortened(message: str) -> str:
    if len(message) <= MAX_MESSAGE_CHARS:
        return message
    return f"{message[:MAX_MESSAGE_CHARS]} …"


def _fault(error: BaseException, what: str) -> Fault:
    if isinstance(error, Fault):
        return error
    if isinstance(error, RecursionError):
        return Fault(f"the chat template {what}: it nests too deep")
    if isinstance(error, MemoryError):
        return Fault(f"the chat template {what}: it takes too much memory")
    return Fault(f"the chat template {what}: {_shortened(str(error))}")
