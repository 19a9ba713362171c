"""Embedders of archives and folders: to look at, and to change. V1 has no such thing."""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from pydantic import BaseModel

from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.letta.request_size_limits import JsonLimit, Name
from libs.contracts.memory.archives import EMBEDDING_SECONDS_MAX
from libs.contracts.memory.folders import UpdateFolder
from libs.contracts.memory.reembedding import ChangeArchiveEmbedding
from libs.embeddings.bundled_model_config import HANDLE
from services.api.adapters.resource_query_builder import Resource
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest, body_of, valid_id
from services.api.openapi.operation import get, put
from services.api.resources.memory.archives import ARCHIVE, ARCHIVES, embedding_config
from services.api.resources.memory.folders import FOLDERS
from services.api.v1.read_model_responses import answer_document, document_of

OF_ARCHIVES = Resource(kind="archive", view="memory.archive_embedding_view", document="v.document")
OF_FOLDERS = Resource(kind="source", view="memory.folder_embedding_view", document="v.document")
FOLDER_PATH = "/v1/folders/{folder_id:str}/embedding"


class WantedEmbedding(BaseModel):
    """The new embedder of an archive; without either field, the server's default."""

    embedding: Name | None = None
    embedding_config: Annotated[EmbeddingConfig, JsonLimit()] | None = None


@get(f"{ARCHIVE}/embedding", "embedding of an archive")
async def retrieve_archive_embedding(request: AnyRequest, archive_id: str) -> Response[bytes]:
    """Say what embeds an archive, and how many of its passages it has embedded."""
    return await answer_document(request, OF_ARCHIVES, archive_id)


@put(f"{ARCHIVE}/embedding", "embedding of an archive", body=WantedEmbedding)
async def change_archive_embedding(request: AnyRequest, archive_id: str) -> Response[bytes]:
    """Embed an archive by another model from now on, and what is in it again, in the background."""
    valid_id("archive", archive_id)
    body = await body_of(request, WantedEmbedding)
    await document_of(request, ARCHIVES, archive_id)
    config = body.embedding_config or await embedding_config(request, body.embedding)
    command = ChangeArchiveEmbedding(archive_id=archive_id, embedding_config=config)
    await api_of(request).send(request, command, seconds_max=EMBEDDING_SECONDS_MAX)
    return await answer_document(request, OF_ARCHIVES, archive_id)


@get(FOLDER_PATH, "embedding of a folder")
async def retrieve_folder_embedding(request: AnyRequest, folder_id: str) -> Response[bytes]:
    """Say what embeds a folder, and how many of its passages it has embedded."""
    return await answer_document(request, OF_FOLDERS, folder_id)


@put(FOLDER_PATH, "embedding of a folder", body=WantedEmbedding)
async def change_folder_embedding(request: AnyRequest, folder_id: str) -> Response[bytes]:
    """Embed a folder by another model from now on, and what is in it again, in the background."""
    valid_id("source", folder_id)
    body = await body_of(request, WantedEmbedding)
    await document_of(request, FOLDERS, folder_id)
    config = body.embedding_config or await embedding_config(request, body.embedding or HANDLE)
    assert config is not None, "a handle has a config, or is refused"
    changes = {"embedding_config": config.model_dump(mode="json")}
    command = UpdateFolder(folder_id=folder_id, changes=changes)
    await api_of(request).send(request, command, seconds_max=EMBEDDING_SECONDS_MAX)
    return await answer_document(request, OF_FOLDERS, folder_id)
