"""The ctypes wall: the native library, loaded here and nowhere else.

Beside this module are what it gives: `model.py`, `context.py` with its `workers.py`,
`sampler.py` and `images.py`. Above the folder there are no pointers, buffer views or
ctypes values. Rules kept in it:

* A `Context` belongs to one thread at a time (the Decoder's once the server runs);
  a `Model`'s read-only calls (tokenise, pieces, metadata) are safe from any thread; a
  `Sampler` belongs to its slot's thread.
* Every callback and buffer that C keeps a pointer to is held by an attribute: a
  collected callback is a segmentation fault.
* Native code aborts on bad arguments, so they are checked before a call.
* Logits live until the next decode: rows are copied out, read-only, but for callers
  that ask for them as they lie there.
* What was acquired is freed once, in reverse order, by `close()`, never in `__del__`.
"""

from __future__ import annotations

import ctypes
import logging
import os
from typing import TYPE_CHECKING, Any

# K-quant tiles take over from 8 rows on and add in another order; read once by the
# library, so it must be set before the library is loaded.
os.environ.setdefault("GGML_CPU_TILED_MM", "0")

import llama_cpp
import llama_cpp.llama_cpp

if TYPE_CHECKING:
    from collections.abc import Callable

lib = llama_cpp.llama_cpp
"""The binding; the folder's other modules take it from here."""

_log = logging.getLogger("kinetic.engine")

_GGML_LEVELS = {2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_last_error: list[str] = []


def _on_log(level: int, text: bytes, _user: object) -> None:
    message = text.decode("utf-8", "replace").rstrip()
    # Level 1 is debug, 5 continues a line (progress dots): neither is worth a record.
    if level not in _GGML_LEVELS or not message:
        return
    if level >= 3:  # noqa: PLR2004 - ggml's own numbers, named by the table above
        _last_error.append(message)
        del _last_error[:-5]
    # The library's INFO is our DEBUG: a page of tensor shapes is no news to users.
    _log.log(_GGML_LEVELS[level] if level >= 4 else logging.DEBUG, "%s", message)  # noqa: PLR2004


def engine_function(name: str, gives: Any, *takes: Any) -> Any:
    """A function of the engine's that the binding does not declare, or not like this.

    Unless `takes` are given, every argument must be a ctypes value.
    """
    # By index: by attribute it is the binding's own, and so would be its types.
    function = lib._lib[name]  # noqa: SLF001
    function.restype = gives
    if takes:
        function.argtypes = takes
    return function


_log_callback = lib.llama_log_callback(_on_log)
lib.llama_log_set(_log_callback, ctypes.c_void_p(0))
lib.llama_backend_init()


def library_versions() -> dict[str, str]:
    """Versions of the binding and of llama.cpp, as they name themselves."""
    return {
        "llama_cpp_python": str(llama_cpp.__version__),
        "llama_cpp": lib.llama_version().decode(),
        "system_info": lib.llama_print_system_info().decode().strip(),
    }


def library_folder() -> str:
    """Folder of the native libraries that are loaded."""
    return str(lib._base_path)  # noqa: SLF001 - the binding has no public name for it


def has_openmp() -> bool:
    """Whether the engine's CPU library runs on OpenMP's thread pool."""
    return "OPENMP = 1" in lib.llama_print_system_info().decode()


def log_here(register: Callable[[Any, Any], None]) -> None:
    """Have another of the engine's libraries log as this one does."""
    register(_log_callback, ctypes.c_void_p(0))


def reason(fallback: str) -> str:
    """What the engine last complained about, as one line; forgets it."""
    text = "; ".join(" ".join(line.split()) for line in _last_error) or fallback
    forget_reason()
    return text


def forget_reason() -> None:
    """Forget what the engine has complained about until now."""
    _last_error.clear()
