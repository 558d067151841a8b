"""`kinetic pull`, `list` and `rm`: what the command line runs."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

from tqdm import tqdm

from kinetic.errors import HubError
from kinetic.files import paths, store
from kinetic.hub.choice import choose, parse_reference
from kinetic.hub.client import (
    HubClient,
    Interrupted,
    Listing,
    Unreachable,
    access_token,
    endpoint,
)
from kinetic.hub.download import MAX_FAILURES, fetch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kinetic.hub.choice import HubFile


class _Bar:
    """A progress bar on standard error."""

    def __init__(self, file: HubFile) -> None:
        self._bar = tqdm(
            total=file.size_bytes,
            desc=file.path.rpartition("/")[2],
            unit="B",
            unit_scale=True,
            file=sys.stderr,
        )
        self._is_started = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._bar.close()

    def reach(self, n_bytes: int) -> None:
        """Show how much is there."""
        if not self._is_started:
            # What an earlier run has brought says nothing about the speed of this one.
            self._is_started = True
            self._bar.initial = n_bytes
            self._bar.n = n_bytes
            self._bar.refresh()
            return
        self._bar.update(n_bytes - self._bar.n)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._bar.write(text, file=sys.stderr)


def pull(reference: str, *, wait: Callable[[float], None] = time.sleep) -> Path:
    """Fetch a model from the hub; the path of its (first) file.

    Reads HF_ENDPOINT and HF_TOKEN. Raises HubError.
    """
    url = endpoint()
    wanted = parse_reference(reference, url)
    client = HubClient(url, access_token())
    listing = _listing(client, wanted.repo, wait)
    folder = paths.cache_dir("models").joinpath(*wanted.repo.split("/"))
    targets = []
    for file in choose(listing.files, wanted):
        target = folder.joinpath(*file.path.split("/"))
        targets.append(target)
        with _Bar(file) as bar:
            if not fetch(client, listing, file, target, bar, wait=wait):
                bar.reach(file.size_bytes)
    return targets[0]


def _listing(client: HubClient, repo: str, wait: Callable[[float], None]) -> Listing:
    for failures in range(1, MAX_FAILURES + 1):
        try:
            return client.listing(repo)
        except Unreachable as error:
            raise HubError(f"the hub cannot be reached: {error}") from error
        except Interrupted as error:
            if failures == MAX_FAILURES:
                raise HubError(str(error)) from error
            wait(min(2.0**failures, 30.0))
    raise AssertionError


def listed() -> str:
    """What `kinetic list` prints: name, size and path of each model."""
    models = store.stored_models()
    if not models:
        return f"no models in {paths.cache_dir('models')}; `kinetic pull` fetches one"
    width = max(len(model.name) for model in models)
    return "\n".join(
        f"{model.name:{width}}  {model.size_bytes / 1e9:7.2f} GB  {model.path}"
        for model in models
    )


def remove(name: str) -> str:
    """Delete a pulled model's files; what `kinetic rm` prints. Raises ModelError."""
    model = store.find(name)
    root = paths.cache_dir("models")
    size = model.size_bytes
    for file in model.files:
        file.unlink()
    folder = model.path.parent
    while folder != root and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
    return f"removed {model.name}, {size / 1e9:.2f} GB"
