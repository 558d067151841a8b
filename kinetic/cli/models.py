"""`kinetic list` and `kinetic rm`: the models that were pulled."""

from __future__ import annotations

import argparse
from typing import Final

from kinetic.cli.flags import Command, Flag
from kinetic.files import paths, store


def _list(_arguments: argparse.Namespace) -> int:
    models = store.stored_models()
    if not models:
        print(f"no models in {paths.cache_dir('models')}; `kinetic pull` fetches one")
    width = max((len(model.name) for model in models), default=0)
    for model in models:
        size = f"{model.size_bytes / 1e9:7.2f} GB"
        print(f"{model.name:{width}}  {size}  {model.path}")
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    model = store.find(arguments.name)
    root = paths.cache_dir("models")
    size = model.size_bytes
    for file in model.files:
        file.unlink()
    folder = model.path.parent
    while folder != root and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
    print(f"removed {model.name}, {size / 1e9:.2f} GB")
    return 0


LIST: Final = Command(name="list", help="show the models that were pulled", run=_list)
REMOVE: Final = Command(
    name="rm",
    help="delete a model that was pulled",
    run=_remove,
    flags={Flag("NAME", "name"): "as `kinetic list` shows it"},
)
