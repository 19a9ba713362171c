"""R30: MCP servers that never answer, take ten minutes to start, crash in a call, answer 100 MB or
garbage, over pipes and over HTTP; and the service that asks them dies in the middle.

Agents call their tools; others, who have none of them, are talked to meanwhile as if nothing were.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.chaos.dose import Dose
from tests.chaos.kills import percentile
from tests.chaos.oracle import Verdict, begin
from tests.chaos.workload import EMBEDDING, MODEL, Workload
from tests.chaos.world import World
from tests.mcp_servers.asking import PROGRAM, served
from tests.mcp_servers.listed import STARTS
from tests.mcp_servers.programs import living, programs_of
from tests.waiting import wait_for

# What the world of these tests sets, instead of 30 and 300 seconds.
START_SECONDS_MAX, CALL_SECONDS_MAX = 5.0, 3.0
LATE_SECONDS_MAX = 1.0
# A turn around the call: two steps of a model, and a machine that does everything at once.
TURN_SECONDS_MAX = 2.0
OTHERS_P50_SECONDS_MAX = 1.0
OTHERS_P99_SECONDS_MAX = 5.0
CHILDREN_SECONDS_MAX = 10.0
BACK_SECONDS_MAX = 60.0
MESSAGE_SECONDS = 0.15
BEHAVIOURS = ("hang", "crash", "garbage", "large", "notify")
SERVERS = "/v1/mcp-servers/"


@dataclass(frozen=True, slots=True)
class Victim:
    """An agent with the tools of one bad server, by what each does."""

    agent: str
    tools: dict[str, str]


async def r30_bad_mcp(world: World, dose: Dose) -> Verdict:
    """Each round has every behaviour once over every transport."""
    workload, oracle = await begin(world, "R30", agents=dose.agents)
    verdict = oracle.verdict
    async with victims(world) as found:
        sending = asyncio.create_task(
            workload.run(dose.messages, dose.messages * MESSAGE_SECONDS, world.random)
        )
        await asyncio.gather(*(refused_starts(world, how, verdict) for how in STARTS))
        for _ in range(dose.faults):
            for behaviour in BEHAVIOURS:
                await asyncio.gather(*(call(world, tool, behaviour, verdict) for tool in found))
        await sending
        check_others(workload, verdict)
        await service_dies(world, found, verdict)
    tools = world.heeler.pid("tools")
    await wait_for("no child is left", lambda: not programs_of(tools), CHILDREN_SECONDS_MAX)
    return await oracle.judge()


@asynccontextmanager
async def victims(world: World) -> AsyncIterator[list[Victim]]:
    """An agent for each transport; their servers are gone afterwards."""
    client, made = world.client(), []
    with ExitStack() as stack:
        port = stack.enter_context(served())
        address = f"http://127.0.0.1:{port}"
        configs = {
            "stdio": {"command": PROGRAM[0], "args": list(PROGRAM[1:])},
            "sse": {"server_url": f"{address}/sse"},
            "streamable_http": {"server_url": f"{address}/mcp"},
        }
        try:
            found = []
            for kind, config in configs.items():
                server_id, victim = await new_victim(world, kind, config)
                made.append(server_id)
                found.append(victim)
            yield found
        finally:
            for server_id in made:
                await client.send("DELETE", f"{SERVERS}{server_id}")


async def new_victim(world: World, kind: str, config: dict[str, Any]) -> tuple[str, Victim]:
    """A server, and an agent that has its tools."""
    client, name = world.client(), world.new_name(f"R30-{kind.replace('_', '-')}")
    wanted = {"server_name": name, "config": {"mcp_server_type": kind, **config}}
    answer = await client.send("POST", SERVERS, wanted)
    assert answer.ok, f"{kind}: {answer}"
    server_id = str(answer.json()["id"])
    tools = await client.get(f"{SERVERS}{server_id}/tools")
    named = {tool["metadata_"]["mcp"]["tool_name"]: tool for tool in tools}
    wanted = {
        "name": name,
        "model": MODEL,
        "embedding": EMBEDDING,
        "include_base_tools": False,
        "tool_ids": [named[behaviour]["id"] for behaviour in (*BEHAVIOURS, "echo")],
    }
    answer = await client.send("POST", "/v1/agents", wanted)
    assert answer.ok, f"{kind}: {answer}"
    return server_id, Victim(
        str(answer.json()["id"]), {name: server["name"] for name, server in named.items()}
    )


async def refused_starts(world: World, how: str, verdict: Verdict) -> None:
    """A server that does not start is added and known as one that failed, in its time."""
    client, name = world.client(), world.new_name(f"R30-start-{how}")
    args = [*PROGRAM[1:], "--start", how]
    config = {"mcp_server_type": "stdio", "command": PROGRAM[0], "args": args}
    began = time.monotonic()
    answer = await client.send("POST", SERVERS, {"server_name": name, "config": config})
    verdict.check(answer.ok, f"start {how}: {answer}")
    if not answer.ok:
        return
    path = f"{SERVERS}{answer.json()['id']}"

    async def has_failed() -> bool:
        found = (await client.get(path))["discovery"]
        return bool(found["reason"])

    await wait_for(f"start {how} has failed", has_failed, 2 * START_SECONDS_MAX + TURN_SECONDS_MAX)
    verdict.figures[f"start_{how}_seconds"] = time.monotonic() - began
    await client.send("DELETE", path)


async def call(world: World, victim: Victim, behaviour: str, verdict: Verdict) -> None:
    """A call that goes wrong ends in its time, and the run goes on."""
    client, path = world.client(), f"/v1/agents/{victim.agent}/messages"
    text = f"CALL:{victim.tools[behaviour]}:{json.dumps({'text': ''})} SAY:going on"
    began = time.monotonic()
    answer = await client.send("POST", path, {"input": text})
    took = time.monotonic() - began
    most = CALL_SECONDS_MAX + LATE_SECONDS_MAX + TURN_SECONDS_MAX
    verdict.in_time(took, most, behaviour)
    verdict.check(answer.ok and b"going on" in answer.body, f"{behaviour}: {answer}")
    figure = f"{behaviour}_seconds_max"
    verdict.figures[figure] = max(took, verdict.figures.get(figure, 0.0))


def check_others(workload: Workload, verdict: Verdict) -> None:
    """Those who have no such tools notice nothing."""
    seconds = sorted(request.seconds for request in workload.requests)
    for share, most in ((0.50, OTHERS_P50_SECONDS_MAX), (0.99, OTHERS_P99_SECONDS_MAX)):
        waited = percentile(seconds, share)
        verdict.figures[f"others_p{share * 100:.0f}_seconds"] = waited
        verdict.in_time(waited, most, f"others: p{share * 100:.0f}")


async def service_dies(world: World, found: list[Victim], verdict: Verdict) -> None:
    """Kill the tools service in the middle of calls: nothing of its programs is left, and the calls
    end as such that may have taken effect."""
    hanging = [asyncio.create_task(call_into_death(world, tool)) for tool in found]
    tools = world.heeler.pid("tools")
    before = await wait_for("it runs", lambda: programs_of(tools), START_SECONDS_MAX)
    await world.kill9("tools")
    began = time.monotonic()
    await wait_for("they end", lambda: not living(before), CHILDREN_SECONDS_MAX)
    verdict.figures["children_gone_seconds"] = time.monotonic() - began
    for body in await asyncio.gather(*hanging):
        verdict.check("going on" in body, f"after the death of the service: {body[:300]}")
    await world.reachable("tools")


async def call_into_death(world: World, victim: Victim) -> str:
    """What came of a call that hangs while its service dies."""
    text = f"CALL:{victim.tools['hang']}:{json.dumps({'text': ''})} SAY:going on"
    answer = await world.client().send(
        "POST",
        f"/v1/agents/{victim.agent}/messages",
        {"input": text},
        seconds_max=BACK_SECONDS_MAX,
    )
    return answer.body.decode("utf-8", "replace")
