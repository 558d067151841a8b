"""/api/embed and /api/embeddings: bodies into requests, vectors into answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinetic.errors import RequestError
from kinetic.types import ModelInfo, VectorRequest
from kinetic.web.fields.normalise import EUCLIDEAN, RAW, scaled, written
from kinetic.web.fields.readers import flag, mapping, shown, text, whole
from kinetic.web.fields.tables import Field, FieldReader
from kinetic.web.fields.vector_fields import (
    INPUTS_MAX,
    check_count,
    check_dimensions,
    check_pooled,
)
from kinetic.web.ollama.fields import OLLAMA, OPTIONS
from kinetic.web.ollama.keep_alive import keep_alive

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kinetic.types import VectorJob


def _as_given(value: object) -> object:
    """A field whose form is checked where it is put to use."""
    return value


_COMMON: tuple[Field, ...] = (
    Field(
        name="options",
        read=mapping,
        range="an object",
        default="none",
        source=OLLAMA,
        meaning="Checked, and else without effect: none of them changes a vector.",
    ),
    Field(
        name="keep_alive",
        read=keep_alive,
        range='a number of seconds or a duration such as "5m" or "1h30m"',
        default="forever",
        source=OLLAMA,
        meaning="Checked, and else without effect: the model stays loaded.",
    ),
)

EMBED: tuple[Field, ...] = (
    Field(
        name="input",
        read=_as_given,
        range=f"a string or a list of at most {INPUTS_MAX} strings",
        default="none, which asks for nothing but the model to be loaded",
        source=OLLAMA,
        meaning="What becomes vectors of unit length, one each.",
    ),
    Field(
        name="truncate",
        read=flag,
        range="true or false",
        default="true",
        source=OLLAMA,
        meaning="Cuts the end of a text that the model cannot read at once; `false`"
        " refuses it.",
    ),
    Field(
        name="dimensions",
        read=whole(0),
        range="a whole number from 0 to the length of the model's vectors",
        default="all of them",
        source=OLLAMA,
        meaning="Keeps that many leading numbers and scales again; 0 keeps all.",
    ),
    *_COMMON,
)

EMBEDDINGS: tuple[Field, ...] = (
    Field(
        name="prompt",
        read=text,
        range="a string",
        default="none, which asks for nothing but the model to be loaded",
        source=OLLAMA,
        meaning="What becomes a vector, as the model gives it: of no special length.",
    ),
    *_COMMON,
)

_EMBED = FieldReader.of(EMBED)
_EMBEDDINGS = FieldReader.of(EMBEDDINGS)
_OPTIONS = FieldReader.of(OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A request for vectors, and how they are to be written."""

    request: VectorRequest | None
    """None: nothing is asked but that the model be loaded."""
    norm: int = EUCLIDEAN
    dimensions: int | None = None


def read_embed(
    body: Mapping[str, Any], info: ModelInfo, *, request_id: str, arrived_s: float
) -> Wanted:
    """Read a body of /api/embed; raises RequestError naming field, value and limit."""
    check_pooled(info)
    values = _EMBED.read(body)
    _OPTIONS.read(values.get("options", {}), where="options.")
    dimensions: int | None = values.get("dimensions") or None
    check_dimensions(dimensions, info)
    given = values.get("input", "")
    inputs = _inputs(given)
    if not inputs:
        return Wanted(request=None)
    request = VectorRequest(
        request_id=request_id,
        inputs=inputs,
        is_list=isinstance(given, list),
        truncate=values.get("truncate", True),
        arrived_s=arrived_s,
    )
    return Wanted(request=request, dimensions=dimensions)


def read_embeddings(
    body: Mapping[str, Any], info: ModelInfo, *, request_id: str, arrived_s: float
) -> Wanted:
    """Read a body of /api/embeddings, the older route; raises as `read_embed` does."""
    check_pooled(info)
    values = _EMBEDDINGS.read(body)
    _OPTIONS.read(values.get("options", {}), where="options.")
    prompt = values.get("prompt", "")
    if not prompt:
        return Wanted(request=None)
    request = VectorRequest(
        request_id=request_id,
        inputs=(prompt,),
        param="prompt",
        is_list=False,
        arrived_s=arrived_s,
    )
    return Wanted(request=request, norm=RAW)


def _inputs(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    if not isinstance(value, list):
        message = f"input must be a string or a list of strings, not {shown(value)}"
        raise RequestError(message, param="input")
    check_count(len(value), "input")
    for i, item in enumerate(value):
        if not isinstance(item, str):
            where = f"input[{i}]"
            message = f"{where} must be a string, not {shown(item)}"
            raise RequestError(message, param=where)
    return tuple(value)


def embed_json(
    wanted: Wanted,
    job: VectorJob | None,
    vectors: Sequence[npt.NDArray[np.float32]],
    *,
    model: str,
    seconds: float,
) -> dict[str, Any]:
    """The answer of /api/embed; durations are in nanoseconds."""
    made = (
        scaled(vector, norm=wanted.norm, dimensions=wanted.dimensions)
        for vector in vectors
    )
    found: dict[str, Any] = {
        "model": model,
        "embeddings": [written(vector, as_base64=False) for vector in made],
    }
    if job is None:
        return found
    return {
        **found,
        "total_duration": int(seconds * 1e9),
        "load_duration": 0,
        "prompt_eval_count": job.n_tokens,
    }


def embeddings_json(vectors: Sequence[npt.NDArray[np.float32]]) -> dict[str, Any]:
    """The answer of /api/embeddings."""
    embedding: Any = []
    for vector in vectors:
        embedding = written(vector, as_base64=False)
    return {"embedding": embedding}
