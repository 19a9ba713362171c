"""Archives, and the agents that search them."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field
from pydantic_core import from_json

from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta import error_bodies
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.contracts.letta.request_size_limits import Name
from libs.contracts.memory.archives import (
    AttachArchive,
    CreateArchive,
    DeleteArchive,
    DetachArchive,
    UpdateArchive,
)
from services.api.adapters.resource_query_builder import Filter, Resource, Where, filter_of
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, body_of, query_of, valid_id
from services.api.openapi.operation import delete, get, patch, post
from services.api.resources.agents.agents import AGENTS, Including, relationships
from services.api.resources.server.models import MODELS
from services.api.v1.agent_documents import document_with
from services.api.v1.read_model_responses import answer_document, answer_page, document_of

ARCHIVES = Resource(
    kind="archive",
    view="memory.archive_view",
    document="v.document",
    created_view="memory.created_archive_view",
)
OF_AGENT = (
    "v.id in (select archive_id from memory.archive_agent_view aa where aa.agent_id = {}"
    " and aa.org = v.org)"
)
SEARCHING = (
    "v.id = any(array(select agent_id from memory.archive_agent_view"
    " where archive_id = %(archive)s and org = %(org)s))"
)
ARCHIVE = "/v1/archives/{archive_id:str}"
AGENT_ARCHIVE = "/v1/agents/{agent_id:str}/archives"


class ArchivePage(Page):
    """A page of archives."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50
    order_by: Literal["created_at"] = "created_at"
    name: Annotated[Name | None, Where("v.name = {}", key=True)] = None
    agent_id: Annotated[Name | None, Where(OF_AGENT, key=True)] = None


class SearchingAgentPage(Page, Including):
    """A page of the agents that search an archive."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50


@post("/v1/archives", "archive", body=bodies.ArchiveCreateRequest)
async def create_archive(request: AnyRequest) -> Response[bytes]:
    """Create an archive without any passages."""
    api = api_of(request)
    body = await body_of(request, bodies.ArchiveCreateRequest)
    archive_id = api.new_id(request, "archive")
    command = CreateArchive(
        archive_id=archive_id,
        name=body.name,
        description=body.description,
        embedding_config=body.embedding_config or await embedding_of_new(request, body.embedding),
    )
    await api.send(request, command, message_id=f"create-{archive_id}")
    return await answer_document(request, ARCHIVES, archive_id)


async def embedding_of_new(request: AnyRequest, handle: str | None) -> EmbeddingConfig | None:
    """The config of the model that embeds something new: the one of that handle, or the default of
    the operator; None where there is neither. Raises the 404 of `embedding_config`."""
    return await embedding_config(request, handle or api_of(request).defaults.embedding or None)


async def embedding_config(request: AnyRequest, handle: str | None) -> EmbeddingConfig | None:
    """The config of an embedding model by its handle; raises the 404 that says which there are."""
    if handle is None:
        return None
    found = Filter(["v.kind = 'embedding'"])
    models = from_json(await api_of(request).reads.all(MODELS, found, order="v.position"))
    for model in models:
        if model.get("handle") == handle:
            return EmbeddingConfig.model_validate(model)
    known = [str(model.get("handle")) for model in models]
    raise Problem(404, error_bodies.handle_not_found(handle, known))


@get("/v1/archives", "archives", query=ArchivePage)
async def list_archives(request: AnyRequest) -> Response[bytes]:
    """List archives, the newest first."""
    return await answer_page(request, ARCHIVES, query_of(request, ArchivePage))


@get(ARCHIVE, "archive")
async def retrieve_archive(request: AnyRequest, archive_id: str) -> Response[bytes]:
    """Retrieve an archive by its id."""
    return await answer_document(request, ARCHIVES, archive_id)


@patch(ARCHIVE, "archive", body=bodies.ArchiveUpdateRequest)
async def update_archive(request: AnyRequest, archive_id: str) -> Response[bytes]:
    """Give an archive another name or description."""
    valid_id("archive", archive_id)
    body = await body_of(request, bodies.ArchiveUpdateRequest)
    changes = body.model_dump(mode="json", exclude_unset=True)
    await api_of(request).send(request, UpdateArchive(archive_id=archive_id, changes=changes))
    return await answer_document(request, ARCHIVES, archive_id)


@delete(ARCHIVE, "nothing", status_code=204)
async def delete_archive(request: AnyRequest, archive_id: str) -> None:
    """Delete an archive with its passages."""
    await api_of(request).send(request, DeleteArchive(archive_id=valid_id("archive", archive_id)))


@get(f"{ARCHIVE}/agents", "agents", query=SearchingAgentPage)
async def list_agents_of_archive(request: AnyRequest, archive_id: str) -> Response[bytes]:
    """List the agents that search an archive."""
    await document_of(request, ARCHIVES, archive_id)
    page = query_of(request, SearchingAgentPage)
    searching = filter_of(page, org_of(request)).by_key(SEARCHING, archive=archive_id)
    shown = document_with(relationships(request, page))
    return await answer_page(request, AGENTS, page, searching, document=shown)


@patch(f"{AGENT_ARCHIVE}/attach/{{archive_id:str}}", "nothing")
async def attach_archive(request: AnyRequest, agent_id: str, archive_id: str) -> Response[bytes]:
    """Let an agent search an archive; twice is once."""
    command = AttachArchive(
        archive_id=valid_id("archive", archive_id), agent_id=valid_id("agent", agent_id)
    )
    await api_of(request).send(request, command)
    return raw(b"null")


@patch(f"{AGENT_ARCHIVE}/detach/{{archive_id:str}}", "nothing")
async def detach_archive(request: AnyRequest, agent_id: str, archive_id: str) -> Response[bytes]:
    """Let an agent no longer search an archive; twice is once."""
    await document_of(request, AGENTS, agent_id, document="to_jsonb(v.id)")
    command = DetachArchive(archive_id=valid_id("archive", archive_id), agent_id=agent_id)
    await api_of(request).send(request, command)
    return raw(b"null")
