"""/embedding: a body into a request, vectors into llama-server's answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.types import ModelInfo, VectorRequest
from kinetic.web.fields.normalise import EUCLIDEAN, RAW, scaled, written
from kinetic.web.fields.readers import one_of, shown
from kinetic.web.fields.tables import LLAMA, Field, FieldReader
from kinetic.web.fields.vector_fields import INPUTS_MAX, check_dimensions, read_inputs
from kinetic.web.openai.embeddings import DIMENSIONS, NORMALISE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def _as_given(value: object) -> object:
    """A field whose form is checked where it is put to use."""
    return value


EMBEDDING: tuple[Field, ...] = (
    Field(
        name="input",
        read=_as_given,
        range=f"a string, a list of at most {INPUTS_MAX} strings, a list of token"
        ' ids, a list of such lists, or objects such as {"prompt_string": "a"}',
        default="required",
        source=LLAMA,
        meaning="What becomes vectors, one each.",
    ),
    Field(
        name="content",
        read=_as_given,
        range="as `input`",
        default="none",
        source=LLAMA,
        meaning="The same, where there is no `input`.",
    ),
    NORMALISE,
    DIMENSIONS,
    Field(
        name="encoding_format",
        read=one_of("float", "base64"),
        range='"float" or "base64"',
        default='"float"',
        source=LLAMA,
        meaning="Accepted; this route always writes numbers.",
    ),
)

_READER = FieldReader.of(EMBEDDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A request for vectors, and how they are to be scaled."""

    request: VectorRequest
    norm: int = EUCLIDEAN
    dimensions: int | None = None


def read_embedding(
    body: Mapping[str, Any], info: ModelInfo, *, request_id: str, arrived_s: float
) -> Wanted:
    """Read a body of /embedding; raises RequestError naming field, value and limit."""
    values = _READER.read(body)
    param = "input" if "input" in values else "content"
    if param not in values:
        message = '"input" or "content" must be provided'
        raise RequestError(message, param="input")
    given = _unwrapped(values[param], param)
    inputs = read_inputs(given, param=param)
    dimensions: int | None = values.get("dimensions")
    check_dimensions(dimensions, info)
    norm: int = values.get("embd_normalize", EUCLIDEAN)
    return Wanted(
        request=VectorRequest(
            request_id=request_id,
            inputs=inputs.items,
            param=param,
            is_list=inputs.is_list,
            arrived_s=arrived_s,
        ),
        # As llama-server: what is not pooled is not scaled either.
        norm=RAW if info.pooling == "none" else norm,
        dimensions=dimensions,
    )


def _unwrapped(value: Any, where: str) -> Any:
    """Texts out of the objects that llama-server takes them in."""
    if isinstance(value, list):
        return [_unwrapped_item(item, f"{where}[{i}]") for i, item in enumerate(value)]
    return _unwrapped_item(value, where)


def _unwrapped_item(item: Any, where: str) -> Any:
    if not isinstance(item, dict):
        return item
    if item.get("multimodal_data"):
        message = f"{where}.multimodal_data is not supported: vectors are of texts"
        raise UnsupportedFeature(message, param=where)
    if "prompt_string" in item:
        return _string(item["prompt_string"], f"{where}.prompt_string")
    parts = item.get("content")
    if isinstance(parts, str):
        return parts
    if not isinstance(parts, list):
        message = f"{where} must hold a prompt_string or a content, and holds neither"
        raise RequestError(message, param=where)
    return "".join(_part(part, f"{where}.content[{i}]") for i, part in enumerate(parts))


def _part(part: Any, where: str) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind != "text":
        message = f"{where} must be a part of type text, not {shown(kind)}"
        raise UnsupportedFeature(message, param=where)
    return _string(part.get("text"), f"{where}.text")


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        message = f"{where} must be a string, not {shown(value)}"
        raise RequestError(message, param=where)
    return value


def embedding_json(
    wanted: Wanted, vectors: Sequence[npt.NDArray[np.float32]]
) -> list[dict[str, Any]]:
    """The answer: a list of vectors for each input, one alone where they are pooled."""
    found = []
    for i, vector in enumerate(vectors):
        made = scaled(vector, norm=wanted.norm, dimensions=wanted.dimensions)
        rows = made if made.ndim > 1 else made.reshape(1, -1)
        found.append({"index": i, "embedding": written(rows, as_base64=False)})
    return found
