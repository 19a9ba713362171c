"""R28: many clients press one agent or one block; what do the others notice?"""

from __future__ import annotations

import asyncio
import itertools
import json
import time

from tests.chaos.client import Client
from tests.chaos.dose import Dose
from tests.chaos.kills import percentile
from tests.chaos.oracle import Verdict
from tests.chaos.pressing_clients import Load, pressing
from tests.chaos.workload import Workload
from tests.chaos.world import World
from tests.waiting import wait_for

PRESSING_CLIENTS = 50
QUIET_ROUNDS = 40
ROUNDS_OF_AN_AGENT = 10
BYSTANDERS_AGENTS = (10, 100)  # for a dose, and where it is judged
AFTERWARDS_ROUNDS = 20
AFTERWARDS_SECONDS = 10.0
BYSTANDERS_PAUSE_SECONDS = 0.05
REFUSED = 429
# Compared within one run. A dose is too short for a 99th percentile that means anything.
JUDGED_SECONDS_MIN = 60
SLOWER_MAX = 10.0
SLOWER_AFTERWARDS_MAX = 2.0
HANG_UP_SECONDS = 0.05
AGENTS_LEFT_BEHIND = 25
REQUESTS_LEFT_BEHIND = 1_000

Times = dict[str, list[float]]


class Bystander:
    """Somebody with an agent and a block of his own, who does what everybody does. Now and then he
    takes another agent, because the longer the history of one, the longer its turns."""

    def __init__(self, world: World, agents: list[str], block: str) -> None:
        self.client = world.client()
        self.agents = agents
        self.block = block
        self.numbers = itertools.count(1)

    async def round(self, verdict: Verdict, seconds: Times) -> None:
        """Send a message, read, write and create, and note how long each took."""
        number = next(self.numbers)
        agent = f"/v1/agents/{self.agents[number // ROUNDS_OF_AN_AGENT % len(self.agents)]}"
        said = {"messages": [{"role": "user", "content": f"SAY:answer {number}"}]}
        new = {"label": "notes", "value": f"{number}"}
        for name, method, path, body in (
            ("message", "POST", f"{agent}/messages", said),
            ("get", "GET", agent, None),
            ("list", "GET", "/v1/blocks?limit=50", None),
            ("patch", "PATCH", f"/v1/blocks/{self.block}", {"value": f"{number}"}),
            ("create", "POST", "/v1/blocks", new),
        ):
            began = time.monotonic()
            answer = await self.client.once(method, path, encoded(body))
            seconds.setdefault(name, []).append(time.monotonic() - began)
            verdict.check(
                answer.ok, f"{name} of a bystander: {answer.status} {answer.body[:200]!r}"
            )

    async def rounds(self, verdict: Verdict, number: int) -> Times:
        """So many rounds, one after the other."""
        seconds: Times = {}
        for _ in range(number):
            await self.round(verdict, seconds)
            await asyncio.sleep(BYSTANDERS_PAUSE_SECONDS)
        return seconds

    async def until(self, stop: asyncio.Event, verdict: Verdict) -> Times:
        """Rounds until the others stop."""
        seconds: Times = {}
        while not stop.is_set():
            await self.round(verdict, seconds)
            await asyncio.sleep(BYSTANDERS_PAUSE_SECONDS)
        return seconds


def encoded(body: object) -> bytes:
    """A body as JSON."""
    return b"" if body is None else json.dumps(body).encode()


async def r28_one_agent_is_pressed(world: World, dose: Dose) -> Verdict:
    """50 clients send to one agent, write one block, and leave 1,000 requests behind; another
    agent's owner goes on as before, and nothing is left of it afterwards."""
    await world.restored()
    verdict = Verdict("R28")
    workload = Workload(world.client(), world.new_name("R28"))
    await workload.create_agents(1 + AGENTS_LEFT_BEHIND)
    hot, *left_behind = workload.agents
    hot_block = await block_of(workload.client, hot)
    judged = dose.faults >= JUDGED_SECONDS_MIN
    bystander = await bystander_of(world, BYSTANDERS_AGENTS[judged])
    quiet = await bystander.rounds(verdict, QUIET_ROUNDS)
    note(verdict, "quiet", quiet)
    loads = {
        "runs": Load("POST", [f"/v1/agents/{hot}/messages/async"], RUN, PRESSING_CLIENTS),
        "patches": Load("PATCH", [f"/v1/blocks/{hot_block}"], EDIT, PRESSING_CLIENTS),
        "left": Load(
            "POST",
            [f"/v1/agents/{agent}/messages" for agent in left_behind],
            RUN,
            PRESSING_CLIENTS,
            requests_max=REQUESTS_LEFT_BEHIND,
            hang_up_seconds=HANG_UP_SECONDS,
        ),
    }
    for name, load in loads.items():
        async with pressing(world.heeler.base_url, load) as answers:
            stop = asyncio.Event()
            watching = asyncio.create_task(bystander.until(stop, verdict))
            await asyncio.wait([answers], timeout=dose.faults)
            stop.set()
            seconds = await watching
        statuses = await answers
        verdict.messages += statuses.total()
        note(verdict, name, seconds)
        for status, times in sorted(statuses.items()):
            verdict.figures[f"{name}_{status}"] = times
        problem = f"{name}: the pressing clients were answered {dict(statuses)}"
        verdict.check(set(statuses) <= {0, 200, REFUSED}, problem)
        if name == "runs":
            await cancelled(world, verdict, hot)
        if judged:
            await asyncio.sleep(AFTERWARDS_SECONDS)
            seconds_after = await bystander.rounds(verdict, AFTERWARDS_ROUNDS)
            note(verdict, f"after_{name}", seconds_after)
            judge(verdict, name, quiet, seconds, seconds_after)
    await nothing_left(world, verdict, workload.agents)
    return verdict


RUN = {"messages": [{"role": "user", "content": "SAY:pressed"}]}
EDIT = {"description": "pressed"}


async def bystander_of(world: World, agents: int) -> Bystander:
    """Somebody with so many agents."""
    owned = Workload(world.client(), world.new_name("CALM"))
    await owned.create_agents(agents)
    return Bystander(world, owned.agents, await block_of(owned.client, owned.agents[0]))


async def block_of(client: Client, agent: str) -> str:
    """The block of an agent."""
    return str((await client.get(f"/v1/agents/{agent}/core-memory/blocks/ledger"))["id"])


async def cancelled(world: World, verdict: Verdict, agent: str) -> None:
    """All runs that wait are cancelled by one request, in a moment."""
    began = time.monotonic()
    path = f"/v1/agents/{agent}/messages/cancel"
    answer = await world.client().once("POST", path, b"{}")
    verdict.figures["cancel_seconds"] = time.monotonic() - began
    verdict.check(answer.status in (200, 409), f"cancelling: {answer.status} {answer.body[:200]!r}")
    verdict.figures["cancelled_runs"] = len(answer.json()) if answer.status == 200 else 0


def note(verdict: Verdict, when: str, seconds: Times) -> None:
    """Keep how long everything took."""
    for name, times in seconds.items():
        ordered = sorted(times)
        verdict.figures[f"{when}_{name}_p50_ms"] = percentile(ordered, 0.5) * 1e3
        verdict.figures[f"{when}_{name}_p99_ms"] = percentile(ordered, 0.99) * 1e3


def judge(verdict: Verdict, when: str, quiet: Times, pressed: Times, afterwards: Times) -> None:
    """Nobody else is much slower, and afterwards everything is as before. What 1,000 requests to
    25 agents do to others is told and not judged: those are many agents, not one."""
    for name, usual in quiet.items():
        p50 = percentile(sorted(usual), 0.5)
        slower = percentile(sorted(pressed[name]), 0.99) / p50
        if when != "left":
            problem = f"{when}: p99 of {name} is {slower:.1f} x its quiet p50"
            verdict.check(slower < SLOWER_MAX, problem)
        slower = percentile(sorted(afterwards[name]), 0.5) / p50
        problem = f"after {when}: p50 of {name} is {slower:.1f} x its quiet p50"
        verdict.check(slower < SLOWER_AFTERWARDS_MAX, problem)


async def nothing_left(world: World, verdict: Verdict, agents: list[str]) -> None:
    """Every run has ended, and no command waits anywhere."""

    async def ended() -> bool:
        named = "&".join(f"agent_ids={agent}" for agent in agents)
        return not await world.client().get(f"/v1/runs?active=true&limit=1000&{named}")

    try:
        await wait_for("every run ended", ended, 120.0)
    except AssertionError as stuck:
        verdict.stuck.append(str(stuck))
