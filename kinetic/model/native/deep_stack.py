"""Work on a thread whose native stack is as deep as the work needs.

Native code that calls itself for each character or level of what a client sent ends
the process where the stack ends. Such work gets a thread of its own, which gives the
memory back when it ends; what is not touched of a stack is address space alone.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from kinetic.errors import Overloaded

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_PAGE = 4096
_stack_size = threading.Lock()


def run(work: Callable[[], T], stack_bytes: int, name: str) -> T:
    """Do something on a stack of at least `stack_bytes`; any thread.

    Raises what the work raises, and Overloaded where there is no memory for a stack.
    """
    outcome: Future[T] = Future()

    def target() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            outcome.set_exception(error)

    thread = threading.Thread(target=target, name=name)
    with _stack_size:
        before = threading.stack_size(-(-stack_bytes // _PAGE) * _PAGE)
        try:
            thread.start()
        except RuntimeError as error:
            mib = stack_bytes >> 20
            raise Overloaded(f"no memory is left for {mib} MiB of stack") from error
        finally:
            threading.stack_size(before)
    thread.join()
    return outcome.result()
