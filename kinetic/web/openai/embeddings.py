"""/v1/embeddings: a body into a request, vectors into an answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinetic.errors import RequestError
from kinetic.types import ModelInfo, VectorRequest
from kinetic.web.fields.normalise import EUCLIDEAN, NORM_MAX, RAW, scaled, written
from kinetic.web.fields.readers import one_of, whole
from kinetic.web.fields.tables import LLAMA, OPENAI, Field, FieldReader
from kinetic.web.fields.vector_fields import (
    INPUTS_MAX,
    check_dimensions,
    check_pooled,
    read_inputs,
)
from kinetic.web.openai.fields import Refused
from kinetic.web.openai.vector_names import check_names

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kinetic.types import VectorJob


def _as_given(value: object) -> object:
    """A field whose form is checked where it is put to use."""
    return value


NORMALISE = Field(
    name="embd_normalize",
    read=whole(RAW, NORM_MAX),
    range=f"a whole number from {RAW} to {NORM_MAX}",
    default=f"{EUCLIDEAN}",
    source=LLAMA,
    meaning="How vectors are scaled: 2 to unit length, -1 not at all, 0 so that the"
    " largest number is 32760, any other by that p-norm.",
)

DIMENSIONS = Field(
    name="dimensions",
    read=whole(1),
    range="a whole number from 1 to the length of the model's vectors",
    default="all of them",
    source=OPENAI,
    meaning="Keeps that many leading numbers and scales again. Any model's vectors can"
    " be cut; those of models trained for it (Matryoshka) keep most of their meaning.",
)

EMBEDDINGS: tuple[Field, ...] = (
    Field(
        name="input",
        read=_as_given,
        range=f"a string, a list of at most {INPUTS_MAX} strings, a list of token ids,"
        " or a list of such lists",
        default="required",
        source=OPENAI,
        meaning="What becomes vectors, one each. Texts get the model's markers around"
        " them, and may hold markers; ids are taken as they are.",
    ),
    Field(
        name="encoding_format",
        read=one_of("float", "base64"),
        range='"float" or "base64"',
        default='"float"',
        source=OPENAI,
        meaning="`base64` is of the same numbers as little-endian 32-bit floats.",
    ),
    DIMENSIONS,
    NORMALISE,
)

_READER = FieldReader.of(EMBEDDINGS)
_ACCEPTED = ("model", "user")
_KNOWN = (*(s for field in EMBEDDINGS for s in field.spellings), *_ACCEPTED)

REFUSED_EMBEDDINGS: Mapping[str, Refused] = {
    "content": Refused("a field of /embedding; use input"),
    "prompt": Refused("use input"),
    "texts": Refused("use input"),
    "messages": Refused("use input"),
    "input_type": Refused("write the model's own prefix into the text"),
    "task": Refused("write the model's own prefix into the text"),
    "prompt_name": Refused("write the model's own prefix into the text"),
    "instruction": Refused("write the model's own prefix into the text"),
    "late_chunking": Refused("each input is read by itself"),
    "truncate": Refused("texts are never cut; /api/embed does that"),
    "truncation": Refused("texts are never cut; /api/embed does that"),
    "truncate_prompt_tokens": Refused("texts are never cut; /api/embed does that"),
    "add_special_tokens": Refused("use token ids for inputs without markers", (True,)),
    "normalized": Refused("use embd_normalize", (True,)),
    "normalize": Refused("use embd_normalize", (True,)),
    "embedding_type": Refused("use encoding_format", ("float",)),
    "embedding_types": Refused("use encoding_format", (["float"],)),
    "output_dtype": Refused("use encoding_format", ("float",)),
    "output_dimension": Refused("use dimensions"),
    "output_dimensionality": Refused("use dimensions"),
}
"""Other servers' fields that would change the vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A request for vectors, and how they are to be written."""

    request: VectorRequest
    norm: int = EUCLIDEAN
    dimensions: int | None = None
    as_base64: bool = False


def read_embeddings(
    body: Mapping[str, Any], info: ModelInfo, *, request_id: str, arrived_s: float
) -> Wanted:
    """Read a body of /v1/embeddings.

    Raises RequestError naming field, value and limit.
    """
    check_pooled(info)
    check_names(body, _KNOWN, REFUSED_EMBEDDINGS)
    values = _READER.read(body)
    if "input" not in values:
        raise RequestError("input is missing", param="input")
    inputs = read_inputs(values["input"])
    dimensions: int | None = values.get("dimensions")
    check_dimensions(dimensions, info)
    return Wanted(
        request=VectorRequest(
            request_id=request_id,
            inputs=inputs.items,
            is_list=inputs.is_list,
            arrived_s=arrived_s,
        ),
        norm=values.get("embd_normalize", EUCLIDEAN),
        dimensions=dimensions,
        as_base64=values.get("encoding_format") == "base64",
    )


def embeddings_json(
    wanted: Wanted,
    job: VectorJob,
    vectors: Sequence[npt.NDArray[np.float32]],
    *,
    model: str,
) -> dict[str, Any]:
    """The answer, vectors in the inputs' order."""
    data = []
    for i, vector in enumerate(vectors):
        made = scaled(vector, norm=wanted.norm, dimensions=wanted.dimensions)
        embedding = written(made, as_base64=wanted.as_base64)
        data.append({"object": "embedding", "index": i, "embedding": embedding})
    usage = {"prompt_tokens": job.n_tokens, "total_tokens": job.n_tokens}
    return {"object": "list", "model": model, "data": data, "usage": usage}
