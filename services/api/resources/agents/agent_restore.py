"""The way back for an agent: its blocks, its configuration or its context as they were. None of it
is in V1."""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from pydantic import BaseModel, ConfigDict, Field

from libs.contracts.api.restores import RequestRestore, RestoredPart
from libs.contracts.bus_messages import Rejected
from libs.contracts.letta.request_size_limits import Name
from services.api.adapters.agents.restore_queries import RestoreQueries
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem, refusal_problem
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest, body_of
from services.api.openapi.operation import post
from services.api.resources.agents.agents import AGENTS
from services.api.v1.as_of import resolve
from services.api.v1.read_model_responses import answer_document, must_exist

WAIT_SECONDS_MAX = 60.0
LOOK_SECONDS, LOOK_SECONDS_MAX = 0.02, 0.5


class RestoreAgent(BaseModel):
    """To which moment an agent goes back, an event of it or a time, and what of it."""

    model_config = ConfigDict(extra="forbid")

    at: Name
    what: Annotated[list[RestoredPart], Field(min_length=1, max_length=3)]


@post("/v1/agents/{agent_id:str}/restore", "agent", body=RestoreAgent)
async def restore_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Give an agent back what it had at a moment, by events that undo others: nothing is erased.
    The context is that of the agent's own conversation, and is restored only while no run is
    active in it. Answered when all is done; where a part cannot be restored, none is."""
    wanted = await body_of(request, RestoreAgent)
    await must_exist(request, AGENTS, agent_id)
    cut = await resolve(request, agent_id, wanted.at)
    api = api_of(request)
    restore_id = api.new_id(request, "restore", agent_id)
    command = RequestRestore(
        restore_id=restore_id,
        agent_id=agent_id,
        moment=wanted.at,
        cut=cut.commit_order,
        cut_at=cut.at,
        what=list(dict.fromkeys(wanted.what)),
    )
    await api.send(request, command, message_id=f"request-{restore_id}")
    await wait_for_end(request, restore_id)
    return await answer_document(request, AGENTS, agent_id)


async def wait_for_end(request: AnyRequest, restore_id: str) -> None:
    """Wait until a restore is complete. Raises the problem that it was refused with, and the 503 of
    one that takes long."""
    api, org = api_of(request), org_of(request)
    queries = RestoreQueries(api.reads.database)
    until, pause = api.clock.monotonic() + WAIT_SECONDS_MAX, LOOK_SECONDS
    while api.clock.monotonic() < until:
        outcome = await queries.outcome(org, restore_id)
        if outcome is not None and outcome[0] == "completed":
            return
        if outcome is not None and outcome[0] == "failed":
            raise refusal_problem(Rejected(code=outcome[1] or "", reason=outcome[2] or ""))
        await api.clock.sleep(pause)
        pause = min(1.5 * pause, LOOK_SECONDS_MAX)
    detail = (
        f"Restore {restore_id} takes long and goes on: look at the agent's events later, or send"
        " the same request with the same Idempotency-Key to wait for it"
    )
    raise Problem(503, {"detail": detail})
