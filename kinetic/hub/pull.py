"""Fetch a model from the hub: find it, choose its files, bring each under a bar."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

from tqdm import tqdm

from kinetic.errors import HubError
from kinetic.files import paths
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
