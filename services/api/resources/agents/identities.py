"""Identities: who or what outside agents and blocks are about."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field

from libs.contracts.api.identities import (
    CreateIdentity,
    DeleteIdentity,
    UpdateIdentity,
    UpsertIdentity,
)
from libs.contracts.letta import all_request_bodies as bodies
from libs.contracts.letta.identities import IdentityCreate, IdentityState, IdentityType
from libs.contracts.letta.request_size_limits import NAMES_MAX, Name, SearchText
from services.api.adapters.agents.identity_documents import (
    AGENT_IDS,
    BLOCK_IDS,
    HAS_IDENTITY,
    NOTHING,
    identity_document,
)
from services.api.adapters.resource_query_builder import (
    Resource,
    Where,
    contains,
    filter_of,
)
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Page, Query, body_of, query_of, valid_id
from services.api.openapi.operation import delete, get, patch, post, put
from services.api.resources.agents.agents import AGENTS, Including, relationships
from services.api.resources.memory.blocks import BLOCKS
from services.api.v1.agent_documents import document_with
from services.api.v1.read_model_responses import (
    answer_count,
    answer_document,
    answer_page,
    must_exist,
)

IDENTITIES = Resource(
    kind="identity",
    view="api.identity_view",
    document=identity_document("v"),
    created_view="api.created_identity_view",
    counted=("api", "identities"),
)
IDENTITY = "/v1/identities/{identity_id:str}"
OF_IDENTITY = HAS_IDENTITY.format("%(identity)s")

Relationship = Literal["identity.agents", "identity.blocks"]


class IncludingAttached(Query):
    """Whether to show what an identity is attached to."""

    include: Annotated[list[Relationship], Field(default_factory=list, max_length=NAMES_MAX)]

    @property
    def document(self) -> str:
        """The SQL expression of an identity with what was asked for."""
        return identity_document(
            "v",
            AGENT_IDS if "identity.agents" in self.include else NOTHING,
            BLOCK_IDS if "identity.blocks" in self.include else NOTHING,
        )


class IdentityPage(Page, IncludingAttached):
    """A page of identities."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50
    order_by: Literal["created_at"] = "created_at"
    name: Annotated[SearchText | None, contains("v.name")] = None
    project_id: Annotated[Name | None, Where("v.project_id = {}", key=True)] = None
    identifier_key: Annotated[Name | None, Where("v.identifier_key = {}", key=True)] = None
    identity_type: Annotated[IdentityType | None, Where("v.identity_type = {}", key=True)] = None


class AttachedAgentPage(Page, Including):
    """A page of the agents that an identity is attached to."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50
    order_by: Literal["created_at"] = "created_at"


class AttachedBlockPage(Page):
    """A page of the blocks that an identity is attached to."""

    limit: Annotated[int | None, Field(ge=0, le=1_000)] = 50
    order_by: Literal["created_at"] = "created_at"


@get("/v1/identities", "identities", query=IdentityPage)
async def list_identities(request: AnyRequest) -> Response[bytes]:
    """List identities, the newest first."""
    page = query_of(request, IdentityPage)
    return await answer_page(request, IDENTITIES, page, document=page.document)


@get("/v1/identities/count", "number of identities")
async def count_identities(request: AnyRequest) -> Response[bytes]:
    """Count the identities that there are."""
    return await answer_count(request, IDENTITIES, filter_of(Query(), org_of(request)))


@get(IDENTITY, "identity", query=IncludingAttached)
async def retrieve_identity(request: AnyRequest, identity_id: str) -> Response[bytes]:
    """Retrieve an identity by its id."""
    shown = query_of(request, IncludingAttached).document
    return await answer_document(request, IDENTITIES, identity_id, document=shown)


@post("/v1/identities", "identity", body=bodies.IdentityCreate, query=IncludingAttached)
async def create_identity(request: AnyRequest) -> Response[bytes]:
    """Create an identity, attached to the given agents and blocks. Its key is its own in its
    project."""
    shown = query_of(request, IncludingAttached).document
    body = await body_of(request, bodies.IdentityCreate)
    identity_id = api_of(request).new_id(request, "identity")
    command = CreateIdentity(
        identity=wanted_identity(body, identity_id),
        agent_ids=body.agent_ids or [],
        block_ids=body.block_ids or [],
    )
    await api_of(request).send(request, command, message_id=f"create-{identity_id}")
    return await answer_document(request, IDENTITIES, identity_id, document=shown)


@put("/v1/identities", "identity", body=bodies.IdentityUpsert, query=IncludingAttached)
async def upsert_identity(request: AnyRequest) -> Response[bytes]:
    """Make the identity of a key like this, or create it."""
    shown = query_of(request, IncludingAttached).document
    body = await body_of(request, bodies.IdentityUpsert)
    identity_id = api_of(request).new_id(request, "identity", "upsert")
    command = UpsertIdentity(
        identity=wanted_identity(body, identity_id),
        agent_ids=body.agent_ids or [],
        block_ids=body.block_ids or [],
        replaces_properties=body.properties is not None,
        replaces_agents=body.agent_ids is not None,
        replaces_blocks=body.block_ids is not None,
    )
    reply = await api_of(request).send(request, command, message_id=f"upsert-{identity_id}")
    found = str(reply.result["identity_id"])
    return await answer_document(request, IDENTITIES, found, document=shown)


def wanted_identity(body: IdentityCreate, identity_id: str) -> IdentityState:
    """The identity that a body describes."""
    return IdentityState(
        id=identity_id,
        identifier_key=body.identifier_key,
        name=body.name,
        identity_type=body.identity_type,
        project_id=body.project_id,
        properties=body.properties or [],
    )


@patch(IDENTITY, "identity", body=bodies.IdentityUpdate, query=IncludingAttached)
async def update_identity(request: AnyRequest, identity_id: str) -> Response[bytes]:
    """Change the given fields of an identity. Agents, blocks and properties are added to those
    that it has."""
    valid_id("identity", identity_id)
    shown = query_of(request, IncludingAttached).document
    body = await body_of(request, bodies.IdentityUpdate)
    command = UpdateIdentity(
        identity_id=identity_id,
        name=body.name,
        identifier_key=body.identifier_key,
        identity_type=body.identity_type,
        properties=body.properties,
        agent_ids=body.agent_ids or [],
        block_ids=body.block_ids or [],
    )
    await api_of(request).send(request, command)
    return await answer_document(request, IDENTITIES, identity_id, document=shown)


@put(f"{IDENTITY}/properties", "identity", body=bodies.IdentityProperties)
async def upsert_properties(request: AnyRequest, identity_id: str) -> Response[bytes]:
    """Replace all properties of an identity."""
    valid_id("identity", identity_id)
    body = await body_of(request, bodies.IdentityProperties)
    command = UpdateIdentity(
        identity_id=identity_id, properties=body.root, properties_mode="replace"
    )
    await api_of(request).send(request, command)
    return await answer_document(request, IDENTITIES, identity_id)


@delete(IDENTITY, "nothing")
async def delete_identity(request: AnyRequest, identity_id: str) -> Response[bytes]:
    """Delete an identity; no agent and no block has it any more."""
    command = DeleteIdentity(identity_id=valid_id("identity", identity_id))
    await api_of(request).send(request, command)
    return raw(b"null")


@get(f"{IDENTITY}/agents", "agents", query=AttachedAgentPage)
async def list_agents_of_identity(request: AnyRequest, identity_id: str) -> Response[bytes]:
    """List the agents that an identity is attached to."""
    await must_exist(request, IDENTITIES, identity_id)
    page = query_of(request, AttachedAgentPage)
    attached = filter_of(page, org_of(request)).by_key(OF_IDENTITY, identity=identity_id)
    shown = document_with(relationships(request, page))
    return await answer_page(request, AGENTS, page, attached, document=shown)


@get(f"{IDENTITY}/blocks", "blocks", query=AttachedBlockPage)
async def list_blocks_of_identity(request: AnyRequest, identity_id: str) -> Response[bytes]:
    """List the blocks that an identity is attached to."""
    await must_exist(request, IDENTITIES, identity_id)
    page = query_of(request, AttachedBlockPage)
    attached = filter_of(page, org_of(request)).by_key(OF_IDENTITY, identity=identity_id)
    return await answer_page(request, BLOCKS, page, attached)
