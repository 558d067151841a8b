"""The command line: flags in, one frozen options object out. llama.cpp's names work."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinetic import __version__, log
from kinetic.config import MIB, ServeOptions
from kinetic.errors import KineticError, ModelError
from kinetic.files import paths, store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_log = logging.getLogger(__name__)

DEFAULT_PORT = 8080
OLLAMA_PORT = 11434
"""Where clients of Ollama look for it."""

_POOLINGS = ("none", "mean", "cls", "last", "rank")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the process's exit code."""
    arguments = parser().parse_args(argv)
    log.set_up(verbose=getattr(arguments, "verbose", False))
    try:
        return int(arguments.run(arguments))
    except KineticError as error:
        print(f"kinetic: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        # Of a file or the system, wherever that was; it says itself which and why.
        _log.debug("ended by", exc_info=True)
        print(f"kinetic: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="kinetic",
        description="A local LLM server: one GGUF model, three APIs, every answer"
        " exactly what its request would get alone.",
    )
    top.add_argument("--version", action="version", version=f"kinetic {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="load a model and answer requests")
    _model_flags(serve)
    _server_flags(serve)
    serve.set_defaults(run=_serve)
    doctor = commands.add_parser(
        "doctor", help="load a model and say which plan it gets, why, and what fits"
    )
    _model_flags(doctor)
    doctor.set_defaults(run=_doctor)
    _store_commands(commands)
    _receipt_commands(commands)
    return top


def _store_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    pull = commands.add_parser(
        "pull",
        help="fetch a GGUF model from the Hugging Face hub; the only command that uses"
        " the network",
    )
    pull.add_argument(
        "reference",
        metavar="REPO[:QUANT]",
        help="such as owner/name-GGUF:Q4_K_M [default of QUANT: Q4_K_M, then Q8_0];"
        " HF_TOKEN opens private repositories, HF_ENDPOINT names a mirror",
    )
    pull.set_defaults(run=_pull)
    listing = commands.add_parser("list", help="show the models that were pulled")
    listing.set_defaults(run=_list)
    remove = commands.add_parser("rm", help="delete a model that was pulled")
    remove.add_argument("name", metavar="NAME", help="as `kinetic list` shows it")
    remove.set_defaults(run=_remove)


def _receipt_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    verify = commands.add_parser(
        "verify-receipt",
        help="run the answers of receipts again and compare every token",
        description="Exit codes: 0 every receipt is proven, 1 one differs, 2 no receipt"
        " or altered, 3 made by another model, 4 signature wrong or missing, 5 cannot"
        " be told on this machine.",
    )
    verify.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="receipts, whole responses that hold some, or JSON lines of either; - is"
        " standard input",
    )
    verify.add_argument(
        "-m",
        "--model",
        dest="model_flag",
        type=Path,
        metavar="FILE",
        help="the model file [default: looked for among the files that are here]",
    )
    verify.add_argument(
        "--public-key",
        metavar="KEY",
        help="ask for this key's signature: 64 hex digits, or a file that holds them",
    )
    verify.add_argument(
        "--key", metavar="FINGERPRINT", help="ask for the signature of this key"
    )
    verify.add_argument(
        "--anyway",
        action="store_true",
        help="run it also where engine or plan are not the receipt's: agreement then"
        " proves it, a difference proves nothing",
    )
    verify.add_argument(
        "--url",
        metavar="URL",
        help="ask this running server instead of loading the model: its word is then"
        " what you have",
    )
    verify.add_argument("--api-key", metavar="KEY", help="the key of that server")
    group = verify.add_argument_group("engine")
    _engine_flags(group, context="what the receipts take", slots="2")
    group.add_argument(
        "-v", "--verbose", action="store_true", help="log the engine's own words too"
    )
    verify.set_defaults(run=_verify_receipt)
    keygen = commands.add_parser(
        "keygen", help="make a key that `kinetic serve --sign-key` signs receipts with"
    )
    keygen.add_argument(
        "file", type=Path, metavar="FILE", help="where the secret key is to be written"
    )
    keygen.set_defaults(run=_keygen)


def _model_flags(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("model")
    group.add_argument(
        "model",
        nargs="?",
        type=Path,
        metavar="MODEL",
        help="a GGUF file, or the name of a pulled model [default: the small model that"
        " `make install` fetches]",
    )
    group.add_argument(
        "-m", "--model", dest="model_flag", type=Path, metavar="FILE", help="the same"
    )
    _engine_flags(
        group,
        context="the model's own",
        slots="as many full contexts as half the free memory holds, at most 4",
    )
    group.add_argument(
        "-mm",
        "--mmproj",
        type=Path,
        metavar="FILE",
        help="the projector (mmproj) file of a vision model, to read images with",
    )
    for bound in ("min", "max"):
        group.add_argument(
            f"--image-{bound}-tokens",
            type=_whole(0),
            default=0,
            metavar="N",
            help=f"{'fewest' if bound == 'min' else 'most'} tokens of an image, for"
            " projectors that keep its shape [default: 0, what the projector says]",
        )
    group.add_argument(
        "--pooling",
        choices=_POOLINGS,
        help="how token vectors become one [default: what the file says]",
    )
    group.add_argument(
        "--rerank",
        "--reranking",
        dest="pooling",
        action="store_const",
        const="rank",
        help="the same as --pooling rank",
    )
    group.add_argument(
        "--embedding",
        "--embeddings",
        dest="embeddings",
        action="store_true",
        help="serve vectors or nothing: a file that says how is served so anyway",
    )
    group.add_argument(
        "--chat-template-file",
        type=Path,
        metavar="FILE",
        help="a Jinja template in place of the model's own",
    )
    group.add_argument(
        "--no-probe",
        action="store_true",
        help="do not try the model's exactness: requests take turns",
    )
    group.add_argument(
        "-v", "--verbose", action="store_true", help="log the engine's own words too"
    )


def _engine_flags(group: argparse._ArgumentGroup, *, context: str, slots: str) -> None:
    group.add_argument(
        "-c",
        "--ctx-size",
        type=_whole(0),
        default=0,
        metavar="N",
        help=f"context of one slot in tokens [default: 0, {context}]",
    )
    group.add_argument(
        "-np",
        "--parallel",
        type=_whole(-1),
        default=0,
        metavar="N",
        help=f"slots, requests that run at once [default: {slots}]",
    )
    group.add_argument(
        "-t",
        "--threads",
        type=_whole(-1),
        default=0,
        metavar="N",
        help="threads of the engine [default: all processors]",
    )
    group.add_argument(
        "-b",
        "--batch-size",
        type=_whole(32),
        default=512,
        metavar="N",
        help="most tokens in one pass [default: 512]",
    )
    group.add_argument(
        "-ub",
        "--ubatch-size",
        type=_whole(1),
        metavar="N",
        help="accepted; a pass is never split",
    )
    group.add_argument(
        "-ngl",
        "--gpu-layers",
        "--n-gpu-layers",
        type=_whole(0),
        default=0,
        metavar="N",
        help="layers kept on a GPU, where the engine is built for one [default: 0]",
    )


def _server_flags(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("server")
    group.add_argument(
        "--host", default="127.0.0.1", help="address to listen on [default: 127.0.0.1]"
    )
    group.add_argument(
        "--port",
        type=_whole(0, 65535),
        help=f"port; 0 lets the system choose [default: {DEFAULT_PORT}]",
    )
    group.add_argument(
        "--ollama",
        action="store_true",
        help=f"listen where Ollama does, on port {OLLAMA_PORT}, unless --port says"
        " otherwise; its routes answer on every port",
    )
    group.add_argument(
        "-a", "--alias", metavar="NAME", help="model id to show [default: file name]"
    )
    group.add_argument(
        "-n",
        "--predict",
        "--n-predict",
        type=_whole(-1),
        default=-1,
        metavar="N",
        help="most tokens of an answer whose request names no limit"
        " [default: -1, the context's end]",
    )
    group.add_argument(
        "--api-key",
        action="append",
        default=[],
        metavar="KEY",
        help="ask every route but health for this key; may be given several times",
    )
    group.add_argument(
        "--api-key-file", type=Path, metavar="FILE", help="keys, one a line"
    )
    group.add_argument(
        "--cors-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help='let web pages of this origin use the server ("*" for all); may be given'
        " several times",
    )
    group.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="answer to this name too, such as a proxy's, in Host headers; may be given"
        " several times",
    )
    group.add_argument(
        "--queue",
        type=_whole(0),
        default=256,
        metavar="N",
        help="most requests that wait for a slot [default: 256]",
    )
    group.add_argument(
        "--max-connections",
        type=_whole(1),
        metavar="N",
        help="most connections that are answered at once or stay open after an answer;"
        " idle ones give way to new ones [default: 256, or what fits `ulimit -n`]",
    )
    group.add_argument(
        "-cram",
        "--cache-ram",
        type=_whole(0),
        metavar="MIB",
        help="most memory for kept prompt states; 0 keeps none there"
        " [default: a quarter of what is free]",
    )
    group.add_argument(
        "--cache-disk",
        type=_whole(0),
        metavar="MIB",
        help="most disk for kept prompt states, which hold conversations; 0 writes"
        " none [default: a tenth of what is free, at most 8192]",
    )
    group.add_argument(
        "--cache-dir",
        type=Path,
        metavar="FOLDER",
        help="folder for kept prompt states [default: states in the cache folder]",
    )
    group.add_argument(
        "--timeout",
        type=_whole(1),
        default=30,
        metavar="S",
        help="seconds a client has to send its request [default: 30]",
    )
    group.add_argument(
        "--max-body",
        type=_whole(1),
        default=32,
        metavar="MIB",
        help="largest body of a request [default: 32]",
    )
    group.add_argument(
        "--show-prompts", action="store_true", help="show prompts in /slots"
    )
    group.add_argument(
        "--sign-key",
        type=Path,
        metavar="FILE",
        help="sign receipts with this key, which `kinetic keygen FILE` makes",
    )
    _draft_flags(command)
    group.add_argument("--metrics", action="store_true", help="accepted; always on")
    group.add_argument("--slots", action="store_true", help="accepted; always on")


def _draft_flags(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("drafting (it never changes an answer)")
    group.add_argument(
        "-md",
        "--model-draft",
        "--spec-draft-model",
        type=Path,
        metavar="FILE",
        help="a smaller model with the same vocabulary that guesses too, where that"
        " pays",
    )
    group.add_argument(
        "--draft-max",
        "--draft",
        "--draft-n",
        "--spec-draft-n-max",
        type=_whole(0),
        default=8,
        metavar="N",
        help="most tokens that are guessed and checked in one pass, where that pays;"
        " 15 is the most a pass takes [default: 8]",
    )
    group.add_argument(
        "--draft-min",
        "--draft-n-min",
        "--spec-draft-n-min",
        type=_whole(0),
        default=0,
        metavar="N",
        help="make no draft of fewer tokens [default: 0, what pays]",
    )
    group.add_argument(
        "--no-draft",
        action="store_const",
        const=0,
        dest="draft_max",
        help="guess nothing; the same as --draft-max 0",
    )


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text)
        if value < least or (most is not None and value > most):
            bounds = f"from {least} to {most}" if most is not None else f">= {least}"
            raise argparse.ArgumentTypeError(f"{value} is not {bounds}")
        return value

    read.__name__ = "whole number"
    return read


def serve_options(arguments: argparse.Namespace) -> ServeOptions:
    """The options of parsed flags. Raises ModelError for files that cannot be read."""
    named = vars(arguments)
    predict = named.get("predict", -1)
    return ServeOptions(
        model=_model_path(arguments),
        host=named.get("host", "127.0.0.1"),
        port=_port(arguments),
        alias=named.get("alias"),
        n_ctx=arguments.ctx_size,
        n_parallel=max(arguments.parallel, 0),
        n_threads=max(arguments.threads, 0),
        n_batch=arguments.batch_size,
        n_gpu_layers=arguments.gpu_layers,
        mmproj=arguments.mmproj,
        image_min_tokens=arguments.image_min_tokens,
        image_max_tokens=arguments.image_max_tokens,
        pooling=arguments.pooling,
        embeddings=arguments.embeddings,
        max_tokens=None if predict < 0 else predict,
        line_limit=named.get("queue", 256),
        max_connections=named.get("max_connections"),
        request_timeout_s=float(named.get("timeout", 30)),
        max_body_bytes=named.get("max_body", 32) * MIB,
        api_keys=_keys(named.get("api_key", []), named.get("api_key_file")),
        cors_origins=_origins(named.get("cors_origin", [])),
        allowed_hosts=_host_names(named.get("allowed_host", [])),
        chat_template=_template(arguments.chat_template_file),
        cache_ram_bytes=_mib(named.get("cache_ram")),
        cache_dir=named.get("cache_dir"),
        cache_disk_bytes=_mib(named.get("cache_disk")),
        draft_max=named.get("draft_max", 8),
        draft_min=_draft_min(named),
        draft_model=_draft_model(named),
        show_prompts=named.get("show_prompts", False),
        sign_key=named.get("sign_key"),
        probe=not arguments.no_probe,
    )


def _port(arguments: argparse.Namespace) -> int:
    given: int | None = getattr(arguments, "port", None)
    if given is not None:
        return given
    return OLLAMA_PORT if getattr(arguments, "ollama", False) else DEFAULT_PORT


def _draft_min(named: dict[str, Any]) -> int:
    least: int = named.get("draft_min", 0)
    most: int = named.get("draft_max", 8)
    if 0 < most < least:
        raise ModelError(
            f"--draft-min {least} is more than --draft-max {most}: no draft could be"
            " made"
        )
    return max(least, 1)


def _draft_model(named: dict[str, Any]) -> Path | None:
    given: Path | None = named.get("model_draft")
    if given is None:
        return None
    if named.get("draft_max") == 0:
        raise ModelError(
            f"--model-draft {given} has nothing to do where drafts are off"
        )
    return store.locate(given)


def _mib(count: int | None) -> int | None:
    return None if count is None else count * MIB


def _model_path(arguments: argparse.Namespace) -> Path:
    given = arguments.model or arguments.model_flag
    if given is not None:
        return store.locate(given)
    path = paths.default_model_path()
    if not path.exists():
        message = (
            "no model was named and the default one is not there: name a GGUF file,"
            " or run `make install`, which fetches it"
        )
        raise ModelError(message)
    return path


def _text(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error


def _template(path: Path | None) -> str | None:
    text = _text(path)
    if text is not None and not text.strip():
        raise ModelError(f"{path} holds no chat template: it is empty")
    return text


def _keys(given: list[str], file: Path | None) -> tuple[str, ...]:
    """Keys of both flags; lines that start with # are comments, as llama-server's."""
    keys = [key for text in given for key in text.split(",")]
    text = _text(file)
    if text is not None:
        lines = (line.strip() for line in text.splitlines())
        found = [line for line in lines if line and not line.startswith("#")]
        if not found:
            raise ModelError(f"{file} holds no key")
        keys += found
    if any(not key.strip() for key in keys):
        raise ModelError("an API key must not be empty")
    return tuple(key.strip() for key in keys)


def _origins(given: list[str]) -> tuple[str, ...]:
    from kinetic.web.guard import is_origin

    origins = tuple(text.removesuffix("/") for text in given)
    for origin in origins:
        if origin != "*" and not is_origin(origin):
            raise ModelError(
                f"--cors-origin {origin} is no origin, such as https://app.example:8443"
                " (no path), and not *"
            )
    return origins


def _host_names(given: list[str]) -> tuple[str, ...]:
    from kinetic.web.guard import host_name

    names = [host_name(text) for text in given]
    for text, name in zip(given, names, strict=True):
        if name is None:
            raise ModelError(
                f"--allowed-host {text} is no host's name, such as llm.example.com"
                " (no scheme, port or path)"
            )
    return tuple(name for name in names if name is not None)


def _serve(arguments: argparse.Namespace) -> int:
    from kinetic.model.engine.build_choice import choose_library

    options = serve_options(arguments)
    choose_library(options.model, options.pooling)
    # The engine reads that choice when it is imported, so not before.
    from kinetic import app

    if not options.api_keys and not _is_loopback(options.host):
        _log.warning(
            "listening on %s without --api-key: whoever reaches that address can use"
            " the model",
            options.host,
        )
    return app.serve(options)


def _is_loopback(host: str) -> bool:
    from kinetic.web.guard import is_this_computer

    return is_this_computer(host)


def _doctor(arguments: argparse.Namespace) -> int:
    from kinetic.model.engine.build_choice import choose_library

    options = serve_options(arguments)
    choose_library(options.model, options.pooling)
    from kinetic.cli import doctor

    print(doctor.report(options))
    return 0


def _verify_receipt(arguments: argparse.Namespace) -> int:
    from kinetic.cli import verifying as commands
    from kinetic.proof.bench import BenchOptions
    from kinetic.receipts.verify import Outcome

    given = arguments.model_flag
    try:
        pin = commands.pin_of(arguments.public_key, arguments.key)
        model = None if given is None else store.locate(given)
    except KineticError as error:
        # As argparse ends on flags that cannot be; 1 would say that an answer differs.
        print(f"kinetic: {error}", file=sys.stderr)
        return 2
    options = commands.VerifyOptions(
        files=tuple(arguments.files),
        pin=pin,
        anyway=arguments.anyway,
        url=arguments.url,
        api_key=arguments.api_key,
        bench=BenchOptions(
            model=model,
            n_ctx=arguments.ctx_size,
            n_parallel=max(arguments.parallel, 0) or 2,
            n_threads=max(arguments.threads, 0),
            n_batch=arguments.batch_size,
            n_gpu_layers=arguments.gpu_layers,
        ),
    )
    try:
        return commands.verify_files(options, print)
    except KineticError as error:
        print(f"kinetic: {error}", file=sys.stderr)
        return int(Outcome.UNDECIDED)


def _keygen(arguments: argparse.Namespace) -> int:
    from kinetic.cli import keygen as keys

    print(keys.keygen(arguments.file))
    return 0


def _pull(arguments: argparse.Namespace) -> int:
    from kinetic.hub import pull as commands

    path = commands.pull(arguments.reference)
    model = store.holding(path)
    print(f"{path}\nkinetic serve {model.name} serves it")
    return 0


def _list(_arguments: argparse.Namespace) -> int:
    from kinetic.hub import pull as commands

    print(commands.listed())
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    from kinetic.hub import pull as commands

    print(commands.remove(arguments.name))
    return 0
