"""R29 and R37: what the others notice while the model is slow, or a server is away."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from tests.chaos.client import Client
from tests.chaos.dose import Dose
from tests.chaos.kills import percentile
from tests.chaos.oracle import Verdict, begin
from tests.chaos.world import World
from tests.waiting import wait_for

SLOW_MS = 10_000
POOL_CONNECTIONS_MAX = 8
READ_SECONDS_P99_MAX = 1.0
READS_PAUSE_SECONDS = 0.02
ASKED_SECONDS_MAX = 30.0
OUTAGE_SECONDS = 6.0
READERS = 4
BACK_SECONDS_MAX = 30.0
OWN_CONNECTIONS = "usename like 'heeler\\_%'"


async def r29_slow_models(world: World, dose: Dose) -> Verdict:
    """100 messages wait for a slow model at once; meanwhile nobody holds a connection."""
    workload, oracle = await begin(world, "R29", agents=dose.messages)
    verdict = oracle.verdict
    requests = [
        workload.request(agent, tool=False, script=f"SLOW:{SLOW_MS} ") for agent in workload.agents
    ]
    sending = [asyncio.create_task(workload.send(request)) for request in requests]
    await asyncio.gather(
        *(
            world.model.wait_for_asked(request.text, timeout_seconds=ASKED_SECONDS_MAX)
            for request in requests[-1:]
        )
    )
    reads: list[float] = []
    client = Client(world.heeler.base_url)
    while not any(task.done() for task in sending):
        agent = world.random.choice(workload.agents)
        began = time.monotonic()
        answer = await client.once("GET", f"/v1/agents/{agent}")
        reads.append(time.monotonic() - began)
        verdict.check(answer.status == 200, f"a read was answered {answer.status}")
        if len(reads) % 20 == 1:
            await check_connections(world, verdict)
        await asyncio.sleep(READS_PAUSE_SECONDS)
    await asyncio.gather(*sending)
    verdict.figures["read_seconds_p99"] = percentile(sorted(reads), 0.99)
    verdict.figures["reads"] = len(reads)
    return await oracle.judge()


async def check_connections(world: World, verdict: Verdict) -> None:
    """Few connections, and no transaction that lasts: statements here take milliseconds."""
    rows = await world.sql(
        f"select usename, count(*) from pg_stat_activity where {OWN_CONNECTIONS} group by usename"
    )
    for user, connections in rows:
        verdict.check(connections <= POOL_CONNECTIONS_MAX, f"{user} has {connections} connections")
        name = f"connections_max_{user}"
        verdict.figures[name] = max(verdict.figures.get(name, 0), connections)
    held = await world.sql(
        f"select usename, state, query from pg_stat_activity where {OWN_CONNECTIONS}"
        " and xact_start < now() - interval '1 second'"
    )
    verdict.check(not held, f"transactions are held open: {held}")


async def r37_outage_is_not_absence(world: World, dose: Dose) -> Verdict:
    """While Postgres or NATS is away an agent is unreachable, never unknown."""
    workload, oracle = await begin(world, "R37", agents=dose.agents)
    for part in ("postgres", "nats") * dose.faults:
        seen: Counter[int] = Counter()
        readers = [
            asyncio.create_task(read_on(world, agent, seen)) for agent in workload.agents[:READERS]
        ]
        async with world.without(part):
            await asyncio.sleep(OUTAGE_SECONDS)
        known = seen[200]
        await wait_for("reads work again", lambda: seen[200] > known, BACK_SECONDS_MAX)  # noqa: B023
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        oracle.verdict.check(set(seen) <= {200, 503}, f"without {part}: {dict(seen)}")
        oracle.verdict.figures |= {f"{part}_{code}": times for code, times in seen.items()}
    return await oracle.judge()


async def read_on(world: World, agent: str, seen: Counter[int]) -> None:
    """Read an agent, its history and its block again and again, and count the answers."""
    client = world.client()
    paths = ("", "/messages", "/core-memory/blocks/ledger")
    while True:
        for path in paths:
            answer = await client.once("GET", f"/v1/agents/{agent}{path}")
            seen[answer.status] += 1
            await asyncio.sleep(READS_PAUSE_SECONDS)
