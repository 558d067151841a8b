"""Fixtures that every test may use: the cache's real material, and a clean end.

A test that needs material which is not there fails, since a run that skips it would
prove nothing; with KINETIC_ALLOW_SKIPS=1 it is skipped instead.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from kinetic.files import paths
from scripts.engine_source import llama_cpp_tree

LEFTOVER_LIMIT_S = 5.0

# A slow machine is no failure of the property; CI repeats one fixed set of examples.
hypothesis.settings.register_profile(
    "kinetic",
    deadline=None,
    derandomize="CI" in os.environ,
    database=None,
    print_blob=True,
)
hypothesis.settings.load_profile("kinetic")


REAL_MODELS = {"smollm2_path", "minilm_dir", "gemma_path"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that use a real model, so that the fast run leaves them out."""
    for item in items:
        if REAL_MODELS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("model")


def present(path: Path, command: str = "make install") -> Path:
    """Gives back a path to real material, or says which command puts it there."""
    if not path.exists():
        reason = f"{path} is missing: {command} puts it there"
        if os.environ.get("KINETIC_ALLOW_SKIPS"):
            pytest.skip(reason)
        pytest.fail(reason)
    return path


@pytest.fixture(scope="session")
def cache() -> Path:
    """The folder that holds one folder for each kind of kept files."""
    return paths.cache_dir("models").parent


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """SmolLM2 135M Instruct, Q4_1: the small real chat model."""
    return present(paths.default_model_path())


@pytest.fixture(scope="session")
def minilm_dir() -> Path:
    """all-MiniLM-L6-v2 as it was published: safetensors, configuration, vocabulary."""
    return present(paths.cache_dir("models") / "all-MiniLM-L6-v2")


@pytest.fixture(scope="session")
def gemma_path() -> Path:
    """Gemma 3 270M, Q4_K_M: a base model with a sliding window. Optional."""
    path = paths.cache_dir("models") / "gemma-3-270m-q4_k_m.gguf"
    if not path.exists():
        pytest.skip("optional: python -m scripts.fetch_assets --gemma fetches it")
    return path


@pytest.fixture(scope="session")
def templates_dir() -> Path:
    """Seventy real chat templates, *.jinja."""
    return present(llama_cpp_tree() / "models" / "templates")


@pytest.fixture(scope="session")
def vocab_dir() -> Path:
    """Real vocabularies without weights, ggml-vocab-*.gguf."""
    return present(llama_cpp_tree() / "models")


@pytest.fixture(scope="session")
def grammars_dir() -> Path:
    """llama.cpp's sample grammars, *.gbnf."""
    return present(llama_cpp_tree() / "grammars")


@pytest.fixture(scope="session")
def kept_threads() -> set[str]:
    """Name prefixes of threads that outlive a test by right.

    A fixture of a longer scope whose threads start late, such as a pool's, adds theirs.
    """
    return set()


@pytest.fixture(autouse=True)
def no_leftovers(kept_threads: set[str]) -> Iterator[None]:
    """Fails a test that leaves a non-daemon thread or a child process behind.

    What was there before the test, such as a server shared by a module, may stay.
    """
    threads, children = running_threads(), child_processes()
    yield
    left = wait_for_leftovers(threads, children, kept_threads, LEFTOVER_LIMIT_S)
    if left:
        pytest.fail(f"left behind: {', '.join(left)}")


def wait_for_leftovers(
    threads: set[threading.Thread], children: set[int], kept: set[str], limit_s: float
) -> list[str]:
    """Names what runs beyond the given threads and children, after time to end."""
    deadline = time.monotonic() + limit_s
    while True:
        left = [
            f"thread {thread.name}"
            for thread in running_threads() - threads
            if not thread.name.startswith(tuple(kept))
        ]
        left += [f"child process {pid}" for pid in child_processes() - children]
        if not left or time.monotonic() > deadline:
            return sorted(left)
        time.sleep(0.01)


def running_threads() -> set[threading.Thread]:
    """The threads that keep the process from ending."""
    return {thread for thread in threading.enumerate() if not thread.daemon}


def child_processes() -> set[int]:
    """The process ids of direct children, ended but not yet waited for included."""
    lists = list(Path("/proc/self/task").glob("*/children"))
    if not lists:
        return {child.pid or 0 for child in multiprocessing.active_children()}
    found: set[int] = set()
    for path in lists:
        # A thread may end while its list is read.
        try:
            found.update(map(int, path.read_text().split()))
        except OSError:
            continue
    return found
