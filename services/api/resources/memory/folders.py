"""Folders of files, and under their older name, sources."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field
from pydantic_core import from_json

from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.request_size_limits import Name
from libs.contracts.memory.archives import EMBEDDING_SECONDS_MAX
from libs.contracts.memory.folders import CreateFolder, DeleteFolder, UpdateFolder
from services.api.adapters.resource_query_builder import Resource, Where, filter_of
from services.api.http.callers import org_of
from services.api.http.encoded_slashes import last_segment
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, Query, body_of, query_of, valid_id
from services.api.openapi.operation import delete, get, patch, post
from services.api.resources.agents.agents import AGENTS
from services.api.resources.memory.archives import embedding_of_new
from services.api.resources.memory.passages import LIST_BYTES_MAX
from services.api.v1.read_model_responses import (
    answer_count,
    answer_document,
    answer_page,
    document_of,
)

FOLDERS = Resource(
    kind="source",
    view="memory.folder_view",
    document="v.document",
    created_view="memory.created_folder_view",
    counted=("memory", "folders"),
)
PASSAGES_OF_FOLDER = Resource(
    kind="passage", view="memory.folder_passage_view", document="v.document"
)
OF_FOLDER = (
    "v.id = any(array(select a.agent_id from memory.agent_folder_view a"
    " where a.folder_id = %(folder)s and a.org = %(org)s))"
)

# So many folders and files are told in one answer, in about 20 MB.
DETAILED_MAX = 100_000


def paths(suffix: str = "") -> list[str]:
    """The paths of an operation, under both names of folders."""
    return [f"/v1/folders{suffix}", f"/v1/sources{suffix}"]


class FolderFilters(Query):
    """Which folders."""

    name: Annotated[Name | None, Where('v.name collate "C" = {}')] = None


class FolderPage(Page, FolderFilters):
    """A page of folders."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50
    order: Literal["asc", "desc"] = "asc"
    order_by: Literal["created_at"] = "created_at"


class PassagePage(Page):
    """A page of the passages of a folder."""

    order_by: Literal["created_at"] = "created_at"


class StatisticsQuery(Query):
    """The details of each folder in the statistics."""

    include_detailed_per_source_metadata: bool = False


@post(paths(), "folder", body=bodies.FolderCreate)
async def create_folder(request: AnyRequest) -> Response[bytes]:
    """Create a folder; its name is its own in the organisation."""
    api = api_of(request)
    body = await body_of(request, bodies.FolderCreate)
    folder_id = api.new_id(request, "source")
    command = CreateFolder(
        folder_id=folder_id,
        name=body.name,
        description=body.description,
        instructions=body.instructions,
        metadata=body.metadata,
        embedding_config=body.embedding_config or await embedding_of_new(request, body.embedding),
        embedding_chunk_size=body.embedding_chunk_size,
    )
    await api.send(request, command, message_id=f"create-{folder_id}")
    return await answer_document(request, FOLDERS, folder_id)


@get(paths(), "folders", query=FolderPage)
async def list_folders(request: AnyRequest) -> Response[bytes]:
    """List folders, the oldest first."""
    return await answer_page(request, FOLDERS, query_of(request, FolderPage))


@get(paths("/count"), "number of folders")
async def count_folders(request: AnyRequest) -> Response[bytes]:
    """Count the folders that match the filters."""
    found = filter_of(query_of(request, FolderFilters), org_of(request))
    return await answer_count(request, FOLDERS, found)


@get(paths("/metadata"), "what there is in all folders", query=StatisticsQuery)
async def retrieve_folder_statistics(request: AnyRequest) -> Response[bytes]:
    """Count the folders, their files and the bytes of those, in each folder if that is asked."""
    query, folders = query_of(request, StatisticsQuery), api_of(request).folders
    found = await folders.statistics(org_of(request), detailed=False)
    if not query.include_detailed_per_source_metadata:
        return raw(found)
    counted = from_json(found)
    if counted["total_files"] + counted["total_sources"] > DETAILED_MAX:
        detail = (
            f"There are more than {DETAILED_MAX:,} folders and files: leave out"
            " `include_detailed_per_source_metadata`, and list the files of each folder"
        )
        raise Problem(413, {"detail": detail})
    return raw(await folders.statistics(org_of(request), detailed=True))


@get(paths("/name/{folder_name:str}"), "id of the folder")
async def retrieve_folder_id(request: AnyRequest, folder_name: str) -> Response[bytes]:
    """Retrieve the id of the folder of a name, which may have slashes."""
    folder_name = last_segment(request)
    found = await api_of(request).folders.id_of_name(org_of(request), folder_name)
    if found is None:
        raise Problem(404, {"detail": f"Folder with name={folder_name} not found"})
    return raw(found)


@get(paths("/{folder_id:str}"), "folder")
async def retrieve_folder(request: AnyRequest, folder_id: str) -> Response[bytes]:
    """Retrieve a folder by its id."""
    return await answer_document(request, FOLDERS, folder_id)


@patch(paths("/{folder_id:str}"), "folder", body=bodies.FolderUpdate)
async def update_folder(request: AnyRequest, folder_id: str) -> Response[bytes]:
    """Change the given fields of a folder."""
    valid_id("source", folder_id)
    body = await body_of(request, bodies.FolderUpdate)
    changes = body.model_dump(mode="json", exclude_unset=True)
    command = UpdateFolder(folder_id=folder_id, changes=changes)
    await api_of(request).send(request, command, seconds_max=EMBEDDING_SECONDS_MAX)
    return await answer_document(request, FOLDERS, folder_id)


@delete(paths("/{folder_id:str}"), "nothing")
async def delete_folder(request: AnyRequest, folder_id: str) -> Response[bytes]:
    """Delete a folder, with its files and their passages."""
    await api_of(request).send(request, DeleteFolder(folder_id=valid_id("source", folder_id)))
    return raw(b"null")


@get(paths("/{folder_id:str}/passages"), "passages", query=PassagePage)
async def list_folder_passages(request: AnyRequest, folder_id: str) -> Response[bytes]:
    """List the passages of the files in a folder, the newest first."""
    await document_of(request, FOLDERS, folder_id)
    page = query_of(request, PassagePage)
    found = filter_of(page, org_of(request)).by_key("v.folder_id = %(folder)s", folder=folder_id)
    return await answer_page(request, PASSAGES_OF_FOLDER, page, found, bytes_max=LIST_BYTES_MAX)


@get(paths("/{folder_id:str}/agents"), "ids of agents", query=PassagePage)
async def list_folder_agents(request: AnyRequest, folder_id: str) -> Response[bytes]:
    """List the ids of the agents that a folder is attached to, the newest first."""
    await document_of(request, FOLDERS, folder_id)
    page = query_of(request, PassagePage)
    found = filter_of(page, org_of(request)).by_key(OF_FOLDER, folder=folder_id)
    return await answer_page(request, AGENTS, page, found, document="to_json(v.id)")
