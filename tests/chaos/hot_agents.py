"""R28: many clients press one agent or one block; what do the others notice?"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from tests.chaos.client import Answer, Client
from tests.chaos.dose import Dose
from tests.chaos.kills import percentile
from tests.chaos.oracle import Verdict
from tests.chaos.workload import Workload
from tests.chaos.world import World
from tests.waiting import wait_for

PRESSING_CLIENTS = 50
QUIET_ROUNDS = 40
AFTERWARDS_ROUNDS = 20
BYSTANDERS_PAUSE_SECONDS = 0.05
REFUSED = 429
# Compared within one run. A dose is too short for a 99th percentile that means anything.
JUDGED_SECONDS_MIN = 60
SLOWER_MAX = 10.0
HANG_UP_SECONDS = 0.05
AGENTS_LEFT_BEHIND = 25
REQUESTS_LEFT_BEHIND = 1_000

Times = dict[str, list[float]]


class Bystander:
    """Somebody with an agent and a block of his own, who does what everybody does."""

    def __init__(self, world: World, agent: str, block: str) -> None:
        self.client = world.client()
        self.agent = agent
        self.block = block
        self.numbers = itertools.count(1)
        self.created: list[str] = []

    async def round(self, verdict: Verdict, seconds: Times) -> None:
        """Send a message, read, write and create, and note how long each took."""
        number = next(self.numbers)
        agent = f"/v1/agents/{self.agent}"
        said = {"messages": [{"role": "user", "content": f"SAY:answer {number}"}]}
        new = {"label": "notes", "value": f"{number}"}
        for name, method, path, body in (
            ("message", "POST", f"{agent}/messages", said),
            ("get", "GET", agent, None),
            ("list", "GET", "/v1/agents?limit=50", None),
            ("patch", "PATCH", f"/v1/blocks/{self.block}", {"value": f"{number}"}),
            ("create", "POST", "/v1/blocks", new),
        ):
            began = time.monotonic()
            answer = await self.client.once(method, path, encoded(body))
            seconds.setdefault(name, []).append(time.monotonic() - began)
            verdict.check(
                answer.ok, f"{name} of a bystander: {answer.status} {answer.body[:200]!r}"
            )
            if name == "create" and answer.ok:
                self.created.append(answer.json()["id"])

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
    await workload.create_agents(2 + AGENTS_LEFT_BEHIND)
    hot, calm, *left_behind = workload.agents
    hot_block = await block_of(workload.client, hot)
    bystander = Bystander(world, calm, await block_of(workload.client, calm))
    quiet = await bystander.rounds(verdict, QUIET_ROUNDS)
    note(verdict, "quiet", quiet)
    loads: dict[str, Callable[[asyncio.Event], Awaitable[Counter[int]]]] = {
        "runs": lambda stop: pressed(world, stop, "POST", f"/v1/agents/{hot}/messages/async", RUN),
        "patches": lambda stop: pressed(world, stop, "PATCH", f"/v1/blocks/{hot_block}", EDIT),
        "left": lambda stop: left(world, left_behind),
    }
    for name, load in loads.items():
        stop = asyncio.Event()
        pressing = asyncio.create_task(load(stop))
        watching = asyncio.create_task(bystander.until(stop, verdict))
        await asyncio.wait([pressing], timeout=dose.faults)
        stop.set()
        statuses, pressed_seconds = await pressing, await watching
        verdict.messages += statuses.total()
        note(verdict, name, pressed_seconds)
        for status, times in sorted(statuses.items()):
            verdict.figures[f"{name}_{status}"] = times
        problem = f"{name}: the pressing clients were answered {dict(statuses)}"
        verdict.check(set(statuses) <= {0, 200, REFUSED}, problem)
        if dose.faults >= JUDGED_SECONDS_MIN:
            judge(verdict, name, quiet, pressed_seconds)
        if name == "runs":
            await cancelled(world, verdict, hot)
    note(verdict, "after", await bystander.rounds(verdict, AFTERWARDS_ROUNDS))
    await nothing_left(world, verdict, workload.agents)
    return verdict


RUN = {"messages": [{"role": "user", "content": "SAY:pressed"}]}
EDIT = {"description": "pressed"}


async def block_of(client: Client, agent: str) -> str:
    """The block of an agent."""
    return str((await client.get(f"/v1/agents/{agent}/core-memory/blocks/ledger"))["id"])


async def pressed(
    world: World, stop: asyncio.Event, method: str, path: str, body: object
) -> Counter[int]:
    """How often 50 clients that ask the same without a pause were answered what."""
    statuses: Counter[int] = Counter()

    async def press() -> None:
        client = world.client()
        while not stop.is_set():
            statuses[(await asked(client, method, path, body)).status] += 1

    await asyncio.gather(*(press() for _ in range(PRESSING_CLIENTS)))
    return statuses


async def asked(client: Client, method: str, path: str, body: object) -> Answer:
    """The answer to one request; 0 where there is none."""
    try:
        return await client.once(method, path, encoded(body))
    except (OSError, EOFError, ValueError, TimeoutError):
        return Answer(0)


async def left(world: World, agents: list[str]) -> Counter[int]:
    """1,000 requests over 25 agents, whose clients hang up at once."""
    statuses: Counter[int] = Counter()
    gate = asyncio.Semaphore(PRESSING_CLIENTS)

    async def hang_up(number: int) -> None:
        path = f"/v1/agents/{agents[number % len(agents)]}/messages"
        async with gate:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HANG_UP_SECONDS):
                    statuses[(await asked(world.client(), "POST", path, RUN)).status] += 1
                    return
            statuses[0] += 1

    await asyncio.gather(*map(hang_up, range(REQUESTS_LEFT_BEHIND)))
    return statuses


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


def judge(verdict: Verdict, when: str, quiet: Times, now: Times) -> None:
    """Nobody else is much slower."""
    for name, times in now.items():
        usual, worst = percentile(sorted(quiet[name]), 0.5), percentile(sorted(times), 0.99)
        slower = worst / usual
        verdict.check(slower < SLOWER_MAX, f"{when}: p99 of {name} is {slower:.1f} x its quiet p50")


async def nothing_left(world: World, verdict: Verdict, agents: list[str]) -> None:
    """Every run has ended, and no command waits anywhere."""

    async def ended() -> bool:
        named = "&".join(f"agent_ids={agent}" for agent in agents)
        return not await world.client().get(f"/v1/runs?active=true&limit=1000&{named}")

    try:
        await wait_for("every run ended", ended, 120.0)
    except AssertionError as stuck:
        verdict.stuck.append(str(stuck))
