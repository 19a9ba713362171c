"""R09 and R22: a process dies at a named point of a turn, by its own hand.

After most points the turn waits for the lease of the dead process to run out. So that a dose does
not take minutes, several processes die one after the other, each with a turn of its own, and the
turns are taken over side by side.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass

from tests.chaos.dose import Dose
from tests.chaos.oracle import Oracle, Verdict
from tests.chaos.workload import Request, Workload
from tests.chaos.world import Kill, World
from tests.waiting import wait_for

AGENTS_AT_ONCE = 4
END_SECONDS_MAX = 15.0
FIRED_SECONDS_MAX = 10.0
# The last event of a decision names it: the message that a run starts with, the tool call that a
# step asks for, the end of the run; and in the memory service the edit.
DECISIONS = ("message.appended", "tool_call.started", "run.completed", "block.changed")
POINTS = (
    *(f"before_commit.{topic}" for topic in DECISIONS),
    *(f"after_commit.{topic}" for topic in DECISIONS),
    "after_model_reply",
    "during_tool",
    "after_tool",
)
MEMORY_POINTS = frozenset(point for point in POINTS if point.endswith("block.changed"))


@dataclass(frozen=True, slots=True)
class Crash:
    """A turn that met a point, and when its process died there."""

    point: str
    request: Request
    at: float
    sending: asyncio.Task[Request]


async def r09_every_point(world: World, dose: Dose) -> Verdict:
    """Die at every named point, each so often: the turn ends correctly within 15 s."""
    await world.restored()
    workload = Workload(world.client(), world.new_name("R09"))
    oracle = await Oracle(world, workload, "R09").begin()
    trials = list(POINTS) * dose.faults
    await workload.create_agents(len(trials))
    agents = iter(workload.agents)
    while trials:
        wave, trials = trials[:AGENTS_AT_ONCE], trials[AGENTS_AT_ONCE:]
        await world.agents_at_least(AGENTS_AT_ONCE + 1)
        crashes = [await crash(world, workload, next(agents), point) for point in wave]
        await asyncio.gather(*(one.sending for one in crashes))
        for one in crashes:
            check_crash(one, oracle.verdict)
    verdict = await oracle.judge()
    for request in workload.requests:
        await check_next_message(workload, request.agent, verdict)
    return verdict


async def crash(world: World, workload: Workload, agent: str, point: str) -> Crash:
    """Send a message with a tool call, and wait until a process died on its account."""
    if point in MEMORY_POINTS:
        await wait_for("memory runs", lambda: world.running("memory"), END_SECONDS_MAX)
    world.arm(point)
    request = workload.request(agent, tool=True)
    sending = asyncio.create_task(workload.send(request))
    await wait_for(f"{point} is passed", lambda: world.fired(point), FIRED_SECONDS_MAX)
    died = time.monotonic()
    world.kills.append(Kill(died, "memory" if point in MEMORY_POINTS else "agent"))
    return Crash(point, request, died, sending)


def check_crash(crash: Crash, verdict: Verdict) -> None:
    """The turn ended in time."""
    seconds = crash.request.answered_at - crash.at
    slowest = verdict.figures.get("take_over_seconds_max", 0.0)
    verdict.figures["take_over_seconds_max"] = max(slowest, seconds)
    verdict.check(seconds <= END_SECONDS_MAX, f"{crash.point}: ended after {seconds:.1f} s")


async def check_next_message(workload: Workload, agent: str, verdict: Verdict) -> None:
    """What was left of the crash does not get into the way of the next message."""
    request = Request(agent, 1, f"next of {agent}", None)
    await workload.send(request)
    good = request.answer.status == 200 and request.answer.attempts == 1
    verdict.check(
        good, f"{agent}: the next message got {request.answer.status} {request.answer.body[:200]!r}"
    )


async def r22_orphaned_tool_calls(world: World, dose: Dose) -> Verdict:
    """Kill the agent service when many tool calls have started, or when their results are on the
    way: every history stays paired and its next message is answered by a strict model."""
    await world.restored()
    workload = Workload(world.client(), world.new_name("R22"))
    await workload.create_agents(dose.messages)
    oracle = await Oracle(world, workload, "R22").begin()
    share = max(1, len(workload.agents) // dose.faults)
    for number in range(dose.faults):
        agents = workload.agents[number * share : (number + 1) * share]
        await orphan(world, workload, agents, at_start=number % 2 == 0)
    verdict = await oracle.judge()
    before = (await world.model.stats())["validation_errors"]
    for start in range(0, len(workload.agents), share):
        part = workload.agents[start : start + share]
        await asyncio.gather(*(check_next_message(workload, one, verdict) for one in part))
    refused = (await world.model.stats())["validation_errors"] - before
    verdict.check(refused == 0, f"the model refused {refused} of the next messages")
    return verdict


async def orphan(world: World, workload: Workload, agents: list[str], *, at_start: bool) -> None:
    """Let all these agents call a tool while memory sleeps; kill at the start: before it wakes
    up, at the end: at the first result, when the others' are on their way."""
    await world.healthy()
    memory = world.heeler.pid("memory")
    os.kill(memory, signal.SIGSTOP)
    try:
        requests = [workload.request(agent, tool=True) for agent in agents]
        sending = [asyncio.create_task(workload.send(request)) for request in requests]
        await wait_for("all tools started", lambda: started(world, agents), END_SECONDS_MAX)
        if at_start:
            await world.kill9("agent")
        else:
            world.arm("after_tool")
    finally:
        os.kill(memory, signal.SIGCONT)
    if not at_start:
        await wait_for("a result came", lambda: world.fired("after_tool"), END_SECONDS_MAX)
        world.kills.append(Kill(time.monotonic(), "agent"))
    await asyncio.gather(*sending)


async def started(world: World, agents: list[str]) -> bool:
    """Whether a tool call of each of these agents has started."""
    listed = ",".join(f"'{agent}'" for agent in agents)
    rows = await world.sql(
        "select count(*) from agent.events e join agent.turns t on t.conversation_id ="
        f" e.aggregate_id where t.agent_id in ({listed}) and e.topic = 'tool_call.started'"
    )
    return bool(rows[0][0] >= len(agents))
