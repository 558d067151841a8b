"""/v1/rerank: a body into a request, scores into an answer. Pure.

The usual form is Jina's and Cohere's; a body with `texts` is read, and answered, as the
text-embeddings-inference server does it (`TEI`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinetic.errors import RequestError, UnsupportedFeature
from kinetic.types import ModelInfo, RankRequest
from kinetic.web.fields.normalise import sigmoid
from kinetic.web.fields.readers import flag, shown, whole
from kinetic.web.fields.tables import Field, FieldReader
from kinetic.web.openai.fields import Refused
from kinetic.web.openai.vector_names import check_names

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kinetic.types import VectorJob

JINA = "Jina, Cohere"
TEI = "TEI"


def _as_given(value: object) -> object:
    """A field whose form is checked where it is put to use."""
    return value


RERANK: tuple[Field, ...] = (
    Field(
        name="query",
        read=_as_given,
        range="a string, or an object with a text",
        default="required",
        source=JINA,
        meaning="What the documents are scored against.",
    ),
    Field(
        name="documents",
        read=_as_given,
        range="a list of at least one string or object with a text",
        default="required",
        source=JINA,
        meaning="Scored one by one; an empty one has a score too. Their number has no"
        " limit but that of their tokens, each counted with the query's.",
    ),
    Field(
        name="texts",
        read=_as_given,
        range="as `documents`",
        default="none",
        source=TEI,
        meaning="In place of `documents`; the answer is then a bare list of index and"
        " score.",
    ),
    Field(
        name="top_n",
        read=whole(1),
        range="a whole number from 1 to 2147483647",
        default="all",
        source=JINA,
        meaning="How many of the most relevant documents to list.",
        aliases=("top_k",),
    ),
    Field(
        name="return_documents",
        read=flag,
        range="true or false",
        default="false",
        source=JINA,
        meaning="Repeats each listed document as an object with its text.",
    ),
    Field(
        name="return_text",
        read=flag,
        range="true or false",
        default="false",
        source=TEI,
        meaning="Beside `texts`: repeats each listed text.",
    ),
    Field(
        name="raw_scores",
        read=flag,
        range="true or false",
        default="as the model's head gives them",
        source=TEI,
        meaning="`false` brings scores of models without probabilities between 0 and 1"
        " (by the logistic function); `true` asks for the head's own numbers, which"
        " models with probabilities do not give.",
    ),
    Field(
        name="truncate",
        read=flag,
        range="true or false",
        default="false",
        source=TEI,
        meaning="Cuts the end of a document that does not fit with the query; else it"
        " is refused.",
        aliases=("truncation",),
    ),
)

_READER = FieldReader.of(RERANK)
_KNOWN = (*(s for field in RERANK for s in field.spellings), "model", "user")

REFUSED_RERANK: Mapping[str, Refused] = {
    "input": Refused("use query and documents"),
    "passages": Refused("use documents"),
    "rank_fields": Refused("give documents as texts"),
    "max_chunks_per_doc": Refused("a document is scored whole", (1,)),
    "max_tokens_per_doc": Refused("use truncate"),
    "max_query_length": Refused("texts are not cut by themselves"),
    "max_doc_length": Refused("use truncate"),
    "truncation_direction": Refused("documents are cut at their end", ("Right",)),
    "instruction": Refused("the model's own template says what is asked"),
    "return_embeddings": Refused("scores come without vectors"),
}
"""Other servers' fields that would change the scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """A request for scores, and how they are to be written."""

    request: RankRequest
    top_n: int | None = None
    with_documents: bool = False
    is_tei: bool = False
    with_sigmoid: bool = False


def read_rerank(
    body: Mapping[str, Any], info: ModelInfo, *, request_id: str, arrived_s: float
) -> Ranking:
    """Read a body of /v1/rerank; raises RequestError naming field, value and limit."""
    check_names(body, _KNOWN, REFUSED_RERANK)
    values = _READER.read(body)
    if "query" not in values:
        raise RequestError("query is missing", param="query")
    query = _text(values["query"], "query")
    given = [name for name in ("documents", "texts") if name in values]
    if len(given) != 1:
        message = "documents is missing"
        if given:
            message = "texts cannot stand beside documents, which means the same"
        raise RequestError(message, param="documents")
    (param,) = given
    is_tei = param == "texts"
    raw_scores: bool | None = values.get("raw_scores")
    if raw_scores and info.gives_probabilities:
        message = "raw_scores is true, and this model gives probabilities alone"
        raise UnsupportedFeature(message, param="raw_scores")
    return Ranking(
        request=RankRequest(
            request_id=request_id,
            query=query,
            documents=_documents(values[param], param),
            param=param,
            truncate=values.get("truncate", False),
            arrived_s=arrived_s,
        ),
        top_n=values.get("top_n"),
        with_documents=values.get(
            "return_text" if is_tei else "return_documents", False
        ),
        is_tei=is_tei,
        with_sigmoid=raw_scores is False and not info.gives_probabilities,
    )


def _documents(value: Any, param: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        message = f"{param} must be a list of texts, not {shown(value)}"
        raise RequestError(message, param=param)
    if not value:
        raise RequestError(f"{param} must not be an empty list", param=param)
    return tuple(
        item if isinstance(item, str) else _text(item, f"{param}[{i}]")
        for i, item in enumerate(value)
    )


def _text(value: Any, where: str) -> str:
    if isinstance(value, dict):
        where = f"{where}.text"
        if "text" not in value:
            raise RequestError(f"{where} is missing", param=where)
        value = value["text"]
    if not isinstance(value, str):
        message = f"{where} must be a string, not {shown(value)}"
        raise RequestError(message, param=where)
    return value


def rerank_json(
    ranking: Ranking,
    job: VectorJob,
    vectors: Sequence[npt.NDArray[np.float32]],
    *,
    model: str,
) -> dict[str, Any] | list[dict[str, Any]]:
    """The answer, most relevant first, equal scores in the documents' order.

    The score is the head's first output, as for llama-server.
    """
    scores = [float(vector[0]) for vector in vectors]
    if ranking.with_sigmoid:
        scores = [sigmoid(score) for score in scores]
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    results = [_result(ranking, i, scores[i]) for i in order[: ranking.top_n]]
    if ranking.is_tei:
        return results
    usage = {"prompt_tokens": job.n_tokens, "total_tokens": job.n_tokens}
    return {"object": "list", "model": model, "results": results, "usage": usage}


def _result(ranking: Ranking, i: int, score: float) -> dict[str, Any]:
    text = ranking.request.documents[i]
    if ranking.is_tei:
        found: dict[str, Any] = {"index": i, "score": score}
        return {**found, "text": text} if ranking.with_documents else found
    found = {"index": i, "relevance_score": score}
    return {**found, "document": {"text": text}} if ranking.with_documents else found
