"""QUEUE: thousands of runs wait for one agent; they are cancelled by one request, or deleted with
it, and nobody else notices."""

from __future__ import annotations

import asyncio
import time

from tests.chaos.client import Answer
from tests.chaos.dose import Dose
from tests.chaos.hot_agents import bystander_of, encoded, note
from tests.chaos.oracle import Verdict
from tests.chaos.pressing_clients import Load, pressing
from tests.chaos.workload import Workload
from tests.chaos.world import World
from tests.waiting import wait_for

WAITING_RUNS_MAX = 10_000  # with the one that is under way
SENDING_CLIENTS = 16
BYSTANDERS_AGENTS = 10
SENDING_SECONDS_MAX = 300.0
ANSWER_SECONDS_MAX = 1.0
BYSTANDER_SECONDS_MAX = 2.0
ENDED_SECONDS_MAX = 30.0
LONG = {"messages": [{"role": "user", "content": "SLOW:600000 SAY:late"}]}
SHORT = {"messages": [{"role": "user", "content": "SAY:next"}]}


async def waiting_runs(world: World, dose: Dose) -> Verdict:
    """`messages` runs wait for an agent, and are cancelled; then once more, and it is deleted."""
    await world.restored()
    verdict = Verdict("QUEUE")
    number = min(dose.messages, WAITING_RUNS_MAX)
    workload = Workload(world.client(), world.new_name("QUEUE"))
    await workload.create_agents(2)
    first, second = workload.agents
    bystander = await bystander_of(world, BYSTANDERS_AGENTS)
    stop = asyncio.Event()
    watching = asyncio.create_task(bystander.until(stop, verdict))
    for agent, method, path in (
        (first, "POST", f"/v1/agents/{first}/messages/cancel"),
        (second, "DELETE", f"/v1/agents/{second}"),
    ):
        await queue(world, verdict, agent, number)
        answer, seconds = await timed(world, method, path)
        verdict.figures[f"{method}_seconds"] = seconds
        verdict.check(answer.ok, f"{method} {path}: {answer.status} {answer.body[:200]!r}")
        verdict.in_time(seconds, ANSWER_SECONDS_MAX, method)
        if method == "POST":
            verdict.check(len(answer.json()) == number, f"{len(answer.json())} were cancelled")
        await wait_for("no run is left", lambda agent=agent: idle(world, agent), ENDED_SECONDS_MAX)
    stop.set()
    seconds_of = await watching
    note(verdict, "bystander", seconds_of)
    slowest = max(max(times) for times in seconds_of.values())
    verdict.in_time(slowest, BYSTANDER_SECONDS_MAX, "a bystander")
    gone, _ = await timed(world, "GET", f"/v1/agents/{second}")
    verdict.check(gone.status == 404, f"the deleted agent is {gone.status}")
    answer, _ = await timed(world, "POST", f"/v1/agents/{first}/messages", SHORT)
    verdict.check(answer.ok, f"the agent with cancelled runs answers {answer.status}")
    verdict.messages = 2 * number
    return verdict


async def queue(world: World, verdict: Verdict, agent: str, number: int) -> None:
    """One run that takes long, and so many in all."""
    path = f"/v1/agents/{agent}/messages/async"
    await world.client().send("POST", path, LONG)
    load = Load("POST", [path], SHORT, SENDING_CLIENTS, requests_max=number - 1)
    async with pressing(world.heeler.base_url, load) as answers:
        await asyncio.wait([answers], timeout=SENDING_SECONDS_MAX)
    statuses = await answers
    verdict.check(statuses == {200: number - 1}, f"sending was answered {dict(statuses)}")


async def timed(world: World, method: str, path: str, body: object = None) -> tuple[Answer, float]:
    """An answer, the first time, and after how many seconds."""
    began = time.monotonic()
    answer = await world.client().once(method, path, encoded(body))
    return answer, time.monotonic() - began


async def idle(world: World, agent: str) -> bool:
    """Whether no run of an agent is under way or waits."""
    return not await world.client().get(f"/v1/runs?active=true&limit=1&agent_id={agent}")
