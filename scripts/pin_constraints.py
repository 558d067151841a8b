"""Writes constraints.txt: every package the project needs, at the installed version.

    python -m scripts.pin_constraints

Follows the requirements of pyproject.toml through the metadata of what is installed, so
that packages somebody put into the environment by hand stay out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.console import say

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
HEADER = """\
# Every package of the environment, pinned: what the tests ran with.
# After a change of pyproject.toml: make constraints
"""


EXTRAS = ("dev", "bench")


def direct_requirements(extras: Sequence[str] = EXTRAS) -> list[Requirement]:
    """Reads what pyproject.toml asks for, with some of its extras, and pip."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    optional = [project["optional-dependencies"][name] for name in extras]
    lines = [*project["dependencies"], *(line for extra in optional for line in extra)]
    return [Requirement(line) for line in [*lines, "pip"]]


def installed_versions(extras: Sequence[str] = EXTRAS) -> dict[str, str]:
    """Returns the version of each package that the requirements lead to.

    Raises:
        importlib.metadata.PackageNotFoundError: One of them is not installed.
    """
    versions: dict[str, str] = {}
    seen: set[str] = set()
    waiting = direct_requirements(extras)
    while waiting:
        requirement = waiting.pop()
        key = str(requirement)
        if key in seen:
            continue
        seen.add(key)
        found = metadata.distribution(requirement.name)
        versions[canonicalize_name(requirement.name)] = found.version
        waiting += [
            needed
            for needed in map(Requirement, found.requires or ())
            if applies(needed, requirement.extras)
        ]
    return versions


def applies(requirement: Requirement, extras: set[str]) -> bool:
    """Tells whether a requirement counts here, for a package taken with `extras`."""
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": name}) for name in extras | {""})


def render(versions: dict[str, str]) -> str:
    """Writes the file's text: sorted, one package a line, no addresses."""
    lines = (f"{name}=={version}\n" for name, version in sorted(versions.items()))
    return HEADER + "".join(lines)


def main() -> None:
    """Writes the file."""
    versions = installed_versions()
    CONSTRAINTS.write_text(render(versions), "utf-8")
    say(f"pinned {len(versions)} packages in {CONSTRAINTS.name}")


if __name__ == "__main__":
    main()
