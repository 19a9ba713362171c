"""R27: messages that raise or kill where they are handled, a run that kills whoever drives it.

Meanwhile other agents are talked to. What was given up is listed and, with the fault lifted,
replayed: then it takes effect, once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from libs.eventstore.ports import LEASE_SECONDS
from tests.chaos.client import Client
from tests.chaos.dose import Dose
from tests.chaos.kills import percentile
from tests.chaos.oracle import Oracle, Verdict
from tests.chaos.workload import Request, Workload
from tests.chaos.world import Kill, World

ADMIN = "/v1/admin/dead-letters"
ATTEMPTS_MAX = 5
PARKED_SECONDS_MAX = 600.0
# Of those who are not poisoned: most never notice. The rest wait for a process to come back, and
# two things kill processes here; or for a lease to run out, for one process is not supervised (ADR
# 11). How long a process takes to come back depends on how busy the machine is: as long as an
# attempt at what kills it, but no longer than this.
OTHERS_P50_SECONDS_MAX = 1.0
DEATHS_WAITED_FOR = 2
ATTEMPT_SECONDS_MAX = 10.0
SECONDS_PER_MESSAGE = 0.1
REPLAYS = 3
LOOK_SECONDS = 0.05
SICK_LANE = 9


@dataclass(frozen=True, slots=True)
class Poison:
    """Where a process meets a text, and what it does then."""

    point: str
    kind: str
    error: str


# A run cannot be replayed, so it is looked at by itself.
COMMANDS = (
    Poison("raise.command.agent.run.start", "command", "libs.eventstore.failpoints.Poisoned"),
    Poison("kill.command.agent.run.start", "command", "ProcessDied"),
)
DRIVE = Poison("kill.ask_model", "run", "ProcessDied")


async def r27_poison(world: World, dose: Dose) -> Verdict:
    """One round after the other, until something is found."""
    share = Dose(1, dose.messages // dose.faults, dose.agents)
    verdict = await one_round(world, share)
    for _ in range(dose.faults - 1):
        if verdict.passed:
            verdict = await one_round(world, share)
    return verdict


async def one_round(world: World, dose: Dose) -> Verdict:
    """Poison the handling of some messages, until they are parked; replay them when it is over."""
    await world.restored()
    workload = Workload(world.client(), world.new_name("R27"))
    victims = Workload(world.client(), world.new_name("R27-run"))
    await workload.create_agents(dose.agents)
    await victims.create_agents(1)
    oracle = await Oracle(world, workload, "R27").begin()
    await world.agents_at_least(2)
    before = await letters(world.client())
    driven = victims.request(victims.agents[0], tool=False)
    async with deaths(world):
        await load_and_poison(world, workload, driven, dose, oracle.verdict)
    await world.restored()
    parked = [letter for letter in await letters(world.client()) if letter not in before]
    check_letters(parked, [*workload.requests, driven], oracle.verdict)
    await check_next_message(victims, oracle.verdict)
    for request, poison in poisoned(workload):
        letter = letter_of(parked, request)
        if letter is None:
            oracle.verdict.check(False, f"{poison.point}: there is no letter")
            continue
        await replay(workload, request, letter, oracle.verdict)
    left = [letter["id"] for letter in parked if letter["kind"] == "run"]
    for letter_id in left:
        await world.client().send("DELETE", f"{ADMIN}/{letter_id}")
    now = [letter for letter in await letters(world.client()) if letter["status"] == "parked"]
    kept = [letter for letter in now if letter not in before]
    oracle.verdict.check(not kept, f"letters are left: {kept}")
    return await oracle.judge()


async def load_and_poison(
    world: World, workload: Workload, driven: Request, dose: Dose, verdict: Verdict
) -> None:
    """Send the poisoned messages into a steady load, and wait for all answers."""
    for agent, poison in zip(workload.agents, COMMANDS, strict=False):
        request = workload.request(agent, tool=True, lane=SICK_LANE)
        world.poison(poison.point, request.name + " ")
    world.poison(DRIVE.point, driven.name + " ")
    sick = [request for request, _ in poisoned(workload)]
    sending = [asyncio.create_task(workload.send(request)) for request in [*sick, driven]]
    seconds = dose.messages * SECONDS_PER_MESSAGE
    await workload.run(dose.messages, seconds, world.random)
    await asyncio.gather(*sending)
    world.disarm()
    healthy = [request for request in workload.requests if request not in sick]
    attempt_seconds = max(request.seconds for request in [*sick, driven]) / ATTEMPTS_MAX
    check_others([request.seconds for request in healthy], attempt_seconds, verdict)
    for name, request in zip(("raising", "killing", "driving"), [*sick, driven], strict=True):
        verdict.figures[f"{name}_parked_seconds"] = request.seconds
        good = request.answer.status == 500 and request.answer.headers["x-should-retry"] == "false"
        said = f"{request.answer.status} {request.answer.body[:300]!r}"
        verdict.check(good, f"the {name} message was answered {said}")
        verdict.check(request.seconds <= PARKED_SECONDS_MAX, f"{name}: {request.seconds:.0f} s")
        verdict.check(b"letter-" in request.answer.body, f"{name}: no letter in {said}")


def check_others(seconds: list[float], attempt_seconds: float, verdict: Verdict) -> None:
    """Those who are not poisoned are answered soon all the same."""
    death_seconds = min(attempt_seconds, ATTEMPT_SECONDS_MAX)
    p99_seconds_max = LEASE_SECONDS + DEATHS_WAITED_FOR * death_seconds
    for share, most in ((0.50, OTHERS_P50_SECONDS_MAX), (0.99, p99_seconds_max)):
        waited = percentile(sorted(seconds), share)
        verdict.figures[f"others_p{share * 100:.0f}_seconds"] = waited
        verdict.in_time(waited, most, f"others: p{share * 100:.0f}")


def poisoned(workload: Workload) -> list[tuple[Request, Poison]]:
    """The poisoned messages that are to take effect in the end."""
    return list(zip(workload.requests, COMMANDS, strict=False))


async def letters(client: Client) -> list[dict[str, Any]]:
    """All dead letters that there are."""
    listed: list[dict[str, Any]] = await client.get(f"{ADMIN}?limit=1000")
    return listed


def letter_of(parked: list[dict[str, Any]], request: Request) -> dict[str, Any] | None:
    """The letter that the answer to a request names."""
    return next((letter for letter in parked if letter["id"].encode() in request.answer.body), None)


def check_letters(parked: list[dict[str, Any]], requests: list[Request], verdict: Verdict) -> None:
    """The poisoned messages are parked, after few attempts, and nothing else is."""
    found = sorted((letter["kind"], letter["error_class"]) for letter in parked)
    wanted = sorted((command.kind, command.error) for command in (*COMMANDS, DRIVE))
    verdict.check(found == wanted, f"parked are {found}, not {wanted}")
    for letter in parked:
        verdict.figures[f"{letter['kind']}_{letter['error_class'].rpartition('.')[2]}_attempts"] = (
            letter["attempts"]
        )
        verdict.check(
            letter["attempts"] <= ATTEMPTS_MAX, f"{letter['id']}: {letter['attempts']} attempts"
        )
        said = [request for request in requests if f"{request.name} " in str(letter["payload"])]
        verdict.check(
            letter["kind"] == "run" or len(said) == 1, f"{letter['id']}: {letter['payload']}"
        )


async def check_next_message(victims: Workload, verdict: Verdict) -> None:
    """The agent whose run was given up answers the next message."""
    request = victims.request(victims.agents[0], tool=False)
    await victims.send(request)
    verdict.check(request.answer.ok, f"the next message got {request.answer.status}")


async def replay(
    workload: Workload, request: Request, letter: dict[str, Any], verdict: Verdict
) -> None:
    """Replay a letter several times at once; its sender is then answered as if nothing was."""
    path = f"{ADMIN}/{letter['id']}/replay"
    answers = await asyncio.gather(*(workload.client.send("POST", path) for _ in range(REPLAYS)))
    statuses = [(answer.status, answer.json().get("status")) for answer in answers]
    verdict.check(statuses == [(200, "replayed")] * REPLAYS, f"replays were answered {statuses}")
    sent_at = request.sent_at
    await workload.send(request)
    request.sent_at = sent_at


@asynccontextmanager
async def deaths(world: World) -> AsyncIterator[None]:
    """Note every agent process that dies meanwhile; the oracle has to know."""
    known = {process.pid for process in world.agents()}

    async def look() -> None:
        nonlocal known
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            alive = {process.pid for process in world.agents()}
            world.kills += [Kill(time.monotonic(), "agent") for _ in known - alive]
            known = alive

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
