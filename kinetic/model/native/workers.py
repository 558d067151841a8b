"""The threads that the engine computes with."""

from __future__ import annotations

import ctypes
from typing import Any

from kinetic.model.native.library import engine_function, lib

_CPU_DEVICE = 0  # ggml's enum ggml_backend_dev_type
_MOST_WORKERS = 512  # GGML_MAX_N_THREADS


class _WorkerOptions(ctypes.Structure):
    """`ggml_threadpool_params` of ggml.h."""

    _fields_ = (
        ("cpumask", ctypes.c_bool * _MOST_WORKERS),
        ("n_threads", ctypes.c_int),
        ("prio", ctypes.c_int),
        ("poll", ctypes.c_uint32),
        ("strict_cpu", ctypes.c_bool),
        ("paused", ctypes.c_bool),
    )


class Workers:
    """The threads that a context computes with, kept from pass to pass.

    Without them the engine starts and ends threads for every pass. They look out for
    the next pass for some milliseconds and then sleep; llama-server's look out fifty
    times as long, which cost four streams 3 % here, and the machine its rest. Where the
    engine has none to give (an OpenMP build has its own) this does nothing. To be
    closed after the context.
    """

    def __init__(self, context: Any, n_threads: int) -> None:
        self._pool: Any = None
        make = _cpu_function("ggml_threadpool_new", ctypes.c_void_p)
        free = _cpu_function("ggml_threadpool_free", None)
        if make is None or free is None or n_threads > _MOST_WORKERS:
            return
        options = _WorkerOptions()
        engine_function("ggml_threadpool_params_init", None)(
            ctypes.byref(options), ctypes.c_int(n_threads)
        )
        options.poll = 1
        self._pool = make(ctypes.addressof(options))
        self._free = free
        if self._pool:
            attach = engine_function("llama_attach_threadpool", None)
            attach(ctypes.c_void_p(context), ctypes.c_void_p(self._pool), None)

    def close(self) -> None:
        """End the threads."""
        if self._pool:
            self._free(self._pool)
            self._pool = None


def _cpu_function(name: str, gives: Any) -> Any:
    """A function of one address of the engine's processor library, or None."""
    if not hasattr(lib._lib, "ggml_backend_dev_by_type"):  # noqa: SLF001
        return None  # a build that holds ggml and does not show it
    device = engine_function("ggml_backend_dev_by_type", ctypes.c_void_p)(_CPU_DEVICE)
    if not device:
        return None
    library = engine_function("ggml_backend_dev_backend_reg", ctypes.c_void_p)
    find = engine_function("ggml_backend_reg_get_proc_address", ctypes.c_void_p)
    found = library(ctypes.c_void_p(device))
    address = find(ctypes.c_void_p(found), ctypes.c_char_p(name.encode()))
    return ctypes.CFUNCTYPE(gives, ctypes.c_void_p)(address) if address else None
