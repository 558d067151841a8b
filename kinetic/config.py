"""The options that the command line makes: frozen, each default in one place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
_TOKENS_A_PASS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Everything `kinetic serve` can be told. Zeros and None mean "choose"."""

    model: Path
    host: str = "127.0.0.1"
    port: int = 8080
    alias: str | None = None
    n_ctx: int = 0
    """Context of one slot in tokens; 0 is the model's own."""
    n_parallel: int = 0
    """Slots; 0 is as many full contexts as half the free memory holds, at most 4."""
    n_threads: int = 0
    n_batch: int = _TOKENS_A_PASS
    n_gpu_layers: int = 0
    mmproj: Path | None = None
    """The projector that pictures are read with; None reads none."""
    image_min_tokens: int = 0
    """Fewest tokens of a picture that keeps its shape; 0 is what the projector says."""
    image_max_tokens: int = 0
    """Most tokens of a picture that keeps its shape; 0 is what the projector says."""
    pooling: str | None = None
    embeddings: bool = False
    """A model that would serve text is refused."""
    max_tokens: int | None = None
    """Most tokens of an answer whose request says nothing; None: context's end."""
    line_limit: int = 256
    """Requests that may wait for a slot; more are answered 503."""
    max_connections: int | None = None
    """Connections that are answered at once; None is what web/http/room.py says."""
    request_timeout_s: float = 30.0
    """Time a client has to send its request."""
    max_body_bytes: int = 32 * MIB
    api_keys: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that the server is asked by, beside this computer's own names."""
    chat_template: str | None = None
    """Template text in place of the model's own."""
    cache_ram_bytes: int | None = None
    """Most bytes of kept states in memory; None is a quarter of what is free."""
    cache_dir: Path | None = None
    """Folder of the states on disk; None is the user's cache folder."""
    cache_disk_bytes: int | None = None
    """Most bytes of kept states on disk; 0 writes none, None is a tenth of what is free
    there, at most 8 GiB."""
    draft_max: int = 8
    """Most tokens that are guessed and checked in one pass; 0 drafts nothing."""
    draft_min: int = 1
    """Shorter drafts are not made."""
    draft_model: Path | None = None
    """A smaller model that guesses too."""
    show_prompts: bool = False
    """/slots shows prompts (behind the key, where there is one)."""
    sign_key: Path | None = None
    """The key file that receipts are signed with; None leaves them unsigned."""
    probe: bool = True
    """Try the plan on the loaded model; without it requests take turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """How `kinetic verify-receipt` loads models. Zeros and None mean "choose"."""

    model: Path | None = None
    """None looks for the file among those of the default model and `kinetic pull`."""
    n_ctx: int = 0
    """Context of one slot; 0 is what the receipts need."""
    n_parallel: int = 2
    """Slots. One is enough to run, two for the probe to see them side by side."""
    n_threads: int = 0
    n_batch: int = _TOKENS_A_PASS
    n_gpu_layers: int = 0
    show_progress: bool = True
