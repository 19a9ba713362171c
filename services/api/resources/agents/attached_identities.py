"""Attach identities to agents and blocks, and detach them."""

from __future__ import annotations

from litestar import Response

from libs.contracts.api.attachments import AttachIdentity, DetachIdentity
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, valid_id
from services.api.openapi.operation import patch
from services.api.resources.memory.blocks import BLOCKS
from services.api.v1.read_model_responses import answer_document

OF_AGENT = "/v1/agents/{agent_id:str}/identities"
OF_BLOCK = "/v1/blocks/{block_id:str}/identities"


@patch(f"{OF_AGENT}/attach/{{identity_id:str}}", "null")
async def attach_identity_to_agent(
    request: AnyRequest, agent_id: str, identity_id: str
) -> Response[bytes]:
    """Attach an identity to an agent; twice is once."""
    await send(request, AttachIdentity, valid_id("agent", agent_id), identity_id)
    return raw(b"null")


@patch(f"{OF_AGENT}/detach/{{identity_id:str}}", "null")
async def detach_identity_from_agent(
    request: AnyRequest, agent_id: str, identity_id: str
) -> Response[bytes]:
    """Detach an identity from an agent; twice is once."""
    await send(request, DetachIdentity, valid_id("agent", agent_id), identity_id)
    return raw(b"null")


@patch(f"{OF_BLOCK}/attach/{{identity_id:str}}", "block")
async def attach_identity_to_block(
    request: AnyRequest, block_id: str, identity_id: str
) -> Response[bytes]:
    """Attach an identity to a block; twice is once."""
    await send(request, AttachIdentity, valid_id("block", block_id), identity_id)
    return await answer_document(request, BLOCKS, block_id)


@patch(f"{OF_BLOCK}/detach/{{identity_id:str}}", "block")
async def detach_identity_from_block(
    request: AnyRequest, block_id: str, identity_id: str
) -> Response[bytes]:
    """Detach an identity from a block; twice is once."""
    await send(request, DetachIdentity, valid_id("block", block_id), identity_id)
    return await answer_document(request, BLOCKS, block_id)


async def send(
    request: AnyRequest,
    kind: type[AttachIdentity] | type[DetachIdentity],
    target_id: str,
    identity_id: str,
) -> None:
    """Attach an identity to an agent or a block, or detach it. Raises Problem."""
    command = kind(identity_id=valid_id("identity", identity_id), target_id=target_id)
    await api_of(request).send(request, command)
