"""Where the real material is that the test models take their vocabularies from."""

from pathlib import Path

from kinetic.files.paths import cache_dir, default_model_path


def made_models() -> Path:
    """The folder for the model files that tests write."""
    return cache_dir("test-models")


def smollm2() -> Path:
    """The small real model, whose BPE merges the tiny models share."""
    return _present(default_model_path())


def _present(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: make install puts it there")
    return path
