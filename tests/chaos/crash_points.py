"""R09 and R22: a process dies at a named point of a turn, by its own hand.

After most points the turn waits for the lease of the dead process to run out, unless that was the
supervised one, whose next process knows that it is dead. So that a dose does not take minutes,
several processes die one after the other, each with a turn of its own, and the turns are taken over
side by side.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

from libs.contracts.agent.conversations import main_conversation
from tests.chaos.dose import Dose
from tests.chaos.oracle import Oracle, Verdict, begin
from tests.chaos.workload import Request, Workload
from tests.chaos.world import Kill, World
from tests.waiting import wait_for

WAVE = 9
WAVE_SECONDS_MAX = 6.0
END_SECONDS_MAX = 15.0
FIRED_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Point:
    """A named point of a turn with one tool call, and what its death costs.

    `asked` is how often the model is asked for the call and for the text: twice where the first
    answer was not recorded. `lease` says whether the turn waits for the dead process's lease. A
    `late` point is armed when the model was asked, so that it is met behind the run's start.
    """

    name: str
    asked: tuple[int, int] = (1, 1)
    lease: bool = True
    part: str = "agent"
    late: bool = False


# The last event of a decision names it: the message that a run starts with, the tool call that a
# step asks for, the message with the tool's result, the end of the run, the edit of the block.
POINTS = (
    Point("before_commit.message.appended", lease=False),
    Point("after_commit.message.appended"),
    Point("after_model_reply", asked=(2, 1)),
    Point("before_commit.tool_call.started", asked=(2, 1)),
    Point("after_commit.tool_call.started"),
    Point("during_tool"),
    Point("before_commit.block.changed", lease=False, part="memory"),
    Point("after_commit.block.changed", lease=False, part="memory"),
    Point("after_tool"),
    Point("before_commit.message.appended", late=True),
    Point("after_commit.message.appended", late=True),
    Point("before_commit.run.completed", asked=(1, 2)),
    Point("after_commit.run.completed", lease=False),
)
LATE_SLOW_MS = 300


@dataclass(frozen=True, slots=True)
class Crash:
    """A turn that met a point, and when its process died there."""

    point: Point
    request: Request
    at: float
    sending: asyncio.Task[Request]


async def r09_every_point(world: World, dose: Dose) -> Verdict:
    """Die at every named point, each so often: the turn ends correctly within 15 s."""
    await world.restored(alone=False)
    workload = Workload(world.client(), world.new_name("R09"))
    oracle = await Oracle(world, workload, "R09").begin()
    quick = [point for point in POINTS if not point.lease] * dose.faults
    slow = [point for point in POINTS if point.lease] * dose.faults
    await workload.create_agents(len(quick) + len(slow))
    agents = iter(workload.agents)
    for point in quick:
        await wave(world, workload, oracle.verdict, agents, [point], left=2)
    while slow:
        met = await wave(world, workload, oracle.verdict, agents, slow[:WAVE], left=len(slow))
        slow = slow[met:]
    verdict = await oracle.judge()
    for request in list(workload.requests):
        await check_next_message(workload, request.agent, verdict)
    return verdict


async def wave(
    world: World,
    workload: Workload,
    verdict: Verdict,
    agents: Iterator[str],
    points: list[Point],
    *,
    left: int,
) -> int:
    """Die at some points of those left, then wait until all these turns have ended; how many points
    were met.

    No point is armed once an earlier turn of the wave may be taken over, and meet it too.
    """
    await world.agents_at_least(len(points) + 1)
    began = time.monotonic()
    crashes: list[Crash] = []
    while len(crashes) < len(points) and time.monotonic() - began < WAVE_SECONDS_MAX:
        crashes.append(await crash(world, workload, next(agents), points[len(crashes)]))
    # Those that the next wave needs start while the leases run out.
    world.spawn_agents(min(left - len(crashes), WAVE) + 1)
    await asyncio.gather(*(crash.sending for crash in crashes))
    for pending in crashes:
        await check_crash(world, pending, verdict)
    return len(crashes)


async def crash(world: World, workload: Workload, agent: str, point: Point) -> Crash:
    """Send a message with a tool call, and wait until a process died on its account. If it was the
    supervised one, the next process takes the turn over at once: wait for that too."""
    if point.part == "memory":
        await wait_for("memory runs", lambda: world.running("memory"), END_SECONDS_MAX)
    script = f"SLOW:{LATE_SLOW_MS} " if point.late else ""
    request = workload.request(agent, tool=True, script=script)
    alive, supervised = world.pids_of_agents(), world.running("agent")
    if not point.late:
        world.arm(point.name)
    sending = asyncio.create_task(workload.send(request))
    if point.late:
        await world.model.wait_for_asked(request.text)
        world.arm(point.name)
    await wait_for(f"{point.name} is passed", lambda: world.fired(point.name), FIRED_SECONDS_MAX)
    died = time.monotonic()
    world.kills.append(Kill(died, point.part))
    if point.part == "agent":
        dead = await wait_for(
            f"{point.name} killed", lambda: alive - world.pids_of_agents(), FIRED_SECONDS_MAX
        )
        if supervised is None or supervised.pid in dead:
            await sending
    return Crash(point, request, died, sending)


async def check_crash(world: World, crash: Crash, verdict: Verdict) -> None:
    """The turn ended in time, and nothing was asked again that was recorded."""
    seconds = crash.request.answered_at - crash.at
    slowest = verdict.figures.get("take_over_seconds_max", 0.0)
    verdict.figures["take_over_seconds_max"] = max(slowest, seconds)
    name = f"{'late ' if crash.point.late else ''}{crash.point.name}"
    verdict.in_time(seconds, END_SECONDS_MAX, f"{name}: to end")
    asked = await world.model.asked(crash.request.text)
    expected = dict(enumerate(crash.point.asked))
    verdict.check(asked == expected, f"{name}: asked {asked}, not {expected}")


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
    workload, oracle = await begin(world, "R22", agents=dose.messages)
    share = max(1, len(workload.agents) // dose.faults)
    for number in range(dose.faults):
        agents = workload.agents[number * share : (number + 1) * share]
        await orphan(world, workload, agents, at_start=number % 2 == 0)
    verdict = await oracle.judge()
    before = (await world.model.stats())["validation_errors"]
    for start in range(0, len(workload.agents), share):
        part = workload.agents[start : start + share]
        await asyncio.gather(*(check_next_message(workload, agent, verdict) for agent in part))
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
    listed = ",".join(f"'{main_conversation(agent)}'" for agent in agents)
    rows = await world.sql(
        f"select count(*) from agent.events where aggregate_id in ({listed})"
        " and topic = 'tool_call.started'"
    )
    return bool(rows[0][0] >= len(agents))
