"""The identities of agents and blocks: what is shown of them, found by them, and attached."""

from __future__ import annotations

from collections.abc import Sequence

from libs.contracts.api.attachments import ReplaceIdentities
from libs.contracts.letta import error_bodies
from services.api.adapters.agents.attachment_queries import AttachmentQueries
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest

IDENTITY_FIELDS = frozenset({"identity_ids"})


async def check_identities(request: AnyRequest, identity_ids: Sequence[str] | None) -> None:
    """Raise the 404 that names the first of these identities that is not there."""
    queries = AttachmentQueries(api_of(request).reads.database)
    missing = await queries.first_missing_identity(org_of(request), identity_ids or ())
    if missing:
        raise Problem(404, error_bodies.not_found("identity", missing))


async def replace_identities(
    request: AnyRequest, target_id: str, identity_ids: Sequence[str] | None
) -> None:
    """Attach exactly these identities to an agent or a block, if the request says which. Raises
    Problem."""
    if identity_ids is None:
        return
    api = api_of(request)
    command = ReplaceIdentities(target_id=target_id, identity_ids=list(identity_ids))
    name = api.new_id(request, "cmd", request.url.path, target_id, "identities")
    await api.send(request, command, message_id=name)
