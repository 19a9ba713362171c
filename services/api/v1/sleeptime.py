"""Effects of requests about agents on their sleeptime groups, and the answers about reviews."""

from __future__ import annotations

import asyncio

from libs.bus.ports import BusUnavailable
from libs.contracts.agent.agents import AttachBlock, DeleteAgent, UpdateAgent
from libs.contracts.bus_messages import Accepted, Command, JsonObject, Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.groups.sleeptime import CountRun, EnableSleeptime, EndSleeptime, count_id
from libs.eventstore.ports import StoreUnavailable
from services.api.adapters.groups.sleeptime_queries import SleeptimeQueries
from services.api.http.callers import org_of
from services.api.http.error_responses import refusal_problem
from services.api.http.handler_dependencies import COMMAND_SECONDS_MAX, api_of
from services.api.http.request_parsing import AnyRequest, context_of

# An answer does not wait longer for the ids of the reviews that it makes due.
COUNT_SECONDS_MAX = 2.0
LOOK_SECONDS = 0.02


async def send_after(
    request: AnyRequest, cause_id: str, command: Command, message_id: str
) -> Rejected | None:
    """Send a command that follows from another one of the same request; returns its refusal."""
    context = context_of(request, cause_id).follow_up(message_id)
    reply = await api_of(request).bus.request(command, context, seconds_max=COMMAND_SECONDS_MAX)
    return reply if isinstance(reply, Rejected) else None


async def enable_with_creation(request: AnyRequest, agent_id: str) -> None:
    """Give a new agent its sleeptime agent. Where that is refused, the agent is deleted again."""
    cause, command = f"create-{agent_id}", EnableSleeptime(agent_id=agent_id)
    refused = await send_after(request, cause, command, derived_id("cmd", agent_id, "sleeptime"))
    if refused is not None:
        undo = DeleteAgent(agent_id=agent_id)
        await send_after(request, cause, undo, derived_id("cmd", agent_id, "undo"))
        raise refusal_problem(refused)


async def enable_with_update(request: AnyRequest, agent_id: str, *, cause_id: str) -> None:
    """Give an agent its sleeptime agent, if it has none. Where that is refused, the agent does not
    want one any more."""
    api = api_of(request)
    name = api.new_id(request, "cmd", "sleeptime", agent_id)
    refused = await send_after(request, cause_id, EnableSleeptime(agent_id=agent_id), name)
    if refused is not None:
        undo = UpdateAgent(agent_id=agent_id, request={"enable_sleeptime": None})
        await send_after(request, cause_id, undo, api.new_id(request, "cmd", "undo", agent_id))
        raise refusal_problem(refused)


async def delete_with_sleeptime(request: AnyRequest, agent_id: str, message_id: str = "") -> None:
    """Delete an agent: with its sleeptime agents, or, if it is the only one of a group, with the
    group. Blocks that only they have go with the last of them."""
    api = api_of(request)
    queries = SleeptimeQueries(api.reads.database)
    manager = await queries.manager_of_sleeptime(org_of(request), agent_id)
    if manager is not None and manager == agent_id:
        await end_sleeptime(request, manager)
    await api.send(request, DeleteAgent(agent_id=agent_id), message_id=message_id)
    if manager is not None and manager != agent_id:
        await end_sleeptime(request, manager)


async def end_sleeptime(request: AnyRequest, agent_id: str) -> None:
    """Delete the sleeptime groups of an agent, and their sleeptime agents."""
    api = api_of(request)
    name = api.new_id(request, "cmd", "end-sleeptime", agent_id)
    await api.send(request, EndSleeptime(agent_id=agent_id), message_id=name, keyed=False)


async def share_with_sleeptime_agents(request: AnyRequest, agent_id: str, block_id: str) -> None:
    """Attach a block of an agent to its sleeptime agents, too. What they cannot have, for its
    label, they do not get."""
    api = api_of(request)
    queries = SleeptimeQueries(api.reads.database)
    for member in await queries.sleeptime_agents_of(org_of(request), agent_id):
        name = api.new_id(request, "cmd", "share", member, block_id)
        command = AttachBlock(agent_id=member, block_id=block_id)
        await api.bus.request(command, context_of(request, name))


async def with_reviews(
    request: AnyRequest, agent_id: str, run_id: str, usage: JsonObject
) -> JsonObject:
    """The usage of a run with the ids of the runs that review it, if it made a review due. Where
    the groups service or the store does not answer in time, they are left out: the runs are started
    later."""
    try:
        async with asyncio.timeout(COUNT_SECONDS_MAX):
            run_ids = await reviews_of(request, agent_id, run_id)
    except (TimeoutError, BusUnavailable, StoreUnavailable):
        return usage
    return {**usage, "run_ids": [*run_ids]} if run_ids else usage


async def reviews_of(request: AnyRequest, agent_id: str, run_id: str) -> list[str]:
    """The runs that review what was said up to the end of a run, once they are accepted."""
    api = api_of(request)
    queries = SleeptimeQueries(api.reads.database)
    run_ids: list[str] = []
    for group_id in await queries.sleeptime_groups(org_of(request), agent_id):
        command = CountRun(group_id=group_id, run_id=run_id)
        context = context_of(request, run_id).follow_up(count_id(group_id, run_id))
        reply = await api.bus.request(command, context, seconds_max=COUNT_SECONDS_MAX)
        if isinstance(reply, Accepted):
            listed = reply.result.get("run_ids")
            run_ids += [str(each) for each in listed] if isinstance(listed, list) else []
    while run_ids and not await queries.are_accepted(org_of(request), run_ids):
        await api.clock.sleep(LOOK_SECONDS)
    return run_ids
