"""GROUPS: messages to groups are on their way while processes of the groups and the agent service
are killed: each hop has one run of its member, and each message is answered in full."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from tests.chaos.dose import Dose
from tests.chaos.oracle import Verdict
from tests.chaos.workload import Workload
from tests.chaos.world import World
from tests.waiting import wait_for

MEMBERS = 3
PAUSE_SECONDS = (0.7, 2.0)
ENDED_SECONDS_MAX = 120.0
KINDS = ("round_robin", "broadcast")
VICTIMS = ("groups", "groups", "groups", "agent")


async def groups_die(world: World, dose: Dose) -> Verdict:
    """kill -9 of the services that answer messages to groups, again and again."""
    await world.restored()
    verdict = Verdict("GROUPS")
    client, name = world.client(), world.new_name("GROUPS")
    workload = Workload(client, name)
    await workload.create_agents(MEMBERS)
    groups = [await make_group(client, workload.agents, number) for number in range(dose.agents)]
    sending = asyncio.create_task(send_all(client, groups, dose.messages, name))
    for _ in range(dose.faults):
        await asyncio.sleep(world.random.uniform(*PAUSE_SECONDS))
        await world.kill9(world.random.choice(VICTIMS))
        verdict.kills += 1
    started = await sending
    verdict.messages = len(started)
    await world.healthy()
    for run in started:
        await judge(world, verdict, run)
    return verdict


async def make_group(client: Any, agents: list[str], number: int) -> str:
    """A group of all agents; returns its id."""
    config = {"manager_type": KINDS[number % len(KINDS)]}
    body = {"description": f"Group {number}", "agent_ids": agents, "manager_config": config}
    answer = await client.send("POST", "/v1/groups/", body)
    assert answer.ok, f"{answer.status} {answer.body!r}"
    return str(answer.json()["id"])


async def send_all(client: Any, groups: list[str], messages: int, name: str) -> list[Any]:
    """Send messages to the groups by turns, one after the other; returns their runs."""
    started = []
    for number in range(messages):
        group_id = groups[number % len(groups)]
        body = {"input": f"SLOW:200 SAY:answer {number} of {name}"}
        path = f"/v1/groups/{group_id}/messages/async"
        answer = await client.send("POST", path, body, key=f"{name}-{number}")
        assert answer.ok, f"{answer.status} {answer.body!r}"
        started.append(answer.json())
    return started


async def judge(world: World, verdict: Verdict, run: dict[str, Any]) -> None:
    """One message: it is answered by each member once, and each hop has one run."""
    client = world.client()
    path = f"/v1/groups/{run['group_id']}/runs/{run['id']}"

    async def ended() -> dict[str, Any] | None:
        seen: dict[str, Any] = await client.get(path)
        return seen if seen["status"] not in ("created", "running") else None

    try:
        seen = await wait_for(f"the end of {run['id']}", ended, ENDED_SECONDS_MAX)
    except AssertionError as late:
        verdict.stuck.append(str(late))
        return
    speakers = Counter(hop["agent_id"] for hop in seen["hops"])
    statuses = Counter(hop["status"] for hop in seen["hops"])
    if len(speakers) != MEMBERS or statuses != {"completed": MEMBERS}:
        verdict.lost.append(f"{run['id']} is {seen['status']} with {statuses}")
    if max(speakers.values()) > 1:
        verdict.doubled.append(f"{run['id']} asked a member twice")
    rows = await world.sql(
        "select payload->'run'->'metadata'->>'hop', count(*) from agent.events"
        " where topic = 'run.accepted'"
        f" and payload->'run'->'metadata'->>'group_run_id' = '{run['id']}' group by 1"
    )
    if any(times > 1 for _, times in rows):
        verdict.doubled.append(f"{run['id']} has hops with several runs: {rows}")
