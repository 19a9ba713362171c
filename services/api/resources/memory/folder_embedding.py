"""Embedders of folders: to look at, and to change. V1 has no such thing."""

from __future__ import annotations

from litestar import Response

from libs.contracts.memory.archives import EMBEDDING_SECONDS_MAX
from libs.contracts.memory.folders import UpdateFolder
from libs.embeddings.bundled_model_config import HANDLE
from services.api.adapters.resource_query_builder import Resource
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest, body_of, valid_id
from services.api.openapi.operation import get, put
from services.api.resources.memory.archive_embedding import WantedEmbedding
from services.api.resources.memory.archives import embedding_config
from services.api.resources.memory.folders import FOLDERS
from services.api.v1.read_model_responses import answer_document, document_of

EMBEDDINGS = Resource(kind="source", view="memory.folder_embedding_view", document="v.document")
PATH = "/v1/folders/{folder_id:str}/embedding"


@get(PATH, "embedding of a folder")
async def retrieve_folder_embedding(request: AnyRequest, folder_id: str) -> Response[bytes]:
    """Say what embeds a folder, and how many of its passages it has embedded."""
    return await answer_document(request, EMBEDDINGS, folder_id)


@put(PATH, "embedding of a folder", body=WantedEmbedding)
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
    return await answer_document(request, EMBEDDINGS, folder_id)
