"""Agents that are made from other agents."""

from __future__ import annotations

from hashlib import sha256

from litestar import Response
from pydantic import BaseModel, ConfigDict

from libs.contracts.api.imports import ImportOptions, ImportSource, RequestImport
from libs.contracts.letta.agent_requests import AgentName
from libs.contracts.letta.request_size_limits import Name
from services.api.adapters.agents.import_queries import SAME_FORK
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.per_path_concurrency_limits import end_turn
from services.api.http.raw_json import raw
from services.api.http.request_admission import unless_hung_up
from services.api.http.request_parsing import AnyRequest, body_of
from services.api.openapi.operation import post
from services.api.resources.agents.agents import AGENTS
from services.api.v1.as_of import resolve
from services.api.v1.import_request import (
    WAIT_SECONDS_MAX,
    ImportQuery,
    answer_later,
    imported_agents,
    wants_no_answer,
)
from services.api.v1.message_request import is_retry
from services.api.v1.read_model_responses import document_of, must_exist


class ForkAgent(BaseModel):
    """As of when an agent is forked, now if that is left out, and what the new one is called."""

    model_config = ConfigDict(extra="ignore")

    at: Name | None = None
    name: AgentName | None = None
    background: bool = False


@post("/v1/agents/{agent_id:str}/fork", "agent", body=ForkAgent)
async def fork_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Make an agent that is what another one is, or was, and goes its own way from there. One that
    was deleted is had back by a moment before, until it is erased."""
    asked = await body_of(request, ForkAgent) if await request.body() else ForkAgent()
    api = api_of(request)
    request_hash = sha256(await request.body()).hexdigest()
    begun = await begun_before(request, agent_id, request_hash)
    import_id = begun or api.new_id(request, "import")
    with api.awaited_forks.taking(import_id):
        if begun is None:
            await request_fork(request, agent_id, asked, import_id, request_hash)
        end_turn(request.scope["state"])  # a long history takes long
        if wants_no_answer(request, ImportQuery(background=asked.background)):
            return await answer_later(request, import_id)
        agent_ids = await unless_hung_up(request, imported_agents(request, import_id))
        if agent_ids is None:
            return await answer_later(request, import_id)
        return raw(await document_of(request, AGENTS, agent_ids[0]))


async def begun_before(request: AnyRequest, agent_id: str, request_hash: str) -> str | None:
    """The import that a client asked for before, where it says that it asks again: the last one of
    the same request that nobody waits for, nor was answered with."""
    if not is_retry(request) or "idempotency-key" in request.headers:
        return None
    api, awaited = api_of(request), api_of(request).awaited_forks
    values = {
        "org": org_of(request),
        "agent": agent_id,
        "hash": request_hash,
        "seconds": WAIT_SECONDS_MAX,
    }
    while row := await api.reads.database.fetch_one(SAME_FORK, {**values, "excluded": awaited.ids}):
        if row[0] not in awaited:  # nor has anybody come meanwhile who asks again, too
            return str(row[0])
    return None


async def request_fork(
    request: AnyRequest, agent_id: str, asked: ForkAgent, import_id: str, request_hash: str
) -> None:
    """Request the import that makes the fork."""
    api = api_of(request)
    if asked.at is None:
        await must_exist(request, AGENTS, agent_id)
        cut = await api.agent_lines.log.settled_cut(api.clock)
    else:
        cut = (await resolve(request, agent_id, asked.at)).commit_order
    source = ImportSource(form="fork", agent_id=agent_id, cut=cut, request_hash=request_hash)
    command = RequestImport(
        import_id=import_id, source=source, options=ImportOptions(name=asked.name)
    )
    await api.send(request, command, message_id=f"request-{import_id}")
