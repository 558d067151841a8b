"""Other people's clients, each in an environment of its own in the cache folder."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kinetic.files import paths

FOLDER = Path(__file__).resolve().parent.parent / "conformance" / "clients"
INSTALL_S = 600
RUN_S = 240

_UNREACHABLE = re.compile(
    r"from versions: none|NewConnectionError|Temporary failure|Name or service"
    r"|timed out|refused|ProxyError|ENOTFOUND|EAI_AGAIN|ECONN|ETIMEDOUT|ENETUNREACH",
    re.IGNORECASE,
)
_QUIET: Mapping[str, str] = {
    # None of them may call home, or fetch lists of prices.
    "ANONYMIZED_TELEMETRY": "False",
    "DO_NOT_TRACK": "1",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client as clients/packages.toml has it."""

    name: str
    script: str
    packages: tuple[str, ...]
    api: str
    tried: tuple[str, ...]
    """What the script prints, a line each."""

    @property
    def is_node(self) -> bool:
        """Whether Node runs it, and npm installs it."""
        return self.script.endswith(".cjs")

    @property
    def version(self) -> str:
        """Of the first package, which is the client itself."""
        return re.split("==|(?<=.)@", self.packages[0])[-1]


def known_clients() -> dict[str, Client]:
    """Every client by its key."""
    table = tomllib.loads((FOLDER / "packages.toml").read_text("utf-8"))
    return {
        key: Client(
            name=row["name"],
            script=row["script"],
            packages=tuple(row["packages"]),
            api=row.get("api", "OpenAI"),
            tried=tuple(row["tried"]),
        )
        for key, row in table.items()
    }


def run(client: Client, folder: Path, *arguments: str) -> str:
    """Run a client's script in its environment; what it printed.

    Fails the test where the script does.
    """
    script = str(FOLDER / client.script)
    program = "node" if client.is_node else str(folder / "bin" / "python")
    ran = subprocess.run(
        [program, script, *arguments],
        # What they keep at home is kept with them.
        env={
            **_environment(),
            "HOME": str(folder),
            "NODE_PATH": str(folder / "node_modules"),
        },
        check=False,
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def installed(key: str, client: Client) -> Path:
    """The folder of a client's environment, made if it is not there yet.

    Skips the test where the registry, or Node, is out of reach.
    """
    pins = hashlib.sha256("\n".join(client.packages).encode()).hexdigest()[:12]
    folder = paths.cache_dir("clients") / f"{key}-{pins}"
    done = folder / ".installed"
    if done.exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if client.is_node:
        if shutil.which("npm") is None:
            pytest.skip("Node and npm are not installed")
        _install(["npm", "install", "--prefix", str(folder), *client.packages])
    else:
        _install([sys.executable, "-m", "venv", str(folder)])
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install"]
        _install([*pip, "--disable-pip-version-check", "--quiet", *client.packages])
    done.touch()
    return folder


def _install(command: Sequence[str]) -> None:
    ran = subprocess.run(
        command,
        env=_environment(),
        check=False,
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
    )
    if ran.returncode != 0 and _UNREACHABLE.search(ran.stderr):
        pytest.skip(f"no registry can be reached to install {command[-1]}")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _environment() -> dict[str, str]:
    """Ours without what leads Python to our own packages."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return {**ours, **_QUIET}
