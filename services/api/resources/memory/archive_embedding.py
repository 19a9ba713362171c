"""Embedders of archives: to look at, and to change. V1 has no such thing."""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from pydantic import BaseModel

from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.letta.request_size_limits import JsonLimit, Name
from libs.contracts.memory.archives import EMBEDDING_SECONDS_MAX
from libs.contracts.memory.reembedding import ChangeArchiveEmbedding
from services.api.adapters.resource_query_builder import Resource
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest, body_of, valid_id
from services.api.openapi.operation import get, put
from services.api.resources.memory.archives import ARCHIVE, ARCHIVES, embedding_config
from services.api.v1.read_model_responses import answer_document, document_of

EMBEDDINGS = Resource(kind="archive", view="memory.archive_embedding_view", document="v.document")


class WantedEmbedding(BaseModel):
    """The new embedder of an archive; without either field, the server's default."""

    embedding: Name | None = None
    embedding_config: Annotated[EmbeddingConfig, JsonLimit()] | None = None


@get(f"{ARCHIVE}/embedding", "embedding of an archive")
async def retrieve_archive_embedding(request: AnyRequest, archive_id: str) -> Response[bytes]:
    """Say what embeds an archive, and how many of its passages it has embedded."""
    return await answer_document(request, EMBEDDINGS, archive_id)


@put(f"{ARCHIVE}/embedding", "embedding of an archive", body=WantedEmbedding)
async def change_archive_embedding(request: AnyRequest, archive_id: str) -> Response[bytes]:
    """Embed an archive by another model from now on, and what is in it again, in the background."""
    valid_id("archive", archive_id)
    body = await body_of(request, WantedEmbedding)
    await document_of(request, ARCHIVES, archive_id)
    config = body.embedding_config or await embedding_config(request, body.embedding)
    command = ChangeArchiveEmbedding(archive_id=archive_id, embedding_config=config)
    await api_of(request).send(request, command, seconds_max=EMBEDDING_SECONDS_MAX)
    return await answer_document(request, EMBEDDINGS, archive_id)
